"""Run: the command that makes a release, its options, its progress, and what came of earlier ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from shoal.core.errors import UsageError
from shoal.core.wording import parameters_text
from shoal.studio.answers import Form, Place, Visit, page, require_policy
from shoal.studio.jobs import Job
from shoal.studio.project import Project
from shoal.studio.solutions import KIND, RELEASE, describe_promises, list_measures, name_of, remember

_HERE = "/run"
_FORMATS = ("", "csv", "parquet")
_MOST_NAME = 60


place = Place("Run", _HERE, 40, require_policy)


def options(form: Form) -> list[str]:
    """Return the options of the command that a form asks for."""
    found: list[str] = []
    if form.get("format"):
        if form.get("format") not in _FORMATS:
            raise UsageError("the format is csv or parquet")
        found += ["--format", form.get("format")]
    seed = form.get("seed").strip()
    if seed:
        if not (seed.isascii() and seed.isdigit() and len(seed) < 20):
            raise UsageError("a seed is a whole number from 0 on; leave it empty for chance of the operating system")
        found += ["--seed", seed]
    if form.get("utility") == "full":
        found += ["--utility", "full"]
    return found


def show(visit: Visit) -> Response:
    """Show the command and its options, what runs now, and what ran before."""
    project = visit.project
    runs = visit.studio.jobs.of(project, KIND)
    return visit.render(
        "run.html",
        runs=[_describe(job) for job in runs],
        problems=(problems := project.problems()),
        asked="" if problems else _describe_policy(project.document),
        command=_command(project, Form([("utility", "full")])),
        next_name=f"Solution {1 + len(runs)}",
    )


def _describe_policy(document: Mapping[str, Any]) -> str:
    """Say what a usable policy asks for: the method and the guarantees."""
    method = document.get("method", "mondrian")
    promises = [
        f"{name} ({parameters_text(given)})" if given else name
        for entry in document.get("privacy") or ()
        for name, given in ({entry: {}} if isinstance(entry, str) else entry).items()
    ]
    name = method if isinstance(method, str) else next(iter(method))
    return f"{name}, with {', '.join(promises)}" if promises else name


def command(visit: Visit) -> Response:
    """Return the command that the options of the form ask for, as text."""
    return PlainTextResponse(_command(visit.project, visit.form))


def _command(project: Project, form: Form) -> str:
    return shlex.join(["shoal", "anonymize", project.name, "-p", "policy.yaml", "-o", RELEASE, *options(form)])


def _describe(job: Job) -> dict[str, Any]:
    utility = job.answer.get("utility", {}) if job.state == "done" else {}
    return {
        "job": job,
        "name": name_of(job),
        "method": str(job.answer.get("method", "")),
        "promises": describe_promises(job.answer) if job.state == "done" else [],
        "kept": list_measures(utility),
    }


def start(visit: Visit) -> Response:
    """Start a run with the policy as it is now."""
    project = visit.project
    found = project.problems()
    if found:
        raise UsageError(f"the policy cannot be run yet: {found[0].message}")
    if visit.form.revision != project.revision:
        raise UsageError("the policy was changed in another tab; reload this page and look at it first")
    chosen = options(visit.form)
    name = " ".join(visit.form.get("name").split())[:_MOST_NAME]
    folder = project.new_folder(KIND)
    policy = project.write_policy()
    arguments: list[str | Path] = ["anonymize", project.source, "-p", policy, "-o", folder / RELEASE]
    job = visit.studio.jobs.start(project, KIND, [*arguments, *chosen], folder)
    job.memory["name"] = name or f"Solution {len(visit.studio.jobs.of(project, KIND))}"
    job.memory["policy"], job.memory["policy file"] = project.policy_text, policy
    remember(job)
    return visit.to(visit.at(_HERE))


def forget(visit: Visit) -> Response:
    """Remove a run and what it made."""
    job = find_job(visit, "run", KIND)
    visit.studio.jobs.forget(job)
    visit.project.memory["runs"] = [
        kept_job for kept_job in visit.project.memory.get("runs", ()) if kept_job is not job
    ]
    return visit.to(visit.at(_HERE))


def take_back(visit: Visit) -> Response:
    """Make the policy of an earlier run the policy again."""
    job = find_job(visit, "run", KIND)
    visit.project.change_text(visit.form.revision, job.memory["policy"])
    return visit.to(visit.at("/policy"))


def find_job(visit: Visit, part: str = "job", kind: str | None = None) -> Job:
    """Return the run that a part of the path names, if it is the project's and, where a kind is named, of that kind."""
    job = visit.studio.jobs.find(visit.project, visit.request.path_params[part])
    if job is None or kind not in (None, job.kind):
        raise HTTPException(404)
    return job


def show_progress(visit: Visit) -> Response:
    """Show how far a run is, as a part of a page."""
    return visit.render("job.html", job=find_job(visit))


def cancel(visit: Visit) -> Response:
    """Ask a run to stop."""
    job = find_job(visit)
    job.cancel()
    job.finished.wait(timeout=2)
    return visit.render("job.html", job=job)


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(_PATH, start, "POST"),
    page(f"{_PATH}/command", command, "POST"),
    page(f"{_PATH}/{{run}}/forget", forget, "POST"),
    page(f"{_PATH}/{{run}}/policy", take_back, "POST"),
    page("/projects/{project}/jobs/{job}", show_progress),
    page("/projects/{project}/jobs/{job}/cancel", cancel, "POST"),
]

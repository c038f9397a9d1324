"""Run: the command that makes a release, its options, its progress, and what came of earlier ones."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.errors import UsageError
from shoal.studio.answers import Form, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.places import Place, usable
from shoal.studio.project import Project
from shoal.studio.solutions import KIND, RELEASE, kept, name_of, promised, remember

_HERE = "/run"
_FORMATS = ("", "csv", "parquet")
_MOST_NAME = 60


place = Place("Run", _HERE, 40, usable)


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
        runs=[_told(job, project) for job in runs],
        problems=project.problems(),
        command=shlex.join(["shoal", "anonymize", project.name, "-p", "policy.yaml", "-o", RELEASE]),
        next_name=f"Solution {1 + len(runs)}",
    )


def _told(job: Job, project: Project) -> dict[str, Any]:
    utility = job.answer.get("utility", {}) if job.state == "done" else {}
    return {
        "job": job,
        "name": name_of(job),
        "method": str(job.answer.get("method", "")),
        "promises": promised(job.answer) if job.state == "done" else [],
        "kept": kept(utility),
        "mend": mending(job, project) if job.state == "failed" else None,
    }


def mending(job: Job, project: Project) -> tuple[str, str]:
    """Return where a failure is mended: words and the path of the page."""
    at = f"/projects/{project.id}"
    message = job.message.lower()
    if job.exit_code == 3:
        return "Ask for less, allow records to be withheld, or choose another method", f"{at}/guarantees"
    if "taxonomy" in message or "taxonomies" in message:
        return "Mend the taxonomy", f"{at}/taxonomies"
    if job.exit_code == 2 and "column" in message:
        return "Look at the columns and their roles", f"{at}/columns"
    if job.exit_code == 2:
        return "Look at the policy", f"{at}/policy"
    return "Look at the policy, and try again", f"{at}/policy"


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
    job = visit.studio.jobs.find(visit.project, visit.request.path_params["run"])
    if job is None or job.kind != KIND:
        raise HTTPException(404)
    visit.studio.jobs.forget(job)
    visit.project.memory["runs"] = [
        kept_job for kept_job in visit.project.memory.get("runs", ()) if kept_job is not job
    ]
    return visit.to(visit.at(_HERE))


def take_back(visit: Visit) -> Response:
    """Make the policy of an earlier run the policy again."""
    job = visit.studio.jobs.find(visit.project, visit.request.path_params["run"])
    if job is None or "policy" not in job.memory:
        raise HTTPException(404)
    visit.project.change_text(visit.form.revision, job.memory["policy"])
    return visit.to(visit.at("/policy"))


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(_PATH, start, "POST"),
    page(f"{_PATH}/{{run}}/forget", forget, "POST"),
    page(f"{_PATH}/{{run}}/policy", take_back, "POST"),
]

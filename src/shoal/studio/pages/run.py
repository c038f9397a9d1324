"""Run: the command that makes a release, its options and progress; and the releases for other pages.

An archive has either the public files or the internal ones.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from shoal.core.errors import UsageError
from shoal.core.wording import parameters_text
from shoal.policy.policy import ReleaseOptions
from shoal.release.release import INTERNAL, PUBLIC
from shoal.studio.answers import Content, Form, Place, Visit, page, require_policy
from shoal.studio.jobs import Job
from shoal.studio.pages.guarantees import list_promises, split_entry
from shoal.studio.project import Project
from shoal.utility.base import list_figures

KIND = "run"
RELEASE = "release"
FOLDERS = {"internal": INTERNAL, "public": PUBLIC}  # by audience
_HERE = "/run"
_FORMATS = ("", "csv", "parquet")
_MOST_NAME = 60


def options(form: Form) -> list[str]:
    """Return the options of the command for a form."""
    found: list[str] = []
    if form.get("format"):
        if form.get("format") not in _FORMATS:
            raise UsageError("the format must be csv or parquet")
        found += ["--format", form.get("format")]
    seed = form.get("seed").strip()
    if seed:
        if not (seed.isascii() and seed.isdigit() and len(seed) < 20):
            raise UsageError("a seed must be a whole number of at least 0; leave it empty for a random one")
        found += ["--seed", seed]
    if form.get("utility") == "full":
        found += ["--utility", "full"]
    return found


def show(visit: Visit) -> Response:
    project = visit.project
    runs = project.jobs_of(KIND)
    return visit.render(
        "run.html",
        runs=[
            {
                "job": job,
                "name": name_of(job),
                "method": str(job.answer.get("method", "")),
                "promises": describe_promises(job.answer) if job.state == "done" else [],
                "decision": decision_of(job) if job.state == "done" else None,
                "kept": list_measures(job.answer.get("utility", {}) if job.state == "done" else {}),
            }
            for job in runs
        ],
        problems=(problems := project.problems()),
        asked="" if problems else _describe_policy(project.document),
        command=_command(project, Form([("utility", "full")])),
        next_name=f"Solution {1 + len(runs)}",
        about=[(name, field.description) for name, field in ReleaseOptions.model_fields.items()],
    )


def describe_release(visit: Visit) -> Response:
    """Save the reports' description of the release in the policy."""
    document, given = visit.project.document, {name: visit.form.get(name) for name in ReleaseOptions.model_fields}
    said: Content = {name: " ".join(text.split()) for name, text in given.items() if text.strip()}
    if "threshold" in said:
        with suppress(ValueError):
            said["threshold"] = float(said["threshold"])
        if not (isinstance(said["threshold"], float) and 0 < said["threshold"] <= 1):
            raise UsageError("the threshold is a number above 0 and at most 1, like 0.09; correct it and save again")
    document.pop("release", None)
    visit.project.change(visit.form.revision, {**document, "release": said} if said else document)
    return visit.to(visit.at(_HERE))


def _describe_policy(document: Mapping[str, Any]) -> str:
    """Return the method and the guarantees of a usable policy."""
    method, _ = split_entry(document.get("method", "mondrian"))
    asked = [f"{name} ({parameters_text(given)})" if given else name for name, given in list_promises(document)]
    return f"{method}, with {', '.join(asked)}" if asked else method


def command(visit: Visit) -> Response:
    return PlainTextResponse(_command(visit.project, visit.form))


def _command(project: Project, form: Form) -> str:
    return shlex.join(["shoal", "anonymize", project.name, "-p", "policy.yaml", "-o", RELEASE, *options(form)])


def refuse_problems(project: Project) -> None:
    if found := project.problems():
        raise UsageError(f"the policy cannot be run yet: {found[0].message}")


def start(visit: Visit) -> Response:
    project = visit.project
    refuse_problems(project)
    if visit.form.revision != project.revision:
        raise UsageError("the policy was changed in another tab; reload this page and check it first")
    chosen = options(visit.form)
    name = " ".join(visit.form.get("name").split())[:_MOST_NAME] or f"Solution {1 + len(project.jobs_of(KIND))}"
    folder, policy = project.new_folder(KIND), project.write_policy()
    arguments: list[str | Path] = ["anonymize", project.source, "-p", policy, "-o", folder / RELEASE, *chosen]
    kept = {"name": name, "policy": project.policy_text, "policy file": policy}
    visit.studio.jobs.start(project, KIND, arguments, folder, **kept)
    return visit.to(visit.at(_HERE))


def forget(visit: Visit) -> Response:
    visit.studio.jobs.forget(find_job(visit, "run", KIND))
    return visit.to(visit.at(_HERE))


def take_back(visit: Visit) -> Response:
    """Restore the policy of an earlier run, perhaps of an earlier session."""
    wanted = visit.request.path_params["run"]
    earlier = next((run["policy"] for run in visit.project.earlier if run["id"] == wanted), None)
    text = find_job(visit, "run", KIND).memory["policy"] if earlier is None else earlier
    visit.project.change_text(visit.form.revision, text)
    return visit.to(visit.at("/policy"))


def find_job(visit: Visit, part: str = "job", kind: str | None = None) -> Job:
    """Return the project's run that a part of the path names, optionally of one kind."""
    for job in visit.project.jobs_of(kind):
        if job.id == visit.request.path_params[part]:
            return job
    raise HTTPException(404)


def show_progress(visit: Visit) -> Response:
    return visit.render("job.html", job=find_job(visit))


def cancel(visit: Visit) -> Response:
    job = find_job(visit)
    job.cancel()
    job.finished.wait(timeout=2)
    return visit.render("job.html", job=job)


def list_solutions(project: Project) -> list[Job]:
    return [job for job in project.jobs_of(KIND) if job.state == "done"]


def require_release(project: Project) -> str | None:
    return None if list_solutions(project) else "run it first"


def find_solution(visit: Visit) -> Job:
    """Return the run in the path if it has a release."""
    run = find_job(visit, "run", KIND)
    if run.state != "done":
        raise HTTPException(404)
    return run


def show_solution(visit: Visit, template: str, title: str, describe: Callable[[Job], Mapping[str, Any]]) -> Response:
    """Show the run in the path, by default the newest, with the values from *describe*."""
    solutions = list_solutions(visit.project)
    run = find_solution(visit) if "run" in visit.request.path_params else next(iter(solutions), None)
    if run is None:
        return visit.render("nothing_yet.html", title=title)
    others = [other for other in solutions if other is not run]
    return visit.render(template, run=run, name=name_of(run), others=others, **describe(run))


def describe_jobs(jobs: Sequence[Job]) -> Content:
    """Return the running jobs, and the newest job if it has no result; *jobs* has the newest first."""
    newest = jobs[0] if jobs else None
    ended = newest is not None and newest.state in ("failed", "cancelled")
    return {"running": [job for job in jobs if job.state == "running"], "failed": newest if ended else None}


def name_of(job: Job) -> str:
    return str(job.memory.get("name") or "release")


def folder_of(job: Job) -> Path:
    if job.folder is None:
        raise FileNotFoundError(RELEASE)
    return job.folder / RELEASE


def decision_of(job: Job) -> Mapping[str, Any]:
    """Return the decision record of a run with the attacks recorded since."""
    found: Mapping[str, Any] = json.loads((folder_of(job) / INTERNAL / "decision.json").read_text(encoding="utf-8"))
    return found


def evidence_of(job: Job) -> Mapping[str, Any]:
    return _read(folder_of(job) / INTERNAL / "evidence.json")


@lru_cache(maxsize=8)
def _read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def describe_promises(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the promises and claims of a release, and the achieved values."""
    promised = [
        (entry, f"{entry['achieved']:.6g}" if entry.get("achieved") is not None else "")
        for entry in manifest.get("guarantees", ())
    ]
    claimed = [(entry, "claimed, not checked") for entry in manifest.get("claims", ())]
    return [
        {"model": str(entry["model"]), "asked": parameters_text(entry["parameters"]), "achieved": achieved}
        for entry, achieved in (*promised, *claimed)
    ]


def describe_solution(job: Job) -> Content:
    evidence, decision = evidence_of(job), decision_of(job)
    return {
        "id": job.id,
        "name": name_of(job),
        "method": job.answer["method"],
        "promises": describe_promises(job.answer),
        "rows": job.answer["rows"],
        "withheld": job.answer["withheld"],
        "highest": decision["risk"][0]["value"],
        "kept": evidence["marginals"][-1] if evidence["marginals"] else None,
        "measures": list_measures(job.answer.get("utility", {})),
        "findings": decision["findings"],
        "policy": job.memory["policy"],
    }


def list_measures(utility: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(name, title, f"{value:,.4g}") for name, title, value in list_figures(utility)]


def write_archive(release: Path, audience: str, archive: Path, inside: str) -> None:
    """Write one folder of a release as an archive atomically; its names begin with *inside*."""
    folder = release / FOLDERS[audience]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    number, name = tempfile.mkstemp(dir=archive.parent, prefix=".zip-")  # readable by its owner only
    waiting = Path(name)
    try:
        with os.fdopen(number, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as written:
            for path in files:
                kept = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
                entry = zipfile.ZipInfo(f"{inside}/{FOLDERS[audience]}/{path.relative_to(folder).as_posix()}")
                entry.compress_type, entry.external_attr = kept, 0o644 << 16
                with path.open("rb") as source, written.open(entry, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        waiting.replace(archive)
    finally:
        waiting.unlink(missing_ok=True)


place = Place("Run", _HERE, 40, require_policy)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(_PATH, start, "POST"),
    page(f"{_PATH}/about", describe_release, "POST"),
    page(f"{_PATH}/command", command, "POST"),
    page(f"{_PATH}/{{run}}/forget", forget, "POST"),
    page(f"{_PATH}/{{run}}/policy", take_back, "POST"),
    page("/projects/{project}/jobs/{job}", show_progress),
    page("/projects/{project}/jobs/{job}/cancel", cancel, "POST"),
]

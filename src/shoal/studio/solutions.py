"""Runs that made a release: what is kept of each, to look at and to compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from shoal.core.wording import parameters_text
from shoal.release.release import INTERNAL
from shoal.studio.answers import Visit
from shoal.studio.jobs import Job
from shoal.studio.project import Project
from shoal.utility.base import list_figures

KIND = "run"
RELEASE = "release"


def remember(job: Job) -> None:
    """Let the project know of a run, so that the steps which need one can be entered."""
    job.project.memory.setdefault("runs", []).append(job)


def solved(project: Project) -> str | None:
    """Return None if some run made a release, else what to do first."""
    return None if any(job.state == "done" for job in project.memory.get("runs", ())) else "run it first"


def solutions(visit: Visit) -> list[Job]:
    """Return the runs of a project that made a release, the newest first."""
    return [job for job in visit.studio.jobs.of(visit.project, KIND) if job.state == "done"]


def solution(visit: Visit) -> Job | None:
    """Return the run that the path names, or the newest if it names none; None if there is none."""
    found = solutions(visit)
    wanted = visit.request.path_params.get("run")
    if wanted is None:
        return found[0] if found else None
    return next((job for job in found if job.id == wanted), None)


def chosen_solution(visit: Visit) -> Job:
    """Return the run that the path names; there is no such page if there is no such run."""
    found = solution(visit)
    if found is None:
        raise HTTPException(404)
    return found


def looked_at(visit: Visit) -> Job | None:
    """Return the run to show, or None if there is none yet; one that the path names must be there."""
    return chosen_solution(visit) if "run" in visit.request.path_params else solution(visit)


def under_way(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the runs to watch, and the newest one if nothing came of it; *jobs* has the newest first."""
    newest = jobs[0] if jobs else None
    ended = newest is not None and newest.state in ("failed", "cancelled")
    return {"running": [job for job in jobs if job.state == "running"], "failed": newest if ended else None}


def name_of(job: Job) -> str:
    """Return what the run is called."""
    return str(job.memory.get("name") or "release")


def folder_of(job: Job) -> Path:
    """Return the folder of the release that a run made."""
    if job.folder is None:
        raise FileNotFoundError(RELEASE)
    return job.folder / RELEASE


def evidence_of(job: Job) -> Mapping[str, Any]:
    """Return the evidence of a run."""
    return _read(folder_of(job) / INTERNAL / "evidence.json")


@lru_cache(maxsize=8)
def _read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def promised(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a release promises, and what it reaches of that, for people."""
    found = [
        {
            "model": str(entry["model"]),
            "asked": parameters_text(entry["parameters"]),
            "achieved": f"{entry['achieved']:.6g}" if entry.get("achieved") is not None else "",
        }
        for entry in manifest.get("guarantees", ())
    ]
    found += [
        {
            "model": str(entry["model"]),
            "asked": parameters_text(entry["parameters"]),
            "achieved": "claimed, not checked",
        }
        for entry in manifest.get("claims", ())
    ]
    return found


def kept(utility: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the measures of what is left: name, what it says, and the figure."""
    return [(name, title, f"{value:,.4g}") for name, title, value in list_figures(utility)]

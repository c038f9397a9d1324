"""Runs that made a release: what is kept of each, to look at, to compare, and to download.

Archives have the public files or the internal ones, never both.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from starlette.exceptions import HTTPException

from shoal.core.wording import parameters_text
from shoal.release.release import INTERNAL, PUBLIC
from shoal.studio.answers import Visit
from shoal.studio.jobs import Job
from shoal.studio.project import Project
from shoal.utility.base import list_figures

KIND = "run"
RELEASE = "release"
Audience = Literal["public", "internal"]
_FOLDERS: dict[Audience, str] = {"public": PUBLIC, "internal": INTERNAL}


def remember(job: Job) -> None:
    """Let the project know of a run, so that the steps which need one can be entered."""
    job.project.memory.setdefault("runs", []).append(job)


def require_release(project: Project) -> str | None:
    """Return None if some run made a release, else what to do first."""
    return None if any(job.state == "done" for job in project.memory.get("runs", ())) else "run it first"


def list_solutions(visit: Visit) -> list[Job]:
    """Return the runs of a project that made a release, the newest first."""
    return [job for job in visit.studio.jobs.of(visit.project, KIND) if job.state == "done"]


def find_solution(visit: Visit) -> Job | None:
    """Return the run that the path names, or the newest if it names none; None if there is none."""
    found = list_solutions(visit)
    wanted = visit.request.path_params.get("run")
    if wanted is None:
        return found[0] if found else None
    return next((job for job in found if job.id == wanted), None)


def demand_solution(visit: Visit) -> Job:
    """Return the run that the path names; there is no such page if there is no such run."""
    found = find_solution(visit)
    if found is None:
        raise HTTPException(404)
    return found


def find_shown(visit: Visit) -> Job | None:
    """Return the run to show, or None if there is none yet; one that the path names must be there."""
    return demand_solution(visit) if "run" in visit.request.path_params else find_solution(visit)


def describe_jobs(jobs: Sequence[Job]) -> dict[str, Any]:
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


def describe_promises(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
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


def list_measures(utility: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the measures of what is left: name, what it says, and the figure."""
    return [(name, title, f"{value:,.4g}") for name, title, value in list_figures(utility)]


def write_archive(release: Path, audience: Audience, archive: Path, inside: str) -> None:
    """Write one folder of a release as an archive, whole or not at all; names in it begin with *inside*."""
    folder = release / _FOLDERS[audience]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    number, name = tempfile.mkstemp(dir=archive.parent, prefix=".zip-")  # readable by its owner alone
    waiting = Path(name)
    try:
        with os.fdopen(number, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as written:
            for path in files:
                kept = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
                entry = zipfile.ZipInfo(f"{inside}/{_FOLDERS[audience]}/{path.relative_to(folder).as_posix()}")
                entry.compress_type, entry.external_attr = kept, 0o644 << 16
                with path.open("rb") as source, written.open(entry, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        waiting.replace(archive)
    finally:
        waiting.unlink(missing_ok=True)


def extract_archive(archive: Path, folder: Path) -> None:
    """Write what an archive of ours holds into a new folder, to be looked at as its recipient would."""
    folder.mkdir(mode=0o700)
    with zipfile.ZipFile(archive) as found:
        found.extractall(folder)  # names were made by us: no paths upwards, no links

"""Report and download: both reports, and the release to download after another verification."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, Response

from shoal.release.release import INTERNAL, PUBLIC
from shoal.studio.answers import Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.pages import run as runs
from shoal.studio.pages.risk import describe_findings

_HERE = "/release"
_KIND = "verify"
# Reports contain their styles and no scripts; only the studio's pages may embed them.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)


def show(visit: Visit) -> Response:
    audience = _audience(visit)

    def describe(run: Job) -> Mapping[str, Any]:
        checks = run.project.jobs_of(_KIND, run=run.id)
        verified = _find_accepted(run)
        return {
            "audience": audience,
            "has_report": (runs.folder_of(run) / runs.FOLDERS[audience] / "report.html").is_file(),
            **runs.describe_jobs(checks),
            "verified": verified,
            "decision": (decision := runs.decision_of(run)),
            "findings": (found := describe_findings(decision["findings"], run.project.document)),
            "undecided": sum(
                one["severity"] == "high" and not (one["accepted_now"] or one["accepted"]) for one in found
            ),
            "told_later": [one["id"] for one in found if bool(one["accepted_now"]) != bool(one["accepted"])],
            "checks": [] if verified is None else verified.answer.get("checks", []),
            "files": [(path.name, path.stat().st_size) for path in _list_public(run)],
        }

    return runs.show_solution(visit, "release.html", "Report and download", describe)


def _audience(visit: Visit) -> str:
    audience = str(visit.request.path_params.get("audience", "internal"))
    if audience not in runs.FOLDERS:
        raise HTTPException(404)
    return audience


def _list_public(run: Job) -> list[Path]:
    folder = runs.folder_of(run) / PUBLIC
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def _find_accepted(run: Job) -> Job | None:
    """Return the check in which the verifier accepted the archive of a run, if there is one."""
    for job in run.project.jobs_of(_KIND, run=run.id):
        if job.state == "done" and job.exit_code == 0 and job.answer.get("verified") is True:
            return job
    return None


def report(visit: Visit) -> Response:
    path = runs.folder_of(runs.find_solution(visit)) / runs.FOLDERS[_audience(visit)] / "report.html"
    if not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def check(visit: Visit) -> Response:
    """Make the archive of the public folder, and verify its unpacked content as a recipient would."""
    project, run = visit.project, runs.find_solution(visit)
    folder = project.new_folder(_KIND)
    inside = _plain(runs.name_of(run))
    runs.write_archive(runs.folder_of(run), "public", folder / "public.zip", inside)
    shutil.unpack_archive(folder / "public.zip", folder / "unpacked")  # its names are the studio's own
    if (kept := runs.folder_of(run) / INTERNAL).is_dir():  # its witness is needed to count people
        shutil.copytree(kept, folder / "unpacked" / inside / INTERNAL)
    arguments: list[str | Path] = [
        "verify",
        folder / "unpacked" / inside,
        "--source",
        project.source,
        "-p",
        run.memory["policy file"],
    ]
    visit.studio.jobs.start(project, _KIND, arguments, folder, run=run.id)
    return visit.to(visit.at(f"{_HERE}/{run.id}"))


def _plain(name: str) -> str:
    """Return a name that is a valid folder on every system.

    >>> _plain("Solution 1: k/10")
    'Solution-1-k-10'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "release"


def _find_archive(run: Job) -> Path:
    """Return the folder of a run's verified archive, which every download requires."""
    job = _find_accepted(run)
    if job is None or job.folder is None:
        raise HTTPException(404)
    return job.folder


def download(visit: Visit) -> Response:
    """Return one folder of a verified release as an archive."""
    run, audience = runs.find_solution(visit), _audience(visit)
    archive = _find_archive(run) / f"{audience}.zip"
    if audience == "public":
        run.memory["downloaded"] = True
    else:  # attacks may have been recorded since the last download
        runs.write_archive(runs.folder_of(run), "internal", archive, _plain(runs.name_of(run)))
    return FileResponse(archive, media_type="application/zip", filename=f"{_plain(runs.name_of(run))}-{audience}.zip")


def single(visit: Visit) -> Response:
    """Return one public file of a verified release."""
    run = runs.find_solution(visit)
    _find_archive(run)
    for path in _list_public(run):
        if path.name == visit.request.path_params["name"]:
            return FileResponse(path, media_type="application/octet-stream", filename=path.name)
    raise HTTPException(404)


def policy(visit: Visit) -> Response:
    headers = {"content-disposition": 'attachment; filename="policy.yaml"'}
    text = str(runs.find_solution(visit).memory["policy"])
    return PlainTextResponse(text, headers=headers, media_type="application/yaml")


place = Place("Report & download", _HERE, 80, runs.require_release)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}/check", check, "POST"),
    page(f"{_PATH}/{{run}}/policy.yaml", policy),
    page(f"{_PATH}/{{run}}/{{audience}}", show),
    page(f"{_PATH}/{{run}}/{{audience}}/report.html", report),
    page(f"{_PATH}/{{run}}/{{audience}}/archive.zip", download),
    page(f"{_PATH}/{{run}}/files/{{name}}", single),
]

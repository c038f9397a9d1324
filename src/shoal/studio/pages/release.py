"""Report and download: both reports to read and print, and the release to download, verified once more."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, Response

from shoal.release.release import INTERNAL, PUBLIC
from shoal.studio.answers import Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.solutions import (
    demand_solution,
    describe_jobs,
    extract_archive,
    find_shown,
    folder_of,
    list_solutions,
    name_of,
    require_release,
    write_archive,
)
from shoal.studio.tables import public_files

_HERE = "/release"
_KIND = "verify"
_FOLDERS = {"internal": INTERNAL, "public": PUBLIC}
# A report has its style within and nothing else; it may be shown by the studio's own pages only, and runs nothing.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)

place = Place("Report & download", _HERE, 80, require_release)


def show(visit: Visit) -> Response:
    """Show a report and what can be downloaded."""
    run = find_shown(visit)
    if run is None:
        return visit.render("nothing_yet.html", title="Report and download")
    audience = visit.request.path_params.get("audience", "internal")
    if audience not in _FOLDERS:
        raise HTTPException(404)
    checks = [job for job in visit.studio.jobs.of(visit.project, _KIND) if job.memory.get("run") == run.id]
    verified = next((job for job in checks if _is_accepted(job)), None)
    return visit.render(
        "release.html",
        run=run,
        name=name_of(run),
        others=[other for other in list_solutions(visit) if other is not run],
        audience=audience,
        has_report=(folder_of(run) / _FOLDERS[audience] / "report.html").is_file(),
        **describe_jobs(checks),
        verified=verified,
        findings=run.answer.get("findings", []),
        checks=[] if verified is None else verified.answer.get("checks", []),
        files=[(path.name, path.stat().st_size) for path in public_files(folder_of(run))],
    )


def _is_accepted(job: Job) -> bool:
    return job.state == "done" and job.exit_code == 0 and job.answer.get("verified") is True


def report(visit: Visit) -> Response:
    """Return a report as a page of its own, which can do nothing but be read."""
    audience = visit.request.path_params["audience"]
    if audience not in _FOLDERS:
        raise HTTPException(404)
    path = folder_of(demand_solution(visit)) / _FOLDERS[audience] / "report.html"
    if not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def check(visit: Visit) -> Response:
    """Make the archive of the public folder, and verify what is in it as whoever receives it could."""
    project, run = visit.project, demand_solution(visit)
    folder = project.new_folder(_KIND)
    inside = _plain(name_of(run))
    write_archive(folder_of(run), "public", folder / "public.zip", inside)
    extract_archive(folder / "public.zip", folder / "unpacked")
    arguments: list[str | Path] = ["verify", folder / "unpacked" / inside, "--source", project.source]
    job = visit.studio.jobs.start(project, _KIND, [*arguments, "-p", run.memory["policy file"]], folder)
    job.memory["run"] = run.id
    return visit.to(visit.at(f"{_HERE}/{run.id}"))


def _plain(name: str) -> str:
    """Return a name that every system takes for a folder.

    >>> _plain("Solution 1: k/10")
    'Solution-1-k-10'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "release"


def _find_archive(visit: Visit, run: Job) -> Path:
    """Return the folder of the archive that the verifier accepted; without one nothing is given out."""
    for job in visit.studio.jobs.of(visit.project, _KIND):
        if job.memory.get("run") == run.id and _is_accepted(job) and job.folder is not None:
            return job.folder
    raise HTTPException(404)


def download(visit: Visit) -> Response:
    """Give out one folder of a verified release as an archive."""
    run, audience = demand_solution(visit), visit.request.path_params["audience"]
    folder = _find_archive(visit, run)
    if audience not in _FOLDERS:
        raise HTTPException(404)
    archive = folder / f"{audience}.zip"
    if audience == "internal":  # anew each time: attacks may have been recorded since
        write_archive(folder_of(run), "internal", archive, _plain(name_of(run)))
    return FileResponse(archive, media_type="application/zip", filename=f"{_plain(name_of(run))}-{audience}.zip")


def single(visit: Visit) -> Response:
    """Give out one public file of a verified release."""
    run = demand_solution(visit)
    _find_archive(visit, run)
    wanted = visit.request.path_params["name"]
    found = next((path for path in public_files(folder_of(run)) if path.name == wanted), None)
    if found is None:
        raise HTTPException(404)
    return FileResponse(found, media_type="application/octet-stream", filename=found.name)


def policy(visit: Visit) -> Response:
    """Give out the policy by which a release was made."""
    headers = {"content-disposition": 'attachment; filename="policy.yaml"'}
    text = str(demand_solution(visit).memory["policy"])
    return PlainTextResponse(text, headers=headers, media_type="application/yaml")


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

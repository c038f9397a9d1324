"""How far a run is, for pages that show one, and its cancel button."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.studio.answers import Visit, page
from shoal.studio.jobs import Job


def find_job(visit: Visit, part: str = "job", kind: str | None = None) -> Job:
    """Return the run that a part of the path names, if it is the project's and, where one is told, of that kind."""
    job = visit.studio.jobs.find(visit.project, visit.request.path_params[part])
    if job is None or kind not in (None, job.kind):
        raise HTTPException(404)
    return job


def show(visit: Visit) -> Response:
    """Show how far a run is, as a part of a page."""
    return visit.render("job.html", job=find_job(visit))


def cancel(visit: Visit) -> Response:
    """Ask a run to stop."""
    job = find_job(visit)
    job.cancel()
    job.finished.wait(timeout=2)
    return visit.render("job.html", job=job)


routes = [
    page("/projects/{project}/jobs/{job}", show),
    page("/projects/{project}/jobs/{job}/cancel", cancel, "POST"),
]

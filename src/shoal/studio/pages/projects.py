"""Projects: save one as a file, open it again, make a copy, and close it after asking."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.responses import Response

from shoal.studio.answers import Visit, page
from shoal.studio.pages.run import describe_solution, list_solutions
from shoal.studio.saving import ENDING, save_project


def save(visit: Visit) -> Response:
    """Give the project as a file."""
    project = visit.project
    runs = [*map(describe_solution, list_solutions(project)), *project.earlier]
    text = save_project(project, runs)
    project.saved = project.revision
    name = re.sub(r"[^\w.-]+", "-", Path(project.title).stem, flags=re.ASCII).strip("-.") or "project"
    headers = {"content-disposition": f'attachment; filename="{name}{ENDING}"'}
    return Response(text, media_type="application/json", headers=headers)


def duplicate(visit: Visit) -> Response:
    """Open the same table once more with the same policy, to try another one."""
    copy = visit.studio.duplicate(visit.project)
    return visit.to(f"/projects/{copy.id}/columns")


def ask_to_close(visit: Visit) -> Response:
    """Ask before anything is deleted, and say what would be lost."""
    return visit.render("close.html", hide_policy=True)


def close(visit: Visit) -> Response:
    """Close a table and remove what was made of it."""
    visit.studio.forget(visit.project)
    return visit.to("/")


_PATH = "/projects/{project}"
routes = [
    page(f"{_PATH}/save", save),
    page(f"{_PATH}/duplicate", duplicate, "POST"),
    page(f"{_PATH}/close", ask_to_close),
    page(f"{_PATH}/close", close, "POST"),
]

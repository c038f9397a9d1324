"""Columns: what each looks like, which role it has and why, and what is left to decide."""

from __future__ import annotations

from starlette.responses import Response

from shoal.studio.answers import Visit, page
from shoal.studio.places import Place


def show(visit: Visit) -> Response:
    """Show the columns."""
    return visit.render("columns.html")


place = Place("Columns", "/columns", 10)
routes = [page("/projects/{project}/columns", show)]

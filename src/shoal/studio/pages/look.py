"""The look of plots, which reports, notebooks and the studio have in common, as a file of its own."""

from __future__ import annotations

from starlette.responses import Response

from shoal.reports.plots import plot_style
from shoal.studio.answers import Visit, page


def style(_: Visit) -> Response:
    """Give the stylesheet of plots."""
    return Response(plot_style(), media_type="text/css")


routes = [page("/static/plots.css", style)]

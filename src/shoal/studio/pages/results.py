"""Results: what a run achieved, and the table before and after side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from shoal.reports.plots import histogram, plot_style, release_plots
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.answers import Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.solutions import (
    demand_solution,
    describe_promises,
    evidence_of,
    find_shown,
    folder_of,
    list_measures,
    list_solutions,
    name_of,
    require_release,
)
from shoal.studio.tables import OpenedTable, Rows, bars_of, first_rows, label_order, open_released

_HERE = "/results"
_ROWS = 12
_FIRST = "first rows"  # what is kept of a run
_COUNTED_AT_ONCE = 200_000  # records of a table whose values are counted before anybody asks


place = Place("Results", _HERE, 50, require_release)


def show(visit: Visit) -> Response:
    """Show the newest result, or the one that the path names."""
    job = find_shown(visit)
    if job is None:
        return visit.render("nothing_yet.html", title="Results")
    evidence = evidence_of(job)
    before, after, columns = _sides(visit, job, {})
    return visit.render(
        "results.html",
        job=job,
        name=name_of(job),
        others=[other for other in list_solutions(visit) if other is not job],
        manifest=job.answer,
        promises=describe_promises(job.answer),
        checks=evidence["verification"]["checks"],
        warnings=evidence["warnings"],
        source_rows=evidence["source"]["rows"],
        measures=list_measures(
            {key: value for key, value in evidence["utility"].items() if not isinstance(value, Mapping)}
        ),
        plots=release_plots(evidence),
        before=before,
        after=after,
        columns=columns,
        filtered="",
        within="",
        **_distributions(visit, job, columns[0] if columns and evidence["source"]["rows"] <= _COUNTED_AT_ONCE else ""),
    )


def rows(visit: Visit) -> Response:
    """Show the rows, before and after, that have a text in a column."""
    job = demand_solution(visit)
    column, text = visit.form.get("column"), visit.form.get("text").strip()
    before, after, columns = _sides(visit, job, {column: text} if text else {})
    return visit.render(
        "rows_part.html", job=job, before=before, after=after, columns=columns, filtered=text, within=column
    )


def values(visit: Visit) -> Response:
    """Show how often a column has which value, before and after."""
    job = demand_solution(visit)
    return visit.render("values_part.html", job=job, **_distributions(visit, job, visit.form.get("column")))


def _sides(visit: Visit, job: Job, filters: Mapping[str, str]) -> tuple[Rows, Rows, Sequence[str]]:
    """Return rows of the table and of the release, and the columns that both have."""
    if not filters and _FIRST in job.memory:
        return cast("tuple[Rows, Rows, Sequence[str]]", job.memory[_FIRST])
    source, released, _ = _open_sides(visit, job)
    tables = visit.studio.tables
    find = tables.take if filters else tables.find  # the first rows of all are soon read
    before = first_rows(find(source), source.columns, _ROWS, filters)
    after = first_rows(find(released), released.columns, _ROWS, filters)
    found = before, after, _list_shared(source, released)
    if not filters:
        job.memory[_FIRST] = found
    return found


def _distributions(visit: Visit, job: Job, column: str) -> dict[str, Any]:
    source, released, manifest = _open_sides(visit, job)
    shared = _list_shared(source, released)
    if column not in shared:
        return {"shared": shared, "column": "", "sides": []}
    order = label_order(manifest["attributes"].get(column, {}))
    tables = visit.studio.tables
    return {
        "shared": shared,
        "column": column,
        "sides": [
            (bars, histogram(bars.labels, bars.counts, f"{column} {when}"))
            for when, bars in (
                ("before", bars_of(tables.take(source), column)),
                ("after", bars_of(tables.take(released), column, order)),
            )
        ],
    }


def _open_sides(visit: Visit, job: Job) -> tuple[OpenedTable, OpenedTable, Mapping[str, Any]]:
    """Return the table as the run read it, with the columns that are published, the release, and its manifest."""
    path = visit.project.source
    options = SourceOptions(**(evidence_of(job)["policy"].get("source") or {}))
    source = open_source(path, options)
    released, manifest = open_released(folder_of(job))
    columns = [name for name in released.columns if name in source.schema.names] or source.schema.names
    return OpenedTable(source, path, options, tuple(columns)), released, manifest


def _list_shared(source: OpenedTable, released: OpenedTable) -> list[str]:
    return [name for name in source.columns if name in released.columns]


def style(_: Visit) -> Response:
    """Give the stylesheet of plots, which reports, notebooks and the studio have in common."""
    return Response(plot_style(), media_type="text/css")


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}/rows", rows, "POST"),
    page(f"{_PATH}/{{run}}/values", values, "POST"),
    page("/static/plots.css", style),
]

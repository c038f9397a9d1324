"""Results: what a run achieved, and the table before and after side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from shoal.reports.plots import histogram, plot_style, release_plots
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.answers import Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.pages.run import (
    describe_promises,
    evidence_of,
    find_solution,
    folder_of,
    list_measures,
    require_release,
    show_solution,
)
from shoal.studio.tables import OpenedTable, TableCache, bars_of, first_rows, label_order, open_released
from shoal.utility.marginals import describe_marginals

_HERE = "/results"
_ROWS = 12
_FIRST = "first rows"  # what is kept of a run
_COUNTED_AT_ONCE = 200_000  # records of a table whose values are counted before anybody asks


def show(visit: Visit) -> Response:
    """Show the newest result, or the one that the path names."""

    def describe(run: Job) -> Mapping[str, Any]:
        evidence, tables = evidence_of(run), visit.studio.tables
        if _FIRST not in run.memory:
            run.memory[_FIRST] = _list_rows(tables, run, {})
        content = run.memory[_FIRST]
        few = evidence["source"]["rows"] <= _COUNTED_AT_ONCE
        single = {key: value for key, value in evidence["utility"].items() if not isinstance(value, Mapping)}
        return {
            "manifest": run.answer,
            "promises": describe_promises(run.answer),
            "checks": evidence["verification"]["checks"],
            "warnings": evidence["warnings"],
            "source_rows": evidence["source"]["rows"],
            "kept": describe_marginals(evidence["marginals"]),
            "measures": list_measures(single),
            "plots": release_plots(evidence),
            **content,
            **_count_values(tables, run, content["columns"][0] if few and content["columns"] else ""),
        }

    return show_solution(visit, "results.html", "Results", describe)


def rows(visit: Visit) -> Response:
    """Show the rows, before and after, that have a text in a column."""
    run, text = find_solution(visit), visit.form.get("text").strip()
    found = _list_rows(visit.studio.tables, run, {visit.form.get("column"): text} if text else {})
    return visit.render("rows_part.html", run=run, **found | {"within": visit.form.get("column")})


def values(visit: Visit) -> Response:
    """Show how often a column has which value, before and after."""
    run = find_solution(visit)
    return visit.render(
        "values_part.html", run=run, **_count_values(visit.studio.tables, run, visit.form.get("column"))
    )


def _list_rows(tables: TableCache, run: Job, filters: Mapping[str, str]) -> dict[str, Any]:
    """Return rows of the table and of the release, and the columns that both have."""
    source, released, _ = _open_sides(run)
    find = tables.take if filters else tables.find  # the first rows of all are soon read
    return {
        "before": first_rows(find(source), source.columns, _ROWS, filters),
        "after": first_rows(find(released), released.columns, _ROWS, filters),
        "columns": _list_shared(source, released),
        "filtered": "".join(filters.values()),
        "within": "",
    }


def _count_values(tables: TableCache, run: Job, column: str) -> dict[str, Any]:
    """Return how often a column has which value before and after; nothing if not both sides have it."""
    source, released, manifest = _open_sides(run)
    shared = _list_shared(source, released)
    if column not in shared:
        return {"shared": shared, "column": "", "sides": []}
    order = label_order(manifest["attributes"].get(column, {}))
    before, after = bars_of(tables.take(source), column), bars_of(tables.take(released), column, order)
    sides = [
        (bars, histogram(bars.labels, bars.counts, f"{column} {when}"))
        for when, bars in (("before", before), ("after", after))
    ]
    return {"shared": shared, "column": column, "sides": sides}


def _open_sides(run: Job) -> tuple[OpenedTable, OpenedTable, Mapping[str, Any]]:
    """Return the table as the run read it, with the columns that are published, the release, and its manifest."""
    path = run.project.source
    options = SourceOptions(**(evidence_of(run)["policy"].get("source") or {}))
    source = open_source(path, options)
    released, manifest = open_released(folder_of(run))
    columns = [name for name in released.columns if name in source.schema.names] or source.schema.names
    return OpenedTable(source, path, options, tuple(columns)), released, manifest


def _list_shared(source: OpenedTable, released: OpenedTable) -> Sequence[str]:
    return [name for name in source.columns if name in released.columns]


def style(_: Visit) -> Response:
    """Give the stylesheet of plots, which reports, notebooks and the studio have in common."""
    return Response(plot_style(), media_type="text/css")


place = Place("Results", _HERE, 50, require_release)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}/rows", rows, "POST"),
    page(f"{_PATH}/{{run}}/values", values, "POST"),
    page("/static/plots.css", style),
]

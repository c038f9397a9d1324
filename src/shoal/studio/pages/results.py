"""Results: what a run achieved, and the table before and after side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.sources import Source, SourceOptions, open_source
from shoal.studio.answers import Visit, page
from shoal.studio.jobs import Job
from shoal.studio.places import Place
from shoal.studio.plotting import distribution, release_plots
from shoal.studio.previewing import Rows, bars_of, first_rows, label_order, open_released
from shoal.studio.solutions import evidence_of, folder_of, kept, name_of, promised, solution, solutions, solved

_HERE = "/results"
_ROWS = 12
_COUNTED_AT_ONCE = 200_000  # records of a table whose values are counted before anybody asks


place = Place("Results", _HERE, 50, solved)


def show(visit: Visit) -> Response:
    """Show the newest result, or the one that the path names."""
    job = solution(visit)
    if job is None:
        if "run" in visit.request.path_params:
            raise HTTPException(404)
        return visit.render("nothing-yet.html", title="Results")
    evidence = evidence_of(job)
    before, after, columns = _sides(visit, job, {})
    return visit.render(
        "results.html",
        job=job,
        name=name_of(job),
        others=[other for other in solutions(visit) if other is not job],
        manifest=job.answer,
        promises=promised(job.answer),
        checks=evidence["verification"]["checks"],
        warnings=evidence["warnings"],
        source_rows=evidence["source"]["rows"],
        measures=kept({key: value for key, value in evidence["utility"].items() if not isinstance(value, Mapping)}),
        plots=release_plots(evidence),
        before=before,
        after=after,
        columns=columns,
        filtered="",
        within="",
        **_distributions(visit, job, columns[0] if columns and evidence["source"]["rows"] <= _COUNTED_AT_ONCE else ""),
    )


def _found(visit: Visit) -> Job:
    job = solution(visit)
    if job is None:
        raise HTTPException(404)
    return job


def rows(visit: Visit) -> Response:
    """Show the rows, before and after, that have a text in a column."""
    job = _found(visit)
    column, text = visit.form.get("column"), visit.form.get("text").strip()
    before, after, columns = _sides(visit, job, {column: text} if text else {})
    return visit.render(
        "rows-part.html", job=job, before=before, after=after, columns=columns, filtered=text, within=column
    )


def values(visit: Visit) -> Response:
    """Show how often a column has which value, before and after."""
    job = _found(visit)
    return visit.render("values-part.html", job=job, **_distributions(visit, job, visit.form.get("column")))


def _sides(visit: Visit, job: Job, filters: Mapping[str, str]) -> tuple[Rows, Rows, Sequence[str]]:
    """Return rows of the table and of the release, and the columns that both have."""
    source = _source(visit, job)
    released, _ = open_released(folder_of(job))
    shared = [name for name in released.schema.names if name in source.schema.names]
    before = first_rows(source, shared or source.schema.names, _ROWS, filters)
    return before, first_rows(released, released.schema.names, _ROWS, filters), shared


def _distributions(visit: Visit, job: Job, column: str) -> dict[str, Any]:
    source = _source(visit, job)
    released, manifest = open_released(folder_of(job))
    shared = [name for name in released.schema.names if name in source.schema.names]
    if column not in shared:
        return {"shared": shared, "column": "", "sides": []}
    order = label_order(manifest["attributes"].get(column, {}))
    return {
        "shared": shared,
        "column": column,
        "sides": [
            (bars, distribution(bars, f"{column} {when}"))
            for when, bars in (
                ("before", bars_of(source, column)),
                ("after", bars_of(released, column, order)),
            )
        ],
    }


def _source(visit: Visit, job: Job) -> Source:
    """Return the table as the run read it."""
    return open_source(visit.project.source, SourceOptions(**(evidence_of(job)["policy"].get("source") or {})))


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}/rows", rows, "POST"),
    page(f"{_PATH}/{{run}}/values", values, "POST"),
]

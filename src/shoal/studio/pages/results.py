"""Results: the achieved guarantees, the change of every column, and the records at the highest risk.

Comparisons with the table and lists of records at risk appear only here; no file contains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from shoal.core.wording import count_noun
from shoal.policy.policy import Policy
from shoal.release.forms.base import read_form
from shoal.reports.before_after import MOST_CLASSES, UNCHANGED, BeforeAfter
from shoal.reports.internal import list_losses
from shoal.reports.plots import Plot, column_changes, plot_style, release_plots
from shoal.reports.templates import mark
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.answers import Content, Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.pages import run as runs
from shoal.studio.studio import first_rows, open_released
from shoal.utility.marginals import describe_marginals

_HERE = "/results"
_ROWS = 12
_FIRST = "first rows"  # keys of a run's memory
_COMPARED = "before and after"
_AT_ONCE = 200_000  # records of a table that is compared before the page is shown; larger ones follow later
_CLASSES = 15  # on a page
_OF_RISK = {"Risk of being found": True, "Class sizes": True, "Bucket sizes": True, "What became of each column": None}


def show(visit: Visit) -> Response:
    """Show the newest result, or the one in the path."""

    def describe(run: Job) -> Mapping[str, Any]:
        evidence = runs.evidence_of(run)
        if _FIRST not in run.memory:
            run.memory[_FIRST] = _list_rows(run)
        content = run.memory[_FIRST]
        compared = _describe_compared(run) if evidence["source"]["rows"] <= _AT_ONCE else {}
        single = {key: value for key, value in evidence["utility"].items() if not isinstance(value, Mapping)}
        return {
            "manifest": run.answer,
            "decision": runs.decision_of(run),
            "promises": runs.describe_promises(run.answer),
            "checks": evidence["verification"]["checks"],
            "warnings": evidence["warnings"],
            "source_rows": evidence["source"]["rows"],
            "kept": describe_marginals(evidence["marginals"]),
            "measures": runs.list_measures(single),
            "plots": _draw_plots(run, of_risk=False),
            **content,
            **compared,
        }

    return runs.show_solution(visit, "results.html", "Results", describe)


def compare(visit: Visit) -> Response:
    run = runs.find_solution(visit)
    return visit.render("compared.html", run=run, **_describe_compared(run))


def column(visit: Visit) -> Response:
    run = runs.find_solution(visit)
    return visit.render("column_part.html", run=run, **_describe_column(_read_sides(run), visit.form.get("column")))


def cross(visit: Visit) -> Response:
    run, pair = runs.find_solution(visit), (visit.form.get("first"), visit.form.get("second"))
    return visit.render("cross_part.html", run=run, **_describe_pair(_read_sides(run), *pair))


def classes(visit: Visit) -> Response:
    run, number = runs.find_solution(visit), visit.form.get("page")
    page_number = int(number) if number.isascii() and number.isdigit() and len(number) < 5 else 0
    return visit.render("classes_part.html", run=run, **_describe_classes(_read_sides(run), page_number))


def _read_sides(run: Job) -> BeforeAfter:
    """Return the table and the release, which stay in memory for one run of a project."""
    if _COMPARED not in run.memory:
        for other in run.project.jobs_of(runs.KIND):
            other.memory.pop(_COMPARED, None)
        policy = Policy.load(runs.evidence_of(run)["policy"], run.project.files)
        released, manifest = open_released(runs.folder_of(run))
        source = open_source(run.project.source, policy.source)
        run.memory[_COMPARED] = BeforeAfter.read(policy, source, released, read_form(manifest))
    found: BeforeAfter = run.memory[_COMPARED]
    return found


def _describe_compared(run: Job) -> Content:
    """Return the changes of every column, largest loss first, and the initial selections."""
    sides, evidence = _read_sides(run), runs.evidence_of(run)
    attributes, losses = sides.form.manifest.attributes, list_losses(sides.form, evidence)
    changes = evidence.get("columns", {})
    found: list[Content] = [
        {
            "name": name,
            "role": attributes[name].role,
            "says": sides.judge(name, changes.get(name), evidence.get("missing_markers", {}).get(name, 0)),
            "precision": None if name not in losses else 1 - losses[name],
            "kept": sides.measure_kept(name),
        }
        for name in sides.names
    ]
    same = [one for one in found if one["says"] == UNCHANGED]
    changed = sorted(
        (one for one in found if one["says"] != UNCHANGED), key=lambda one: (one["precision"] or 0.0, one["kept"])
    )
    first = [one["name"] for one in (*changed, *same)][:2]
    return {
        "compared": sides,
        "verdicts": [one | {"says": mark(one["says"])} for one in changed],
        "same": same,
        "reasons": _explain_kept(sides, evidence),
        "changes": column_changes(changes, evidence.get("rows_suppressed")) if changes else None,
        "unpublished": [name for name in run.project.columns if name not in attributes],
        "sampled": sides.source.num_rows < sides.tables.n_all_rows or sides.published.num_rows < sides.n_published,
        **_describe_column(sides, first[0] if first else ""),
        **_describe_pair(sides, first[0] if first else "", first[-1] if first else ""),
        **_describe_classes(sides, 0),
        "risk_plots": _draw_plots(run, of_risk=True),
    }


def _explain_kept(sides: BeforeAfter, evidence: Mapping[str, Any]) -> list[str]:
    manifest, weight = sides.form.manifest, sides.tables.weight
    reasons = {
        f"{count_noun(manifest.withheld, 'record')} withheld": manifest.withheld,
        f"{count_noun(manifest.missing.dropped, 'record')} with missing values dropped": manifest.missing.dropped,
        "a sample was drawn": "sample" in evidence,
        "the survey weights are not published": weight is not None and weight not in manifest.attributes,
    }
    return [words for words, holds in reasons.items() if holds]


def _draw_plots(run: Job, *, of_risk: bool) -> list[Plot]:
    return [plot for plot in release_plots(runs.evidence_of(run)) if _OF_RISK.get(plot.title, False) is of_risk]


def _describe_column(sides: BeforeAfter, name: str) -> Content:
    known = name in sides.names
    return {
        "column_names": sides.names,
        "column": name if known else "",
        "drawing": sides.draw(name) if known else None,
        "statistics": sides.summarize(name) if known else [],
    }


def _describe_pair(sides: BeforeAfter, first: str, second: str) -> Content:
    known = first in sides.names and second in sides.names and first != second
    pair = sides.cross(first, second) if known else None
    return {"column_names": sides.names, "first": first, "second": second, "pair": pair}


def _describe_classes(sides: BeforeAfter, number: int) -> Content:
    found = sides.risky_classes
    start = number * _CLASSES
    return {
        "class_columns": sides.form.class_columns,
        "classes": None if found is None else found[start : start + _CLASSES],
        "page_number": number,
        "more_classes": found is not None and start + _CLASSES < len(found),
        "most_classes": MOST_CLASSES,
        "of_people": sides.form.of_people,
    }


def _list_rows(run: Job) -> Content:
    """Return first rows of the table and of the release."""
    released, _ = open_released(runs.folder_of(run))
    source = open_source(run.project.source, SourceOptions(**(runs.evidence_of(run)["policy"].get("source") or {})))
    names = released.schema.names
    both = [name for name in names if name in source.schema.names]
    return {
        "before": first_rows(source, both or source.schema.names, _ROWS),
        "after": first_rows(released, names, _ROWS),
    }


def style(_: Visit) -> Response:
    return Response(plot_style(), media_type="text/css")


place = Place("Results", _HERE, 50, runs.require_release)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}/compared", compare, "POST"),
    page(f"{_PATH}/{{run}}/column", column, "POST"),
    page(f"{_PATH}/{{run}}/cross", cross, "POST"),
    page(f"{_PATH}/{{run}}/classes", classes, "POST"),
    page("/static/plots.css", style),
]

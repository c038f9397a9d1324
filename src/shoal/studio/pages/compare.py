"""Compare: sweeps over parameters and methods, by risk and by what is kept; and the solutions of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.compare.result import DEFAULT_WEIGHTS, PARTS
from shoal.core.documents import flow
from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.policy.policy import Policy
from shoal.reports.frontier import Point, frontier
from shoal.studio.answers import Content, Form, Place, Visit, page, require_policy
from shoal.studio.jobs import Job
from shoal.studio.pages import run as runs
from shoal.studio.pages.guarantees import list_parameters, start_of
from shoal.studio.project import Project

_HERE = "/compare"
KIND = "compare"
_USUAL = {"k-anonymity.k": "5, 10, 25", "column-frequency.k": "5, 10, 25", "max_withheld": "0, 0.01, 0.05"}


place = Place("Compare", _HERE, 60, require_policy)


def sweepable(project: Project) -> list[str]:
    """Return the parameters that a sweep may change: numbers of the promised models, and the share withheld."""
    if project.problems():
        return []
    policy = Policy.load(project.document, project.files)
    models = discover("shoal.models", PrivacyModel)
    found = [
        f"{model.name}.{field.name}"
        for model in policy.privacy
        for field in list_parameters(models[model.name])
        if field.shape in ("whole", "number")
    ]
    return [*dict.fromkeys(found), "max_withheld"]


def show(visit: Visit) -> Response:
    """Show what can be compared, how far a comparison is, and what the newest one found."""
    project = visit.project
    jobs = project.jobs_of(KIND)
    newest = next((job for job in jobs if job.state == "done"), None)
    last = jobs[0].memory if jobs else {"form": {}, "methods": []}
    rows = [] if newest is None else rank_rows(newest)
    promises = project.document.get("privacy")
    return visit.render(
        "compare.html",
        names=sweepable(project),
        usual=_USUAL,
        methods=[each for each in discover("shoal.methods", Method).values() if each.models != "none" or not promises],
        chosen=set(last["methods"]),
        parts=PARTS,
        usual_weights=DEFAULT_WEIGHTS,
        baseline=next((row["marginals"][-1] for row in rows if row.get("marginals")), None),
        asked=last["form"],
        **runs.describe_jobs(jobs),
        newest=newest,
        rows=rows,
        plot=frontier(points) if (points := list_points(rows)) else None,
        solutions=[*map(runs.describe_solution, runs.list_solutions(project)), *project.earlier],
    )


def rank_rows(job: Job) -> list[Content]:
    """Return the rows of a comparison, the best first; those that were not made come last."""
    rows = [
        {**row, "place": place, "promises": runs.describe_promises(row)}
        for place, row in enumerate(job.answer.get("rows", ()))
    ]
    return sorted(rows, key=lambda row: (row.get("rank") is None, row.get("rank") or 0))


def list_points(rows: Sequence[Mapping[str, Any]], page: str = "") -> list[Point]:
    """Return the points of ranked rows, which lead to the rows of the table on this *page*."""
    return [
        Point(
            str(row["name"]),
            row["risk"],
            row["kept"],
            bool(row["dominated_by"]),
            row["rank"],
            f"{page}#row-{row['place']}",
            row.get("risk_low"),
            row.get("risk_high"),
        )
        for row in rows
        if row.get("rank") is not None
    ]


def arguments(form: Form, names: list[str]) -> list[str]:
    """Return the options of ``shoal compare`` that a form asks for."""
    found: list[str] = []
    for name in names:
        values = ",".join(value for part in form.get(f"sweep {name}").split(",") if (value := part.strip()))
        if values:
            found += ["--sweep", f"{name}={values}"]
    known = discover("shoal.methods", Method)
    kinds = {name: known[name] for name in form.getlist("method") if name in known}
    if kinds:  # with usual values of what must be given
        usual = {name: start_of(kind, list_parameters(kind)) for name, kind in kinds.items()}
        found += ["--methods", ",".join(f"{name}{flow(given)}" if given else name for name, given in usual.items())]
    if not found:
        raise UsageError("there is nothing to compare: give values of a parameter, or choose methods")
    weights = {part: form.get(f"weight {part}").strip() for part in PARTS}
    changed = [
        f"{part}={weight}" for part, weight in weights.items() if weight not in ("", f"{DEFAULT_WEIGHTS[part]:g}")
    ]
    if changed:
        found += ["--weights", ",".join(changed)]
    for name in ("hold-out", "targets", "seed"):
        if given := form.get(name).strip():
            found += [f"--{name}", given]
    return found


def start(visit: Visit) -> Response:
    """Start a comparison by the policy as it is now."""
    project = visit.project
    runs.refuse_problems(project)
    chosen = arguments(visit.form, sweepable(project))
    command: list[str | Path] = ["compare", project.source, "-p", project.write_policy(), *chosen]
    kept: Content = {
        "form": dict(visit.form.multi_items()),
        "methods": visit.form.getlist("method"),
        "document": project.document,
    }
    visit.studio.jobs.start(project, KIND, command, **kept)
    return visit.to(visit.at(_HERE))


def take(visit: Visit) -> Response:
    """Make the policy of one row the project's policy."""
    job = runs.find_job(visit, kind=KIND)
    number, rows = visit.form.get("row"), job.answer.get("rows", [])
    if not (number.isascii() and number.isdigit() and int(number) < len(rows)):
        raise HTTPException(404)
    document = {**job.memory["document"], **rows[int(number)].get("changes", {})}
    visit.project.change(visit.form.revision, document)
    return visit.to(visit.at("/run"))


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(_PATH, start, "POST"),
    page(f"{_PATH}/{{job}}/use", take, "POST"),
]

"""Levels: the lattice of full-domain generalization as sliders and as a drawing, to choose a combination and run it."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence

from starlette.responses import Response

from shoal.core.errors import ShoalError, UsageError
from shoal.core.wording import count_noun, parameters_text, percent
from shoal.methods.incognito import Incognito
from shoal.methods.incognito.groups import Levels
from shoal.reports.frontier import frontier
from shoal.reports.plots import Plot, draw
from shoal.reports.svg import TEXT, WIDTH, Scale, diamond, element, line, place_text, text, tooltip
from shoal.studio.answers import Content, Place, Visit, page, require_policy
from shoal.studio.levels import Explorer, Point, ask_lattice, full_domain
from shoal.studio.pages.compare import KIND as COMPARED
from shoal.studio.pages.compare import list_points, rank_rows
from shoal.studio.pages.guarantees import require_quasi
from shoal.studio.project import Project

_HERE = "/levels"
_CHOSEN = "chosen levels"
_PATIENCE = 1.0  # seconds that the page waits for the table and the search
_MOST_LISTED = 50
_MOST_DRAWN = 4096
_LEFT, _TOP, _RIGHT, _BOTTOM = 62.0, 30.0, WIDTH - 16.0, 300.0


def _ready(project: Project) -> str | None:
    needed = require_policy(project) or require_quasi(project)
    return needed or (None if project.document.get("privacy") else "add a guarantee first")


def show(visit: Visit) -> Response:
    """Show the sliders, what their levels cost, and the newest comparison."""
    project = visit.project
    compared = next((job for job in project.jobs_of(COMPARED) if job.state == "done"), None)
    points = [] if compared is None else list_points(rank_rows(compared), visit.at("/compare"))
    return visit.render("levels.html", **_describe(visit, _PATIENCE), frontier=frontier(points) if points else None)


def show_part(visit: Visit) -> Response:
    return visit.render("levels_part.html", **_describe(visit, 0.1))


def _describe(visit: Visit, patience: float) -> Content:
    refusal = _ready(visit.project)
    explorer = None
    try:
        explorer = None if refusal else ask_lattice(visit.project, patience)
    except ShoalError as error:
        refusal = str(error)
    if explorer is None:
        return {"explorer": None, "refusal": refusal}
    levels = _find_current(visit.project, explorer)
    return {
        "refusal": None,
        "examples": explorer.examples(),
        **_describe_node(explorer, levels),
        **_describe_lattice(explorer),
    }


def _find_current(project: Project, explorer: Explorer) -> Levels:
    """Return the levels that were shown last, otherwise the policy's, otherwise the optimum or the highest."""
    method = project.document.get("method")
    own = method.get(Incognito.name) if isinstance(method, dict) else None
    named = own.get("levels") if isinstance(own, dict) else None
    chosen = [str(named.get(name, 0)) for name in explorer.names] if named else []
    for given in (project.memory.get(_CHOSEN, []), chosen):
        with contextlib.suppress(UsageError):  # levels of other taxonomies
            return explorer.read_levels(given)
    return explorer.survey.optimum or explorer.ladders.top


def _require(project: Project, patience: float = _PATIENCE) -> Explorer:
    explorer = ask_lattice(project, patience)
    if explorer is None:
        raise UsageError("the policy was changed, and the table is being counted again; reload this page")
    return explorer


def show_node(visit: Visit) -> Response:
    """Show the cost and the risk at the levels of the sliders."""
    explorer, given = _require(visit.project), visit.form.getlist("level")
    levels = explorer.read_levels(given)
    visit.project.memory[_CHOSEN] = given
    return visit.render("levels_node.html", **_describe_node(explorer, levels))


def show_lattice(visit: Visit) -> Response:
    return visit.render("levels_lattice.html", **_describe_lattice(_require(visit.project, 0.0)))


def _describe_node(explorer: Explorer, levels: Levels) -> Content:
    node = explorer.look(levels)
    side = node.published if node.holds and node.published else node.everything
    x, y = _scales(explorer)
    models = {one.number: one.model for one in explorer.problem.requirements}
    said = {
        number: parameters_text({key: value for key, value in given.items() if value not in ([], None)})
        for number, model in models.items()
        if (given := model.model_dump(mode="json", exclude_unset=True))
    }
    return {
        "explorer": explorer,
        "levels": levels,
        "node": node,
        "optimum": explorer.survey.optimum,
        "guarantees": [(m.name, said.get(i, ""), node.failing.get(i, 0)) for i, m in sorted(models.items())],
        "place": (place_text(x.place(side["loss"])), place_text(y.place(math.log10(side["prosecutor_mean"])))),
    }


def _describe_lattice(explorer: Explorer) -> Content:
    survey, sign = explorer.survey, -1 if explorer.judge.measure.name == "um" else 1
    holding = [one for one in survey.points.values() if one.holds]
    holding.sort(key=lambda one: (one.levels != survey.optimum, sign * one.loss, sum(one.levels)))
    drawn = [*holding, *(one for one in survey.points.values() if not one.holds)][:_MOST_DRAWN]
    x, y = _scales(explorer)
    places = [(x.place(one.loss), y.place(math.log10(one.mean_risk))) for one in drawn]
    nodes = [[round(a), round(b), ",".join(map(str, one.levels))] for one, (a, b) in zip(drawn, places, strict=True)]
    return {
        "explorer": explorer,
        "survey": survey,
        "listed": holding[:_MOST_LISTED],
        "n_holding": len(holding),
        "nodes": json.dumps(nodes, separators=(",", ":")),
        "plot": _draw(explorer, drawn, places) if survey.figures else None,
    }


def _scales(explorer: Explorer) -> tuple[Scale, Scale]:
    """Return the axis of loss, from the finest node to the coarsest, and the logarithmic axis of mean risk."""
    low, high = sorted(explorer.ends)
    lowest = math.floor(math.log10(1 / max(explorer.problem.cells.n_records, 10)))
    return Scale(low, high if high > low else low + 1, _LEFT, _RIGHT), Scale(lowest, 0, _BOTTOM, _TOP)


def _draw(explorer: Explorer, drawn: Sequence[Point], places: Sequence[tuple[float, float]]) -> Plot:
    """Draw nodes by loss and mean risk: filled if they hold, the optimum as a diamond."""
    x, y = _scales(explorer)
    parts = []
    for tick in range(round(y.low), 1):
        parts.append(line(_LEFT, y.place(tick), _RIGHT, y.place(tick), "plot-grid"))
        parts.append(text(_LEFT - 7, y.place(tick) + TEXT / 3, percent(10.0**tick), "plot-soft", anchor="end"))
    for mark in x.ticks():
        parts.append(line(x.place(mark), _TOP, x.place(mark), _BOTTOM, "plot-grid"))
        parts.append(text(x.place(mark), _BOTTOM + TEXT + 4, f"{mark:,.4g}", "plot-soft", anchor="middle"))
    parts += [line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "plot-axis"), line(_LEFT, _TOP, _LEFT, _BOTTOM, "plot-axis")]
    measure = explorer.judge.measure.name
    kept, better = ("kept", "more") if measure == "um" else ("lost", "less")
    parts.append(text(4, TEXT + 2, "mean risk of re-identification (less is better)", "plot-soft"))
    below = f"{measure}: information {kept} ({better} is better)"
    parts.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 2 * TEXT + 12, below, "plot-soft", anchor="middle"))
    dots = [(bool(one.holds), f"M{place_text(a)} {place_text(b)}h0") for one, (a, b) in zip(drawn, places, strict=True)]
    for look in (False, True):
        if path := "".join(dot for holds, dot in dots if holds == look):
            parts.append(element("path", d=path, class_="levels-holds" if look else "levels-fails"))
    best = explorer.survey.optimum
    for one, (a, b) in zip(drawn, places, strict=True):
        if one.levels == best:
            parts.append(diamond(a, b, 8, "plot-before", tooltip(f"the optimum: {_name_levels(explorer, one.levels)}")))
    parts.append(element("circle", tooltip("the levels of the sliders"), id="here", r=9.0, class_="levels-here"))
    words = _summarize(explorer, sum(bool(one.holds) for one in explorer.survey.points.values()))
    return draw("Combinations of levels", words, parts, _BOTTOM + 2 * TEXT + 20, (), ())


def _name_levels(explorer: Explorer, levels: Levels) -> str:
    return ", ".join(f"{name} {level}" for name, level in zip(explorer.names, levels, strict=True))


def _summarize(explorer: Explorer, n_holding: int) -> str:
    survey, figures = explorer.survey, explorer.survey.figures
    seen, every = len(survey.points), explorer.n_nodes
    which = "All" if seen == every else f"{seen:,} of"
    words = f"{which} {count_noun(every, 'combination')} of levels {'were' if seen != 1 else 'was'} examined; "
    words += f"{n_holding:,} of these {'satisfies' if n_holding == 1 else 'satisfy'} every guarantee."
    if survey.optimum is None:
        return f"{words} {'No solution exists.' if figures.get('complete') else 'No solution has been found yet.'}"
    words += f" The optimum is {_name_levels(explorer, survey.optimum)} ({figures['measure']} {figures['optimum']:.4g})"
    return words + (
        ", which is proven." if figures["complete"] else f"; no combination is better than {figures['bound']:.4g}."
    )


def run(visit: Visit) -> Response:
    """Put the levels of the sliders into the policy, and go to the run."""
    explorer = _require(visit.project)
    levels = explorer.read_levels(visit.form.getlist("level"))
    if not explorer.look(levels).holds:
        raise UsageError("these levels break a guarantee; choose others, or allow more records to be withheld")
    chosen = dict(zip(explorer.names, levels, strict=True))
    visit.project.change(visit.form.revision, full_domain(visit.project.document, chosen))
    return visit.to(visit.at("/run"))


place = Place("Levels", _HERE, 37, _ready)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/part", show_part),
    page(f"{_PATH}/lattice", show_lattice),
    page(f"{_PATH}/node", show_node, "POST"),
    page(f"{_PATH}/run", run, "POST"),
]

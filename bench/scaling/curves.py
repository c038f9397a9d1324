"""The curves as pictures: what was measured as marks, what the model says as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.scaling.cost import IN_MEMORY, STEPS, Coefficients, Sizes, kind_of, predicted
from bench.scaling.points import of_series

Points = Sequence[Mapping[str, Any]]
Along = Callable[[Sizes, float], Sizes]  # the same sizes, with another number of what the curve is about


def draw_curves(points: Points, coefficients: Coefficients, folder: Path) -> None:
    """Write the pictures into *folder*."""
    from experiments.figures import require_plots, settings

    require_plots()
    import matplotlib

    with matplotlib.rc_context(settings()):
        _draw_model(points, coefficients, folder / "scaling-model.svg")
        _draw_others(points, folder / "scaling-others.svg")


def _figure(title: str, size: tuple[float, float]) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=size, dpi=110, layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    return figure


def _draw_model(points: Points, coefficients: Coefficients, path: Path) -> None:
    from experiments.figures import save

    figure = _figure("Mondrian, whole command: measured (marks) and the cost model (lines)", (13.0, 4.6))
    panels = figure.subplots(1, 3)
    for axes, name, key, along in (
        (panels[0], "rows", "rows", _more_rows),
        (panels[1], "cells", "cells", _more_cells),
        (panels[2], "quasi attributes", "quasi", None),
    ):
        found = sorted(of_series(points, key), key=lambda point: point[key])
        _steps(axes, found, key, coefficients, along)
        axes.set_xlabel(name)
        _frame(axes, log_places=along is not None)
    panels[2].set_xticks(sorted({point["quasi"] for point in of_series(points, "quasi")}))
    panels[0].set_title("stays, nearly every row a cell of its own", fontsize=10)
    panels[1].set_title(f"{of_series(points, 'cells')[0]['rows']:,} rows with more and more cells", fontsize=10)
    panels[2].set_title(f"{of_series(points, 'quasi')[0]['rows']:,} rows with more quasi attributes", fontsize=10)
    panels[0].set_ylabel("seconds")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    save(figure, path)


def _steps(axes: Any, points: Points, key: str, coefficients: Coefficients, along: Along | None) -> None:
    """Draw a mark for each step of each point, and the model's line through them."""
    from experiments.figures import LOOKS

    places = [float(point[key]) for point in points]
    if along is None:
        line, sizes = places, [Sizes.of(point) for point in points]
    else:
        line = list(np.geomspace(min(places), max(places), 40))
        sizes = [along(Sizes.of(points[0]), place) for place in line]
    model = [predicted(coefficients, IN_MEMORY, size) for size in sizes]
    for look, step in zip(LOOKS, STEPS, strict=False):
        marks = [point["seconds"][step] for point in points]
        fits = [point["use"] == "fit" for point in points]
        label = "start and the rest" if step == "rest" else step
        axes.plot(line, [stated[step] for stated in model], color=look.colour, linewidth=1.3)
        axes.plot(places, marks, look.marker, color=look.colour, markerfacecolor="white", label=label, zorder=3)
        unused = [(place, mark) for place, mark, fit in zip(places, marks, fits, strict=True) if not fit]
        for place, mark in unused:
            axes.plot([place], [mark], look.marker, color=look.colour, zorder=4)  # filled: not used to fit
    axes.set_yscale("log")


def _more_rows(sizes: Sizes, rows: float) -> Sizes:
    """Return stays of other length: cells and classes grow along."""
    grown = rows / sizes.rows
    return replace(sizes, rows=rows, cells=sizes.cells * grown, classes=sizes.classes * grown)


def _more_cells(sizes: Sizes, cells: float) -> Sizes:
    """Return the same rows with other cells; classes grow along."""
    return replace(sizes, cells=cells, classes=sizes.classes * cells / sizes.cells)


def _draw_others(points: Points, path: Path) -> None:
    from experiments.figures import LOOKS, save

    figure = _figure("Memory, methods and cores, whole command", (13.0, 4.6))
    memory, methods, cores = figure.subplots(1, 3)
    _draw_cores(cores, of_series(points, "cores"))
    in_memory = [point for point in of_series(points, "rows") if kind_of(point) == IN_MEMORY]
    lines = {"all in memory": in_memory, "by regions": of_series(points, "regions")}
    for axes, series in (
        (memory, lines),
        (methods, {name: _of_method(points, name) for name in ("mondrian", "incognito", "hilbert", "sweep")}),
    ):
        for look, (name, found) in zip(LOOKS, series.items(), strict=False):
            ordered = sorted(found, key=lambda point: point["rows"])
            places, marks = [point["rows"] for point in ordered], [point["whole"] for point in ordered]
            style = {"color": look.colour, "marker": look.marker, "linestyle": look.dash, "markerfacecolor": "white"}
            axes.plot(places, marks, label=name, **style)
        axes.set_yscale("log")
        axes.set_xlabel("rows of stays")
        axes.legend(frameon=False)
        _frame(axes, log_places=True)
    memory.set_title("with memory for all cells, and with little", fontsize=10)
    methods.set_title("methods", fontsize=10)
    memory.set_ylabel("seconds")
    save(figure, path)


def _draw_cores(axes: Any, points: Points) -> None:
    """Draw the steps of the longest run beside each other, on one core and on two."""
    from experiments.figures import FAINT, LOOKS

    rows = max(point["rows"] for point in points)
    for look, aside, alone in ((LOOKS[2], -0.2, True), (LOOKS[0], 0.2, False)):
        (point,) = (point for point in points if point["rows"] == rows and point["one_core"] is alone)
        places = [place + aside for place in range(len(STEPS))]
        label = "one core" if alone else "two cores"
        axes.bar(places, [point["seconds"][step] for step in STEPS], 0.36, color=look.colour, label=label)
    axes.set_xticks(range(len(STEPS)), ["start" if step == "rest" else step for step in STEPS])
    axes.set_title(f"{rows:,} stays on one core and on two", fontsize=10)
    axes.legend(frameon=False)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _of_method(points: Points, name: str) -> list[Mapping[str, Any]]:
    series = "rows" if name == "mondrian" else "methods"
    return [point for point in of_series(points, series) if point["method"] == name]


def _frame(axes: Any, *, log_places: bool) -> None:
    from experiments.figures import FAINT
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if log_places:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _short(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e5 else f"{value / 1e3:g} k"

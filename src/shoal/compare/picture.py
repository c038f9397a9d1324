"""A comparison as a picture: risks with their intervals beside what is kept, a line for each technique."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.compare.ranking import HEADS, MEASURES, RISKS
from shoal.compare.result import Comparison, Row
from shoal.core.errors import UsageError

PICTURES = (".svg", ".png")
_NOTE = "grey: does the risk remain, by the opinion?  lines: 95 % intervals  kept: 1 is as good as the source"
_INK, _FAINT, _GREY = "#222222", "#d9d9d9", "#767676"
_LOW, _HIGH = "#0072B2", "#D55E00"  # Okabe and Ito: colour-blind people can tell them apart
_KEPT = {"counts": (_LOW, "o"), "association": ("#009E73", "D"), "learning": ("#CC79A7", "v")}
_SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "shoal",
    **dict.fromkeys(("axes.edgecolor", "text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
}
_LOWEST = -0.1  # of the axis of risks; intervals that go on below are cut


def require_plots() -> None:
    """Raise unless pictures can be drawn; to be called before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("pictures need matplotlib, which is not installed; install shoal[plots]") from None


def draw_comparison(found: Comparison, title: str, path: Path) -> None:
    """Draw the rows that have a release, in the order of the table, and write the picture in the format of its name."""
    require_plots()
    import matplotlib
    from matplotlib.figure import Figure

    rows = [row for row in found.rows if row.reason is None]
    with matplotlib.rc_context(_SETTINGS):
        size = (13.5, 2.3 + 0.42 * max(len(rows), 3))
        figure: Any = Figure(figsize=size, dpi=110, layout="constrained", facecolor="white")
        figure.suptitle(title, fontsize=12, fontweight="bold")
        panels = figure.subplots(1, 4, sharey=True, width_ratios=[1, 1, 1, 1.15])
        for axes, risk in zip(panels, RISKS, strict=False):
            _draw_risks(axes, rows, risk)
        _draw_kept(panels[3], rows)
        panels[0].set_yticks(range(len(rows)), [_name(row, rows) for row in rows])
        panels[0].set_ylim(max(len(rows), 1) - 0.5, -0.5)
        handles, names = panels[3].get_legend_handles_labels()
        figure.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=len(names),
            frameon=False,
            title=_NOTE,
        )
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
        kind = path.suffix.lower().removeprefix(".")  # the picture tells nothing of the day or the program
        figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def _draw_risks(axes: Any, rows: list[Row], risk: str) -> None:
    """Draw one risk: a dot with its interval, filled where all of it is above 0."""
    axes.set_title(f"risk: {HEADS[risk]}", fontsize=11)
    for height, row in enumerate(rows):
        said = row.opinion(risk) or "not rated"
        axes.text(1.09, height, said, va="center", ha="left", fontsize=8, color=_GREY, clip_on=False)
        trials = row.trials(risk)
        if trials is None:
            axes.text(0.02, height, "not tried", va="center", fontsize=8, color=_GREY)
            continue
        value, low, high = trials.risk.value, trials.risk.low, trials.risk.high
        colour = _HIGH if low > 0 else _LOW
        axes.plot([max(low, _LOWEST), high], [height, height], color=colour, linewidth=2.2, solid_capstyle="butt")
        face = colour if low > 0 else "white"
        shown = max(value, _LOWEST)
        axes.plot([shown], [height], "o", color=colour, markerfacecolor=face, markersize=6, clip_on=False, zorder=3)
    _draw_frame(axes, _LOWEST)
    axes.axvline(0, color=_INK, linewidth=0.8)
    axes.set_xlabel("share of what would stay hidden")


def _draw_kept(axes: Any, rows: list[Row]) -> None:
    """Draw what is kept, a marker for each measure."""
    axes.set_title("kept", fontsize=11)
    for measure, aside in zip(MEASURES, (-0.2, 0.0, 0.2), strict=True):
        colour, marker = _KEPT[measure]
        points = [(row.kept(measure), height + aside) for height, row in enumerate(rows)]
        there = [(min(kept, 1.05), height) for kept, height in points if kept is not None]
        axes.plot(
            [kept for kept, _ in there],
            [height for _, height in there],
            marker,
            color=colour,
            markerfacecolor="white",
            markeredgewidth=1.6,
            markersize=7,
            label=measure,
            clip_on=not there,  # markers at the edge are drawn whole; of a line of none there is no place to keep
            zorder=3,
        )
    _draw_frame(axes, 0.0)
    axes.set_xlabel("share of what the source gives")


def _draw_frame(axes: Any, low: float) -> None:
    axes.set_xlim(low, 1.05)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.grid(color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _name(row: Row, rows: list[Row]) -> str:
    """Return the technique, with its parameters where another row has the same name."""
    alone = [other.name for other in rows].count(row.name) == 1
    return row.name if alone else f"{row.name}, {row.parameters}"

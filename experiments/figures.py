"""Line plots in one look: told apart by marker and dash as well as by colour, with every axis named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shoal.core.errors import UsageError
from shoal.release.release import written

INK = "#222222"
FAINT = "#d9d9d9"


@dataclass(frozen=True, slots=True)
class Look:
    """How one line is drawn; the colours can be told apart by colour-blind people (Okabe and Ito)."""

    colour: str
    marker: str
    dash: str | tuple[float, tuple[float, ...]]


LOOKS = (
    Look("#0072B2", "o", "-"),
    Look("#000000", "^", (0, (6, 1.5, 1.5, 1.5))),
    Look("#D55E00", "s", "--"),
    Look("#009E73", "D", ":"),
    Look("#CC79A7", "v", (0, (3, 1, 1, 1, 1, 1))),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: a line for each name, over the same places; None leaves a gap."""

    title: str
    x_title: str
    y_title: str
    places: Sequence[str]
    lines: dict[str, Sequence[float | None]]
    scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Panels that make up one plot of a figure; ``stem`` is its file's name without the suffix."""

    figure: str
    stem: str
    title: str
    note: str
    panels: Sequence[Panel]
    rows: int = 1

    def write(self, folder: Path) -> None:
        """Write the plot into *folder*, as SVG and as PNG."""
        path = folder / self.stem
        with written(path):
            draw(self.title, self.panels, self.note, [path.with_suffix(s) for s in (".svg", ".png")], rows=self.rows)


def require_plots() -> None:
    """Raise unless plots can be drawn; to be called before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("plots need matplotlib, which is not installed; install shoal[papers]") from None


def settings() -> dict[Any, Any]:
    """Return what all plots have in common."""
    return {
        "font.size": 10,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "shoal",
        "axes.edgecolor": INK,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }


def draw(title: str, panels: Sequence[Panel], note: str, paths: Sequence[Path], *, rows: int = 1) -> None:
    """Draw the panels side by side, in so many *rows*, and write them to every path, in the format of its suffix."""
    require_plots()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings()):
        in_row = len(panels) // rows
        size = (5.4 * in_row, 5.0 * rows)
        figure: Any = Figure(figsize=size, dpi=110, layout="constrained", facecolor="white")
        figure.suptitle(title, fontsize=12, fontweight="bold")
        for axes, panel in zip(figure.subplots(rows, in_row, squeeze=False).flat, panels, strict=True):
            _fill(axes, panel)
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
        figure.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=len(names),
            frameon=False,
            title=note,
            handlelength=4.0,
            columnspacing=2.5,
        )
        for path in paths:
            save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture in the format of its name; it tells nothing of the day or the program."""
    kind = path.suffix.lower().removeprefix(".")
    figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def _fill(axes: Any, panel: Panel) -> None:
    for look, (name, values) in zip(LOOKS, panel.lines.items(), strict=False):
        heights = [float("nan") if value is None else value for value in values]
        axes.plot(
            range(len(heights)),
            heights,
            label=name,
            color=look.colour,
            marker=look.marker,
            linestyle=look.dash,
            linewidth=1.8,
            markersize=6,
            markerfacecolor="white",
            markeredgewidth=1.6,
            clip_on=False,  # markers on the axis are drawn whole
            zorder=3,
        )
    axes.set_title(panel.title, fontsize=11)
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(panel.y_title)
    axes.set_yscale(panel.scale)
    axes.set_xticks(range(len(panel.places)), panel.places, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(panel.places) - 0.5)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if panel.scale == "linear":
        axes.margins(y=0.08)
        axes.autoscale_view()
        axes.set_ylim(bottom=0)
    else:
        _plain_powers(axes)


def _plain_powers(axes: Any) -> None:
    """Write 0.3, 1, 3, 10 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())

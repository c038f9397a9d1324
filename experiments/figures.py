"""What all experiments share: plots in one look, statements and their verdicts, and the files that a run writes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from shoal.core.errors import UsageError

R = TypeVar("R")

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
    Look("#56B4E9", "X", (0, (1, 2.5))),
)
_MANY_DECADES = 1e6
_IN_LEGEND = 5  # names beside each other; more of them stand in rows of three


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

    def format_data(self) -> str:
        """Return what is drawn as CSV."""
        heads: tuple[object, ...] = ("panel", "place", "line", "value")
        points = (
            (panel.title, place, name, value)
            for panel in self.panels
            for name, values in panel.lines.items()
            for place, value in zip(panel.places, values, strict=True)
        )
        return format_csv([heads, *points])

    def write(self, folder: Path, suffixes: Sequence[str]) -> None:
        """Write the plot into *folder*, in the format of each suffix."""
        paths = [folder / f"{self.stem}{suffix}" for suffix in suffixes]
        draw(self.title, self.panels, self.note, paths, rows=self.rows)


def require_plots() -> None:
    """Raise unless plots can be drawn; to be called before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            "plots need matplotlib, which is not installed; install the dependency group experiments"
        ) from None


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
            ncols=len(names) if len(names) <= _IN_LEGEND else 3,
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
    """Write 0.3, 1, 3, 10 instead of powers of ten; over many decades 1 and 10 only."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high < _MANY_DECADES * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


Verdict = Literal["holds", "holds in part", "goes both ways", "does not hold", "not tested"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a paper, or of ours, and what became of it."""

    where: str  # a figure, theorem or section
    claim: str
    verdict: Verdict
    measured: str


def find_verdict(wins: int, trials: int, needed: float = 1.0) -> Verdict:
    """Return whether a claim holds that is borne out in so many trials; it must be in the *needed* share of them.

    >>> find_verdict(3, 4), find_verdict(3, 4, needed=0.5), find_verdict(0, 0)
    ('holds in part', 'holds', 'not tested')
    """
    if not trials:
        return "not tested"
    if wins >= needed * trials:
        return "holds"
    return "holds in part" if wins else "does not hold"


@dataclass(frozen=True, slots=True)
class Report:
    """What an experiment leaves behind: a page, all its figures as JSON and CSV, and plots with their data."""

    name: str
    page: str
    document: Mapping[str, Any]
    summary: Sequence[str]  # lines for the terminal
    drawings: Sequence[Drawing]
    whole: str  # CSV

    def write(self, folder: Path) -> None:
        """Write everything into a new folder; one that cannot be finished is removed."""
        (folder / "figures").mkdir(parents=True)
        try:
            for drawing in self.drawings:
                drawing.write(folder / "figures", (".svg", ".png"))
                (folder / "figures" / f"{drawing.stem}.csv").write_text(drawing.format_data(), encoding="utf-8")
            (folder / f"{self.name}.csv").write_text(self.whole, encoding="utf-8")
            write_json(folder / f"{self.name}.json", self.document)
            (folder / f"{self.name}.md").write_text(self.page, encoding="utf-8")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def write_docs(self, docs: Path, small: Mapping[str, Any]) -> Path:
        """Replace the plots and the JSON of the full and of the *small* grid in docs, and the page of results."""
        figures = docs / "figures"
        for drawing in self.drawings:
            drawing.write(figures, (".svg",))
        write_json(figures / f"{self.name}.json", self.document)
        write_json(figures / f"{self.name}-small.json", small)
        page = docs.parent / "experiments" / "results" / f"{self.name}.md"
        page.write_text(link_to_docs(self.page), encoding="utf-8")
        return page


def link_to_docs(page: str) -> str:
    """Return a page for `experiments/results`, with links to the plots in `docs/figures`."""
    return page.replace("](figures/", "](../../docs/figures/")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, an entry on each line."""
    entries = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    path.write_text(f"{{\n{entries}\n}}\n", encoding="utf-8")


def read_result(kind: type[R], document: Mapping[str, Any]) -> R:
    """Read the result that a report's document was made of, so that a page can be written without another run."""
    return TypeAdapter(kind).validate_python(document)


def drop_times(document: Any) -> Any:
    """Return a document without what differs from run to run.

    >>> drop_times({"um": 0.5, "seconds": 3.2, "tables": [{"seconds_of_table": 1.0}]})
    {'um': 0.5, 'tables': [{}]}
    """
    if isinstance(document, Mapping):
        return {key: drop_times(value) for key, value in document.items() if not key.startswith("seconds")}
    return [drop_times(value) for value in document] if isinstance(document, list | tuple) else document


def write_table(heads: Sequence[object], rows: Iterable[Sequence[object]], words: int = 1) -> Iterator[str]:
    """Yield a table of a page and an empty line; what stands behind the first *words* columns are numbers.

    >>> list(write_table(["l", "um"], [[2, "0.9"]], words=0))
    ['| l | um |', '|---:|---:|', '| 2 | 0.9 |', '']
    """
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    yield from (lines[0], "|" + "---|" * words + "---:|" * (len(heads) - words), *lines[1:], "")


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows, the first of them the names of the columns, as CSV.

    >>> format_csv([["l", "um"], [2, None]])
    'l,um\\n2,\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()

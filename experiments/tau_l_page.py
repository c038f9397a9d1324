"""What the experiment leaves behind: plots, tables of figures, and a page that puts them beside the paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments import grid
from experiments.figures import Drawing, Panel
from experiments.tau_l import ALGORITHMS, ONE_D, REPETITIONS, Outcome, Result, TableResult
from experiments.tau_l_statements import statements
from experiments.writing import write_experiment

_GAP = "a missing point: no table of that algorithm meets the requirement"


@dataclass(frozen=True, slots=True)
class FigureKind:
    """One figure of the paper: what it shows of an outcome."""

    number: int
    title: str
    y_title: str
    reading: str
    of: Callable[[TableResult, Outcome], float | None]
    scale: Literal["linear", "log"] = "linear"


def relative_seconds(table: TableResult, outcome: Outcome) -> float | None:
    """Return the time relative to 1DLD's search for the same requirement, or for the strongest that 1DLD reaches."""
    if outcome.seconds is None:
        return None
    reached = [one for one in table.of(ONE_D) if one.seconds is not None]
    same = [one for one in reached if (one.tau, one.l) == (outcome.tau, outcome.l)]
    reference = (same or reached[-1:])[0].seconds if reached else None
    return None if not reference else outcome.seconds / reference


FIGURES = (
    FigureKind(
        5,
        "Excessive protection",
        "excessive protection (Definition 8)",
        "Lower is better: how far the class nearest to the limit stays away from it.",
        lambda _, outcome: outcome.excessive_protection,
    ),
    FigureKind(
        6,
        "Information kept",
        "um (Definition 5)",
        "Higher is better: 1 is the original table.",
        lambda _, outcome: outcome.um,
    ),
    FigureKind(
        7,
        "Accuracy of decision trees",
        "ID3 accuracy relative to the original table",
        "Higher is better: 1 is as accurate as a tree that learned from the original records.",
        lambda _, outcome: outcome.accuracy_ratio,
    ),
    FigureKind(
        8,
        "Execution time relative to 1DLD",
        "processor time of the search / that of 1DLD",
        "Lower is better. Where 1DLD gives no table, its time for the strongest requirement that it reaches stands in.",
        relative_seconds,
        "log",
    ),
)


def write_result(result: Result, folder: Path) -> None:
    """Write the page, the figures and their data into a new folder."""
    write_experiment(
        folder,
        "tau-l",
        drawings=[_drawing(kind, result) for kind in FIGURES],
        tables={_stem(kind): _figure_csv(kind, result) for kind in FIGURES},
        whole=_all_csv(result),
        document=result.as_dict(),
        page=page(result),
    )


def _stem(kind: FigureKind) -> str:
    return f"tau-l-figure-{kind.number}"


def _drawing(kind: FigureKind, result: Result) -> Drawing:
    panels = [_panel(kind, table) for table in result.tables]
    return Drawing(str(kind.number), _stem(kind), f"Figure {kind.number}: {kind.title}", _GAP, panels)


def page(result: Result) -> str:
    """Return the page: what was run, each statement of the paper with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


def _lines(result: Result) -> Iterator[str]:
    yield from (
        "# (tau,l)-diversity: the paper's experiments run again",
        "",
        'Tian and Zhang, "Extending l-diversity for better data anonymization", section IV, Figures 5 to 8.',
        "This page is written by `shoal papers tau-l`, figures and verdicts alike; nothing on it is typed by hand.",
        "",
    )
    if result.quick:
        yield from ("**A quick run** on a sample of the records and few requirements: not for quoting.", "")
    yield from _what_was_run(result)
    yield from _statements(result)
    for kind in FIGURES:
        yield from _figure(kind, result)


_ALGORITHMS = """The algorithms: SWEEP (`sweep`, without `improve` and with it, which the paper does not have), CLD
(`incognito` with recursive (c,l)-diversity, the node of the highest um) and 1DLD (`hilbert`). CLD and 1DLD do not take
(tau,l): 1DLD runs with every l from 2 upward, CLD with every such l and c = {c}.
Of the tables that meet a requirement the one with the least excessive protection is shown, as in the paper. Time is
processor time of the search, so that other work on the machine counts little: all pairs for CLD, which have no order;
for 1DLD up to the first l that meets the requirement; one run for SWEEP. {timed}"""

_LEARNING = """Decision trees learn by ID3 (information gain, no pruning) to tell the sensitive value from the quasi
attributes: the published table has no other attribute to tell. Records are dealt into three folds; two are anonymized
with the parameters that made the table shown, a tree learns from what they publish, and it is asked about the original
records of the third. How labels and generalized values are read is told in decision 12 (`docs/adr/0012-papers.md`)."""


def _what_was_run(result: Result) -> Iterator[str]:
    yield from ("## What was run", "", "The paper names the tables, not their roles; these were taken:", "")
    for table in result.tables:
        yield f"- **{table.title}**, {table.records:,} records. {table.choices}"
    searched = (grid.QUICK_ADULT if result.quick else grid.ADULT).cld_c
    timed = "Every run is timed once."
    if not result.quick:
        timed = f"Runs are repeated, up to {REPETITIONS} times within about a second, and the median counts."
    yield from ("", _ALGORITHMS.format(c=", ".join(f"{c:g}" for c in searched), timed=timed), "")
    yield from (_LEARNING, "")
    for table in result.tables:
        guess = table.guess_accuracy / table.baseline_accuracy
        yield (
            f"- {table.title}: trees that learn from original records are right for {table.baseline_accuracy:.1%}. "
            f"Naming the commonest value always is right for {table.guess_accuracy:.1%}, a ratio of {guess:.3f}."
        )
    yield ""


def _statements(result: Result) -> Iterator[str]:
    yield from ("## The paper's statements", "", "SWEEP is the paper's algorithm, without `improve`.", "")
    yield "| figure | the paper says | table | verdict | measured |"
    yield "|---|---|---|---|---|"
    judged = [statements(table) for table in result.tables]
    for row in zip(*judged, strict=True):
        for table, statement in zip(result.tables, row, strict=True):
            yield (
                f"| {statement.figure} | {statement.claim} | {table.title} | **{statement.verdict}** "
                f"| {statement.measured} |"
            )
    yield ""


def _figure(kind: FigureKind, result: Result) -> Iterator[str]:
    yield f"## Figure {kind.number}: {kind.title}"
    yield ""
    yield f"![{kind.title} of {', '.join(ALGORITHMS)} on both tables](figures/tau-l-figure-{kind.number}.svg)"
    yield ""
    yield f"{kind.reading} A dash: no table of that algorithm meets the requirement."
    yield ""
    for table in result.tables:
        yield f"| {table.title} (tau, l) | {' | '.join(ALGORITHMS)} |"
        yield "|---|" + "---:|" * len(ALGORITHMS)
        for i, (tau, l) in enumerate(table.requirements):
            values = [kind.of(table, table.of(algorithm)[i]) for algorithm in ALGORITHMS]
            yield f"| ({tau:g}, {l}) | " + " | ".join("-" if v is None else f"{v:.3f}" for v in values) + " |"
        yield ""


def _panel(kind: FigureKind, table: TableResult) -> Panel:
    return Panel(
        title=table.title,
        x_title="requirement (tau, l), stronger to the right",
        y_title=kind.y_title,
        places=[f"({tau:g}, {l})" for tau, l in table.requirements],
        lines={name: [kind.of(table, outcome) for outcome in table.of(name)] for name in ALGORITHMS},
        scale=kind.scale,
    )


def _figure_csv(kind: FigureKind, result: Result) -> str:
    rows: list[list[object]] = [["table", "tau", "l", *ALGORITHMS]]
    for table in result.tables:
        for i, (tau, l) in enumerate(table.requirements):
            rows.append([table.name, tau, l, *(kind.of(table, table.of(name)[i]) for name in ALGORITHMS)])
    return _csv(rows)


def _all_csv(result: Result) -> str:
    names = [name for name in Outcome.__dataclass_fields__ if name != "parameters"]
    rows: list[list[object]] = [["table", *names, "c_of_table", "l_of_table"]]
    for table in result.tables:
        for outcome in table.outcomes:
            used = outcome.parameters or {}
            rows.append([table.name, *(getattr(outcome, name) for name in names), used.get("c"), used.get("l")])
    return _csv(rows)


def _csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()

"""The (tau,l)-diversity paper beside what was measured: its statements judged, its figures, and the page with both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from experiments.figures import Drawing, Panel, Report, Statement, Verdict, find_verdict, format_csv, write_table
from experiments.problems import ADULT, QUICK_ADULT
from experiments.tau_l import ALGORITHMS, CLD, ONE_D, REPETITIONS, SWEEP, Outcome, Result, TableResult

_GAP = "a missing point: no table of that algorithm meets the requirement"
_RIVALS = (CLD, ONE_D)
_EQUAL = 1e-9


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


def make_report(result: Result) -> Report:
    """Return the page, the figures and their data."""
    return Report(
        name="tau-l",
        page=write_page(result),
        document={"paper": "tau-l", **asdict(result)},
        summary=[
            f"{table.title}: {one.verdict}: {one.claim} {one.measured}"
            for table in result.tables
            for one in judge_statements(table)
        ],
        drawings=[_drawing(kind, result) for kind in FIGURES],
        whole=_all_csv(result),
    )


def _stem(kind: FigureKind) -> str:
    return f"tau-l-figure-{kind.number}"


def _drawing(kind: FigureKind, result: Result) -> Drawing:
    panels = [_panel(kind, table) for table in result.tables]
    return Drawing(str(kind.number), _stem(kind), f"Figure {kind.number}: {kind.title}", _GAP, panels)


def write_page(result: Result) -> str:
    """Return the page: what was run, each statement of the paper with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


def _lines(result: Result) -> Iterator[str]:
    yield from (
        "# (tau,l)-diversity: the paper's experiments run again",
        "",
        'Tian and Zhang, "Extending l-diversity for better data anonymization", section IV, Figures 5 to 8.',
        "This page is written by `python -m experiments tau-l --docs docs`, figures and verdicts alike; nothing on it",
        "is typed by hand. A small grid of it (`docs/figures/tau-l-small.json`) is computed again by the tests.",
        "",
    )
    if result.quick:
        yield from ("**A quick run** on a sample of the records and few requirements: not for quoting.", "")
    yield from _what_was_run(result)
    yield from _statements(result)
    for kind in FIGURES:
        yield from _figure(kind, result)


_REQUIREMENTS = """The text of the paper does not list the requirements of its figures. The {} of each table here are
ours, each at least as strong as the one before. They were chosen by the frequencies of the sensitive values, so that
the weaker ones can be met without generalizing these (CLD or 1DLD meet {}) and the others cannot: that
both miss the latter follows from the choice, and how many they miss says nothing by itself. The points have not changed
since the first results that were kept; whether earlier trial runs had a part in them is not on record. They are a
declared set and no sample of requirements: the counts below describe them, and no test of significance is made."""

_ALGORITHMS = """The algorithms: SWEEP (`sweep`, without `improve` and with it, which the paper does not have), CLD
(`incognito` with recursive (c,l)-diversity, the node of the highest um) and 1DLD (`hilbert`). CLD and 1DLD do not take
(tau,l): 1DLD runs with every l from 2 upward, CLD with every such l and c = {c}.
Of the tables that meet a requirement the one with the least excessive protection is shown, as in the paper. Time is
processor time of the search, so that other work on the machine counts little: all pairs for CLD, which have no order;
for 1DLD up to the first l that meets the requirement; one run for SWEEP. {timed}"""

_LEARNING = """Decision trees learn by ID3 (information gain, no pruning) to tell the sensitive value from the quasi
attributes: the published table has no other attribute to tell. Records are dealt into three folds; two are anonymized
with the parameters that made the table shown, a tree learns from what they publish, and it is asked about the original
records of the third. Decision 25 (`docs/adr/0025-experiments.md`) explains how labels are read."""


def _what_was_run(result: Result) -> Iterator[str]:
    yield from ("## What was run", "", "The paper names the tables, not their roles; these were taken:", "")
    for table in result.tables:
        yield f"- **{table.title}**, {table.records:,} records. {table.choices}"
    n_points = max(len(table.requirements) for table in result.tables)
    met = [
        sum(any(o.reached for o in row) for row in zip(*map(table.of, _RIVALS), strict=True)) for table in result.tables
    ]
    listed = " and ".join(f"{n} of {table.title}" for n, table in zip(met, result.tables, strict=True))
    yield from ("", _REQUIREMENTS.format(n_points, listed))
    searched = (QUICK_ADULT if result.quick else ADULT).cld_c
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
    rows = [
        (one.where, one.claim, table.title, f"**{one.verdict}**", one.measured)
        for judged in zip(*map(judge_statements, result.tables), strict=True)
        for table, one in zip(result.tables, judged, strict=True)
    ]
    yield from write_table(("figure", "the paper says", "table", "verdict", "measured"), rows, words=5)


def _figure(kind: FigureKind, result: Result) -> Iterator[str]:
    yield f"## Figure {kind.number}: {kind.title}"
    yield ""
    yield f"![{kind.title} of {', '.join(ALGORITHMS)} on both tables](figures/tau-l-figure-{kind.number}.svg)"
    yield ""
    yield f"{kind.reading} A dash: no table of that algorithm meets the requirement."
    yield ""
    for table in result.tables:
        rows = []
        for i, (tau, l) in enumerate(table.requirements):
            values = [kind.of(table, table.of(algorithm)[i]) for algorithm in ALGORITHMS]
            rows.append([f"({tau:g}, {l})", *("-" if v is None else f"{v:.3f}" for v in values)])
        yield from write_table((f"{table.title} (tau, l)", *ALGORITHMS), rows)


def _panel(kind: FigureKind, table: TableResult) -> Panel:
    return Panel(
        title=table.title,
        x_title="requirement (tau, l), stronger to the right",
        y_title=kind.y_title,
        places=[f"({tau:g}, {l})" for tau, l in table.requirements],
        lines={name: [kind.of(table, outcome) for outcome in table.of(name)] for name in ALGORITHMS},
        scale=kind.scale,
    )


def _all_csv(result: Result) -> str:
    names = [name for name in Outcome.__dataclass_fields__ if name != "parameters"]
    rows: list[list[object]] = [["table", *names, "c_of_table", "l_of_table"]]
    for table in result.tables:
        for outcome in table.outcomes:
            used = outcome.parameters or {}
            rows.append([table.name, *(getattr(outcome, name) for name in names), used.get("c"), used.get("l")])
    return format_csv(rows)


def judge_statements(table: TableResult) -> list[Statement]:
    """Judge every statement of section IV on one table."""
    judges = (
        _all_reached,
        _some_not_reached,
        _less_excess,
        _more_um_than_rivals,
        _one_d_above_cld,
        _more_accurate,
        _below_three_times,
        _below_cld,
        _grows_linearly,
    )
    return [judge(table) for judge in judges]


def _all_reached(table: TableResult) -> Statement:
    reached = [outcome.reached for outcome in table.of(SWEEP)]
    return Statement(
        "5",
        "SWEEP gives a table for every requirement.",
        find_verdict(sum(reached), len(reached)),
        f"SWEEP reaches {sum(reached)} of {len(reached)} requirements.",
    )


def _some_not_reached(table: TableResult) -> Statement:
    texts, missed = [], []
    for name in _RIVALS:
        outcomes = table.of(name)
        reached = [outcome for outcome in outcomes if outcome.reached]
        missed.append(len(outcomes) - len(reached))
        last = f", the strongest of them ({reached[-1].tau:g}, {reached[-1].l})" if reached else ""
        texts.append(f"{name} reaches {len(reached)} of {len(outcomes)}{last}")
    return Statement(
        "5",
        "Some requirements cannot be reached by CLD and 1DLD.",
        find_verdict(sum(count > 0 for count in missed), len(missed)),
        "; ".join(texts) + ".",
    )


def _less_excess(table: TableResult) -> Statement:
    claim = "Where all three give a table, SWEEP protects much less beyond need."
    return _compare(table, "5", claim, "excessive protection", lambda o: o.excessive_protection, higher=False)


def _more_um_than_rivals(table: TableResult) -> Statement:
    claim = "SWEEP often keeps much more information (um)."
    return _compare(table, "6", claim, "um", lambda o: o.um, needed=0.5)


def _one_d_above_cld(table: TableResult) -> Statement:
    pairs = [
        (_value(one.um), _value(cld.um))
        for one, cld in zip(table.of(ONE_D), table.of(CLD), strict=True)
        if one.reached and cld.reached
    ]
    wins = sum(one > cld for one, cld in pairs)
    measured = f"1DLD is above CLD in {wins} of {len(pairs)}."
    if pairs:
        measured += f" Mean um: {np.mean([p[0] for p in pairs]):.3f} against {np.mean([p[1] for p in pairs]):.3f}."
    return Statement("6", "1DLD keeps more information than CLD.", find_verdict(wins, len(pairs)), measured)


def _more_accurate(table: TableResult) -> Statement:
    claim = "Trees that learn from SWEEP's tables are more accurate."
    return _compare(table, "7", claim, "accuracy ratio", lambda o: o.accuracy_ratio)


def _below_three_times(table: TableResult) -> Statement:
    ratios = [_value(sweep.seconds) / _value(rivals[1].seconds) for sweep, rivals in _eligible_to_all(table)]
    wins = sum(ratio < 3 for ratio in ratios)
    measured = f"{wins} of {len(ratios)} below."
    if ratios:
        measured += f" The ratio runs from {min(ratios):.2f} to {max(ratios):.2f}."
    claim = "Where all three give a table, SWEEP takes less than three times as long as 1DLD's search."
    return Statement("8", claim, find_verdict(wins, len(ratios)), measured)


def _below_cld(table: TableResult) -> Statement:
    pairs = _eligible_to_all(table)
    wins = sum(_value(sweep.seconds) < _value(rivals[0].seconds) for sweep, rivals in pairs)
    alone = sum(_value(sweep.seconds) < _value(rivals[0].seconds_of_table) for sweep, rivals in pairs)
    return Statement(
        "8",
        "SWEEP always takes less than CLD's search.",
        find_verdict(wins, len(pairs)),
        f"{wins} of {len(pairs)}. Against the one run of CLD that made its table, without the search: {alone}.",
    )


def _grows_linearly(table: TableResult) -> Statement:
    rivals = [table.of(name) for name in _RIVALS]
    seconds = [
        _value(sweep.seconds)
        for i, sweep in enumerate(table.of(SWEEP))
        if sweep.reached and not any(outcomes[i].reached for outcomes in rivals)
    ]
    claim = "Where only SWEEP gives a table, its time grows linearly from one requirement to the next."
    if len(seconds) < 3:
        return Statement("8", claim, "not tested", f"Such requirements: {len(seconds)}, too few for a line.")
    places = np.arange(len(seconds))
    slope, start = np.polyfit(places, seconds, 1)
    spread = float(np.var(seconds))
    fit = 1 - float(np.mean((seconds - (slope * places + start)) ** 2)) / spread if spread > 0 else 0.0
    verdict: Verdict = "holds" if slope > 0 and fit >= 0.8 else "does not hold"
    listed = ", ".join(f"{value:.3f}" for value in seconds)
    return Statement("8", claim, verdict, f"Seconds: {listed}; slope {slope:+.4f}, R² of a line {fit:.2f}.")


def _compare(
    table: TableResult,
    figure: str,
    claim: str,
    what: str,
    value: Callable[[Outcome], float | None],
    *,
    higher: bool = True,
    needed: float = 1.0,
) -> Statement:
    """Compare SWEEP with each rival where all three give a table; equal is not better.

    The claim holds if SWEEP is better in the *needed* share of comparisons: all, unless the paper says "often".
    """
    everything = [[value(outcome) for outcome in (sweep, *rivals)] for sweep, rivals in _eligible_to_all(table)]
    figures = np.array([row for row in everything if None not in row], dtype=np.float64)
    if not len(figures):
        return Statement(figure, claim, "not tested", "No requirement is reached by all three.")
    ahead = (figures[:, :1] - figures[:, 1:]) * (1 if higher else -1) > _EQUAL  # (n_requirements, n_rivals)
    counts = " and ".join(f"better than {name} in {ahead[:, i].sum()}" for i, name in enumerate(_RIVALS))
    means = ", ".join(f"{name} {mean:.3f}" for name, mean in zip((SWEEP, *_RIVALS), figures.mean(axis=0), strict=True))
    measured = f"Of {len(figures)} that all three reach SWEEP is {counts}. Mean {what}: {means}."
    return Statement(figure, claim, find_verdict(int(ahead.sum()), ahead.size, needed), measured)


def _eligible_to_all(table: TableResult) -> list[tuple[Outcome, tuple[Outcome, ...]]]:
    """Return SWEEP's outcome and those of CLD and 1DLD, where all three give a table."""
    together = zip(table.of(SWEEP), *(table.of(name) for name in _RIVALS), strict=True)
    return [(sweep, tuple(rivals)) for sweep, *rivals in together if sweep.reached and all(r.reached for r in rivals)]


def _value(figure: float | None) -> float:
    if figure is None:
        raise ValueError("an outcome without a table has no figures")
    return figure

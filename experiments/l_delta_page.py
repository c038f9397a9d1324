"""The figures of the (l,delta)-diversity experiment as plots and tables, and the page that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from experiments.figures import Drawing, Panel, Report, format_csv, write_table
from experiments.l_delta import FIGURES, Point, Result
from experiments.l_delta_simulation import (
    AGENCY,
    ALONE,
    COARSE,
    DISTRIBUTIONS,
    DOMAIN,
    N_QUASI,
    N_VALUES,
    RATIO,
    Failure,
    Linkage,
)
from experiments.l_delta_statements import SURE, judge_statements
from shoal.attacks.base import Tally

FAILURES, LINKED = "failures", "linkage"
NAMES = (*FIGURES, FAILURES, LINKED)
_READABLE = 20
_SHORT = {ALONE: "own", COARSE: "own, coarse", AGENCY: "agency's"}


@dataclass(frozen=True, slots=True)
class _Axis:
    """What a figure of the paper is over, and how its lines are told apart."""

    title: str
    x_title: str
    x: Callable[[Point], str]
    line: Callable[[Point], str]


_AXES = {
    "1a": _Axis("uniform diseases, N against delta", "delta", lambda p: f"{p.delta:g}", lambda p: _beta_l(p)),
    "1b": _Axis(
        "uniform diseases, N against p", "p", lambda p: f"{p.p:g}", lambda p: f"delta = {p.delta:g}, l = {p.l}"
    ),
    "2a": _Axis("geometric diseases, N against delta", "delta", lambda p: f"{p.delta:g}", lambda p: _beta_l(p)),
    "2b": _Axis(
        "geometric diseases, N against l", "l", lambda p: str(p.l), lambda p: f"beta {p.beta:g}, delta {p.delta:g}"
    ),
}


def _beta_l(point: Point) -> str:
    return f"beta = {point.beta:g}, l = {point.l}"


def make_report(result: Result) -> Report:
    """Return the page, the figures and their data."""
    return Report(
        name="l-delta",
        page=write_page(result),
        document={"paper": "l-delta", **asdict(result)},
        summary=[f"{one.verdict}: {one.claim} ({one.where}) {one.measured}" for one in judge_statements(result)],
        drawings=list(drawings(result)),
        whole=_whole_csv(result),
    )


def write_page(result: Result) -> str:
    """Return the page: what was run, each statement with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


_SOURCE = """Rameshwar and Tandon, "(l,delta)-diversity: linkage-robustness via a composition theorem", section 5,
Figures 1 and 2, and what these do not show. This page is written by `python -m experiments l-delta --docs docs`,
figures and verdicts alike; nothing on it is typed by hand. A small grid of it (`docs/figures/l-delta-small.json`) is
computed again by the tests."""

_SETTING = f"""{N_QUASI:,} quasi-identifiers ({", ".join(f"{name} {size}" for name, size in DOMAIN.items())}),
{N_VALUES} diseases, uniform or geometric with ratio {float(RATIO)}; p = beta p_l. N is rounded up. The paper's N needs
only the chances of the diseases; the tighter N and the simulations need the joint distribution, for which
quasi-identifiers are taken as equally likely and independent of the disease. The classes are those of Algorithm 3 with
its class size rounded up: with beta = 0.01 there are 100, of 30 quasi-identifiers each, for every l.

The tighter N is the least with which the sum of (1 - P(class, s))^N, over the classes and the l likeliest diseases of
each, is at most delta: the union bound of Theorem 4.4 before its terms are replaced by the largest, and the number of
classes by m."""

_SIMULATED = """{trials:,} times, three independent releases were drawn for each marginal and each beta. A release fails
if one of its classes has fewer than l diseases, linked releases if fewer than l diseases are in all of a class's
histograms; an empty class counts as failed. Samples are not cut off at some N: for each, the number of records from
which on it never fails is found, exactly, so that one simulation serves every N, l and delta. l = {most}, all diseases,
is ours: there the union bound is nearly sharp, while with smaller l other diseases stand in for a missing one."""

_OWNERS = """Three owners have samples of {records}, with {people:,} people in
common; this is drawn {repetitions}. Each makes its table distinct-l-diverse by itself with `mondrian`, which cuts as
fine as its own sample allows. An adversary who knows that a person is in all tables keeps the diseases that are in that
person's class everywhere. Beside it the same records in the agency's classes. These are far fewer, so each owner also
cuts its table into boxes of its own that are about as coarse, with at least half the records of an agency's class in
each: what is lost by linking fine classes is told apart from what is lost by making classes from one's own sample."""

_FAILURES = """In brackets Wilson intervals of 95%. t releases may fail with a probability of t delta."""

_LINKED = """Of one release / two linked / three linked. Shares are of the people that all owners have in common. *Worst
case* is the least that Proposition 3.1 allows any linkage to leave. With fewer than N records the agency's owners
publish nothing."""


def _lines(result: Result) -> Iterator[str]:
    yield from ("# (l,delta)-diversity: the paper's figures, and simulations beside its bounds", "", _SOURCE, "")
    if result.quick:
        yield from ("**A quick run** with few simulated releases: not for quoting.", "")
    yield from _what_was_run(result)
    yield from _statements(result)
    for drawing in drawings(result):
        yield from (f"## {heading(drawing.figure)}", "", f"![{drawing.title}](figures/{drawing.stem}.svg)", "")
        if drawing.figure not in FIGURES:
            yield from ({FAILURES: _FAILURES, LINKED: _LINKED}[drawing.figure], "")
        yield from _data(drawing.figure, result)


def _what_was_run(result: Result) -> Iterator[str]:
    first = result.linkages[0]
    shares = ", ".join(f"{share:g}" for share in sorted({one.share for one in result.linkages}))
    yield from ("## What was run", "", _SETTING, "")
    yield from (_SIMULATED.format(trials=result.failures[0].trials, most=max(one.l for one in result.failures)), "")
    stated = {
        "records": f"{shares} times the paper's N for delta = 0.01",
        "people": first.people // first.repetitions,
        "repetitions": "once" if first.repetitions == 1 else f"{first.repetitions} times",
    }
    yield from (_OWNERS.format(**stated), "")


def _statements(result: Result) -> Iterator[str]:
    yield from (
        "## Statements",
        "",
        f"A simulated rate speaks against a bound only if its interval of {SURE:.1%} lies above it.",
        "",
    )
    rows = [(one.where, one.claim, f"**{one.verdict}**", one.measured) for one in judge_statements(result)]
    yield from write_table(("where", "statement", "verdict", "measured"), rows, words=4)


def stem(name: str) -> str:
    """Return the file name of a figure, without its suffix.

    >>> stem("1a"), stem("linkage")
    ('l-delta-figure-1a', 'l-delta-linkage')
    """
    return f"l-delta-figure-{name}" if name in FIGURES else f"l-delta-{name}"


def heading(name: str) -> str:
    """Return what a figure is about."""
    if name in FIGURES:
        return f"Figure {name}: {_AXES[name].title}"
    return {FAILURES: "Failures beside their bounds", LINKED: "Owners who anonymize by themselves"}[name]


def drawings(result: Result) -> Iterator[Drawing]:
    """Yield every plot: the paper's with the tighter N in a second panel, then ours."""
    for name in FIGURES:
        panels = [
            _points_panel(name, result, "N of the paper", lambda point: point.records),
            _points_panel(name, result, "tighter N", lambda point: point.tighter_records),
        ]
        top = max(point.records for point in result.of(name))
        note = f"records that each owner needs; the largest is {top:,}"
        yield Drawing(name, stem(name), heading(name), note, panels, 1)
    yield Drawing(
        FAILURES,
        stem(FAILURES),
        heading(FAILURES),
        "beta = 0.01; simulated releases with a class of fewer than l diseases",
        list(_failure_panels(result)),
        2,
    )
    yield Drawing(
        LINKED,
        stem(LINKED),
        heading(LINKED),
        "classes that owners make each by itself, or the agency for all; with fewer than N records it lets nothing out",
        list(_linkage_panels(result)),
        2,
    )


def _points_panel(name: str, result: Result, title: str, of: Callable[[Point], int]) -> Panel:
    axis = _AXES[name]
    lines = _lines_of(name, result)
    return Panel(
        title=title,
        x_title=axis.x_title,
        y_title="records",
        places=_ticks([axis.x(point) for point in next(iter(lines.values()))]),
        lines={line: [of(point) for point in points] for line, points in lines.items()},
    )


def _ticks(places: list[str]) -> list[str]:
    """Leave all but every fifth label out where there are too many to read."""
    return places if len(places) <= _READABLE else [one if i % 5 == 0 else "" for i, one in enumerate(places)]


def _lines_of(name: str, result: Result) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for point in result.of(name):
        lines.setdefault(_AXES[name].line(point), []).append(point)
    return lines


def _failure_panels(result: Result) -> Iterator[Panel]:
    most = sorted({one.l for one in result.declines})[-2:]  # with fewer diseases hardly anything fails
    for distribution in DISTRIBUTIONS:
        for l in most:
            found = [one for one in result.declines if (one.distribution, one.l) == (distribution, l)]
            lines: dict[str, Sequence[float | None]] = {
                "the paper's bound": [one.bound for one in found],
                "tighter bound": [one.tighter_bound for one in found],
            }
            for place, title in enumerate(("one release", "two linked", "three linked")):
                lines[title] = [one.failed[place] / one.trials for one in found]
            yield Panel(
                title=f"{distribution}, l = {l}",
                x_title="records, as a share of the paper's N for delta = 0.01",
                y_title="failure probability",
                places=[f"{one.share:g}" for one in found],
                lines=lines,
            )


def _linkage_panels(result: Result) -> Iterator[Panel]:
    for distribution in DISTRIBUTIONS:
        for l in sorted({one.l for one in result.linkages}):
            found = [one for one in result.linkages if (one.distribution, one.l) == (distribution, l)]
            shares = sorted({one.share for one in found})
            yield Panel(
                title=f"{distribution}, l = {l}",
                x_title="records of each owner, as a multiple of the paper's N",
                y_title="people left with fewer than l diseases",
                places=[f"{share:g}" for share in shares],
                lines={
                    f"{_SHORT[way]}, {releases} linked": [_below(found, way, releases, share) for share in shares]
                    for way, releases in ((ALONE, 2), (ALONE, 3), (COARSE, 3), (AGENCY, 3))
                },
            )


def _below(found: Sequence[Linkage], way: str, releases: int, share: float) -> float | None:
    for one in found:
        if (one.way, one.releases, one.share) == (way, releases, share):
            return one.below / one.people
    return None


def _data(name: str, result: Result) -> Iterator[str]:
    """Yield the tables of one figure, for the page."""
    if name in FIGURES:
        yield from _points_table(name, result)
    elif name == FAILURES:
        yield from _failures_table(result)
    else:
        yield from _linkage_table(result)
    yield ""


def _points_table(name: str, result: Result) -> Iterator[str]:
    lines = _lines_of(name, result)
    yield "Each cell: the paper's N / the tighter N."
    yield ""
    yield f"| {_AXES[name].x_title} | {' | '.join(lines)} |"
    yield "|---:|" + "---:|" * len(lines)
    for row in zip(*lines.values(), strict=True):
        cells = [f"{point.records:,} / {point.tighter_records:,}" for point in row]
        yield f"| {_AXES[name].x(row[0])} | {' | '.join(cells)} |"


def _failures_table(result: Result) -> Iterator[str]:
    yield "| diseases | beta | l | delta | whose N | N | one release | two linked | three linked |"
    yield "|---|---:|---:|---:|---|---:|---|---|---|"
    by_setting: dict[tuple[object, ...], list[Failure]] = {}
    for one in result.failures:
        key: tuple[object, ...] = (
            one.distribution,
            f"{one.beta:g}",
            one.l,
            f"{one.delta:g}",
            one.rule,
            f"{one.records:,}",
        )
        by_setting.setdefault(key, []).append(one)
    for setting, found in by_setting.items():
        cells = [_rate(one.failed, one.trials) for one in found]
        yield f"| {' | '.join(map(str, (*setting, *cells)))} |"


def _rate(failed: int, trials: int) -> str:
    rate = Tally(failed, trials).rate()
    return f"{rate.value:.4f} ({rate.low:.4f} to {rate.high:.4f})"


def _linkage_table(result: Result) -> Iterator[str]:
    yield (
        "| diseases | l | records | of N | classes made | classes | below l | one disease left | least | median "
        "| worst case |"
    )
    yield "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|"
    rows: dict[tuple[object, ...], list[Linkage]] = {}
    for one in result.linkages:
        key = (one.distribution, one.l, f"{one.records:,}", f"{one.share:g}", one.way, f"{one.classes:,.0f}")
        rows.setdefault(key, []).append(one)
    for setting, found in rows.items():
        shown = (
            " / ".join(f"{one.below / one.people:.1%}" for one in found),
            " / ".join(f"{one.disclosed / one.people:.1%}" for one in found),
            " / ".join(str(one.least) for one in found),
            " / ".join(f"{one.median:g}" for one in found),
            " / ".join(str(one.worst_case) for one in found),
        )
        yield f"| {' | '.join(map(str, (*setting, *shown)))} |"


def _whole_csv(result: Result) -> str:
    """Return every simulated failure rate, with its interval and what the theorems allow."""
    rates = [
        {**asdict(one), "rate": one.rate.value, "low": one.rate.low, "high": one.rate.high, "bound": one.bound}
        for one in result.failures
    ]
    return format_csv([list(rates[0]), *(list(rate.values()) for rate in rates)])

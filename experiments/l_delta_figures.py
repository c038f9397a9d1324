"""The figures of the (l,delta)-diversity experiment as plots, as tables of the page and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from experiments.figures import Drawing, Panel
from experiments.l_delta import FIGURES, Point, Result
from experiments.l_delta_failures import RELEASES, Failure
from experiments.l_delta_linkage import AGENCY, ALONE, COARSE, Linkage
from experiments.l_delta_settings import DISTRIBUTIONS
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


def data(name: str, result: Result) -> Iterator[str]:
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


def figure_csv(name: str, result: Result) -> str:
    """Return the data of one figure."""
    if name in FIGURES:
        return _csv([asdict(point) for point in result.of(name)])
    if name == FAILURES:
        rows = []
        for one in result.declines:
            row = {key: value for key, value in asdict(one).items() if key not in ("failed", "trials")}
            for releases, failed in zip(RELEASES, one.failed, strict=True):
                rate = Tally(failed, one.trials).rate()
                rows.append(
                    {
                        **row,
                        "releases": releases,
                        "failed": failed,
                        "trials": one.trials,
                        "low": rate.low,
                        "high": rate.high,
                    }
                )
        return _csv(rows)
    return _csv([asdict(one) for one in result.linkages])


def whole_csv(result: Result) -> str:
    """Return every simulated failure rate, with its interval and what the theorems allow."""
    return _csv(
        [
            {**asdict(one), "rate": one.rate.value, "low": one.rate.low, "high": one.rate.high, "bound": one.bound}
            for one in result.failures
        ]
    )


def _csv(rows: Sequence[dict[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

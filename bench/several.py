"""Several releases: planning for an agency, releases by its plan, and linking releases."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.measuring import Measured, peak_of, timed

if TYPE_CHECKING:
    import pyarrow as pa

MILLION = 1_000_000
VALUES = 50
VALUES_OF_A_POINT = 5


def agency_plan(_: Path) -> Iterator[Measured]:
    """A million points, 50 sensitive values, five or all of them at each point, for a million records."""
    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan
    from shoal.release.forms.agreed import Promise

    table = _counts(MILLION, VALUES_OF_A_POINT)
    delta = Fraction("0.01")

    def whole() -> object:
        return make_plan(read_distribution(table, "s"), promise=10, delta=delta, samples=MILLION)

    seconds = timed(whole, 3)
    yield Measured("plan, |Q| = 1 million, |S| = 50, l = 10: read and plan", seconds, "10 s", _within(seconds, 10))
    known = read_distribution(table, "s")
    for promise in (Promise("k-delta-anonymity", 10), Promise("entropy-l-delta-diversity", 10)):
        seconds = timed(lambda promise=promise: make_plan(known, promise=promise, delta=delta, samples=MILLION), 1)
        yield Measured(f"plan, |Q| = 1 million, {promise.model}, {promise.parameter} = 10", seconds, "-", True)
    counts = _counts(MILLION, VALUES)
    seconds = timed(lambda: read_distribution(counts, "s"), 3)
    everything, peak = peak_of(lambda: read_distribution(counts, "s"))
    name = "read, |Q| = 1 million, all 50 values at every point (2.0 GB of them in memory before)"
    yield Measured(name, seconds, "3 s", _within(seconds, 3), peak)
    seconds = timed(lambda: make_plan(everything, promise=10, delta=delta, samples=MILLION), 3)
    yield Measured("plan, |Q| = 1 million, all 50 values at every point", seconds, "10 s", _within(seconds, 10))


def agency_apply(folder: Path) -> Iterator[Measured]:
    """A million records by a plan of 10,000 points, and two such releases linked."""
    from shoal.agency.apply import apply_plan
    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan, write_plan
    from shoal.linking.linking import link

    table = _counts(10_000, VALUES)
    plan = make_plan(read_distribution(table, "s"), promise=10, delta=Fraction("0.01"), samples=MILLION)
    write_plan(plan, folder / "plan.json")
    outs: list[Path] = []

    def publish() -> None:
        outs.append(folder / f"agreed{len(outs)}")
        apply_plan(folder / "plan.json", data[len(outs) % 2], outs[-1], seed=len(outs))

    data = [_drawn(table, MILLION, seed) for seed in range(2)]
    seconds = timed(publish, 2)
    classes = plan.classes.n_classes
    yield Measured(f"release by a plan, 1 million rows, {classes:,} classes, verified", seconds, "-", True)
    seconds = timed(lambda: link(outs[:2]), 3)
    yield Measured("link two releases by one plan, 1 million rows each", seconds, "30 s", _within(seconds, 30))


def link_adult(_: Path) -> Iterator[Measured]:
    """Two releases of Adult, everybody in both."""
    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy
    from shoal.linking.linking import link

    table = adult(columns=list(adult_policy()["attributes"]))
    releases = [
        anonymize(table, {**adult_policy(privacy=[model]), "method": {"mondrian": {}}}, seed=1)
        for model in ({"k-anonymity": {"k": 10}}, {"distinct-l-diversity": {"l": 5}})
    ]
    for name, population in (("by classes", None), ("for given people", table)):
        seconds = timed(lambda population=population: link(releases, population=population), 3)
        yield Measured(f"link two releases of Adult, {name}", seconds, "2 s", _within(seconds, 2))


def link_stays(folder: Path) -> Iterator[Measured]:
    """Two releases of a million stays each, by Mondrian."""
    from shoal import anonymize
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays
    from shoal.linking.linking import link

    outs, table = [], folder / "linked.parquet"
    write_stays(table, MILLION, seed=3)
    for number, model in enumerate(({"k-anonymity": {"k": 10}}, {"distinct-l-diversity": {"l": 5}})):
        outs.append(folder / f"linked{number}")
        policy: dict[str, Any] = {**hospital_policy(), "privacy": [model], "method": {"mondrian": {}}}
        anonymize(table, policy, out=outs[-1], seed=1)
    for name, population in (("by classes", None), ("for given people", table)):
        seconds = timed(lambda population=population: link(outs, population=population), 3)
        _, peak = peak_of(lambda population=population: link(outs, population=population))
        yield Measured(f"link two releases of 1 million stays, {name}", seconds, "2 s", _within(seconds, 2), peak)


def _within(seconds: list[float], limit: float) -> bool:
    return statistics.median(seconds) <= limit


def _counts(points: int, each: int) -> pa.Table:
    """Return a distribution over three quasi attributes, with so many sensitive values at each point."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    point = np.repeat(np.arange(points), each)
    step = VALUES // each
    value = (rng.integers(0, VALUES, points)[:, None] + step * np.arange(each)) % VALUES
    side = round(points ** (1 / 3)) + 1
    columns = {"a": point // side**2, "b": point // side % side, "c": point % side}
    return pa.table({**columns, "s": value.ravel(), "count": rng.integers(1, 1000, points * each)})


def _drawn(table: pa.Table, rows: int, seed: int) -> pa.Table:
    """Return independent records of a distribution."""
    weights = table["count"].to_numpy().astype(np.float64)
    chosen = np.random.default_rng(seed).choice(len(weights), rows, p=weights / weights.sum())
    return table.take(chosen).drop_columns(["count"])

"""Slicing, bucketization and counts of fake tuples: no other program has them, so there is no peer."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import Measured, command, timed
from bench.perturbed import write_perturbed
from bench.planning import counted, planner

TENTH, MILLION = 100_000, 1_000_000
SEVEN = ("age", "workclass", "education", "marital-status", "race", "sex", "occupation")
# Section 6.3 of the paper names its five columns, and not its two.
FIVE_OF_SEVEN = (("age", "marital-status", "sex"), ("workclass",), ("education",), ("race",), ("occupation",))
FIVE_OF_FIFTEEN = (
    ("age", "workclass", "education", "education-num", "capital-gain", "hours-per-week", "salary-class"),
    ("marital-status", "occupation", "relationship", "sex"),
    ("race", "native-country"),
    ("fnlwgt",),
    ("capital-loss",),
)


def slicing(folder: Path) -> Iterator[Measured]:
    """Adult with 7 and with 15 attributes, and a hundred thousand and a million perturbed rows of it."""
    from shoal.datasets.uci import adult

    rows = adult()
    seven = _seven()
    name = "slicing, Adult, 7 attributes, c = 2, alpha = 2, simple 3"
    yield from _in_process(name, rows.select(SEVEN), seven, 5, 0.3)
    attributes = {name: {"role": "sensitive" if name == "occupation" else "quasi"} for name in rows.column_names}
    privacy, method = [{"distinct-l-diversity": {"l": 5}}], {"slicing": {"columns": 5}}
    fifteen = {"attributes": attributes, "privacy": privacy, "method": method}
    yield from _in_process("slicing, Adult, 15 attributes, c = 5, distinct 5", rows, fifteen, 3, 5)
    files = {n: _perturbed(folder, rows.select(SEVEN), n) for n in (TENTH, MILLION)}
    yield from _growth(folder, "perturbed rows of Adult, 7 attributes, c = 2", files, seven, (7, 7), 13)


def slicing_stays(folder: Path) -> Iterator[Measured]:
    """Generated stays, of which nearly every one is a combination of values of its own: the bad case for a plan."""
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays

    files = {n: folder / f"sliced-{n}.parquet" for n in (TENTH, MILLION)}
    for rows, path in files.items():
        write_stays(path, rows, seed=1)
    privacy, method = [{"distinct-l-diversity": {"l": 5}}], {"slicing": {"columns": 2, "alpha": 2}}
    policy = {**hospital_policy(), "privacy": privacy, "method": method}
    yield from _growth(folder, "stays, 7 attributes, c = 2, distinct 5", files, policy, (3, None), 11)
    for path in files.values():
        path.unlink()


def anatomy(folder: Path) -> Iterator[Measured]:
    """A million perturbed rows in buckets of five different occupations."""
    from shoal.datasets.uci import adult

    policy = {**_seven(), "privacy": [{"distinct-l-diversity": {"l": 5}}], "method": {"anatomy": {}}}
    path = _perturbed(folder, adult(columns=SEVEN), MILLION)
    yield from _in_process("anatomy, 1 million perturbed rows of Adult, l = 5", path, policy, 3, 0.8)


def fake_tuples(_: Path) -> Iterator[Measured]:
    """Exact counts of fake tuples and of matching buckets, all attributes known, random buckets of 100 records."""
    from shoal.datasets.uci import adult

    rows = adult()
    runs: list[list[float]] = []
    for title, table, five in (("OCC-7", rows.select(SEVEN), FIVE_OF_SEVEN), ("OCC-15", rows, FIVE_OF_FIFTEEN)):
        for c, columns in ((2, {"columns": 2}), (5, {"parts": five})):
            count = _counter(table, columns)
            runs.append(timed(count, 3))
            stated = f"fake tuples, {title}, c = {c}, random buckets of 100: {count():,} of them counted"
            yield Measured(stated, runs[-1], "-", True)
    together = [sum(seconds) for seconds in zip(*runs, strict=True)]
    yield Measured("fake tuples: all four counts", together, "5 s", statistics.median(together) <= 5)


def _seven() -> dict[str, Any]:
    """Return the policy of the paper's table of seven attributes."""
    from shoal.datasets.uci import adult_policy

    policy = adult_policy(privacy=[{"simple-l-diversity": {"l": 3}}])
    return {**policy, "method": {"slicing": {"columns": 2, "alpha": 2}}}


def _in_process(name: str, data: Any, policy: dict[str, Any], repeats: int, limit: float | None) -> Iterator[Measured]:
    """Measure the plan alone, and counting, planning, making the rows and verifying them with the source."""
    from shoal import anonymize

    for stated, work in (
        ("plan in process", planner(data, policy)),
        ("in process, verified", lambda: anonymize(data, policy, seed=1)),
    ):
        yield _limited(f"{name}: {stated}", timed(work, repeats), limit)


def _growth(
    folder: Path,
    name: str,
    files: dict[int, Path],
    policy: dict[str, Any],
    limits: tuple[float, float | None],
    growth: float,
) -> Iterator[Measured]:
    """Measure tables of few and of many rows, and how that grows; limits of many rows: in process, as a command."""
    written = folder / "sliced.json"
    written.write_text(json.dumps(policy))
    measured: list[list[Measured]] = []
    for rows, path in files.items():
        inside, whole = limits if rows == max(files) else (None, None)
        stated = f"slicing, {rows:,} {name}"
        lines = list(_in_process(stated, path, policy, 3, inside))
        runs = [command(path, written, folder / "out") for _ in range(3)]
        peak = max(run.peak_mib for run in runs)
        lines.append(_limited(f"{stated}: whole command", [run.seconds for run in runs], whole, peak))
        yield from lines
        measured.append(lines)
    few, many = min(files), max(files)
    for stated, less, more in zip(("plan", "in process", "command"), *measured, strict=True):
        ratios = [seconds / less.median for seconds in more.seconds]
        job = f"slicing, {name}: growth from {few:,} to {many:,} rows, {stated} (a ratio, not seconds)"
        yield Measured(job, ratios, f"{growth:g}x", statistics.median(ratios) <= growth)


def _limited(job: str, seconds: list[float], limit: float | None, peak: float | None = None) -> Measured:
    if limit is None:
        return Measured(job, seconds, "-", True, peak)
    return Measured(job, seconds, f"{limit:g} s", statistics.median(seconds) <= limit, peak)


def _perturbed(folder: Path, table: Any, rows: int) -> Path:
    """Write perturbed rows of the seven attributes, unless they are there."""
    path = folder / f"perturbed-{rows}.parquet"
    return path if path.exists() else write_perturbed(path, table, rows, SEVEN[:-1], seed=3)


def _counter(table: Any, columns: dict[str, Any]) -> Callable[[], int]:
    """Group a table at random, and return a function that counts its fake tuples."""
    from experiments.membership import membership

    from shoal.core.progress import Silent
    from shoal.plan.slices import SlicedPlan

    method = {"slicing": {**columns, "grouping": "random", "bucket_size": 100}}
    attributes = {name: {"role": "quasi"} for name in table.column_names}
    asked = {"attributes": attributes, "privacy": [{"column-frequency": {"k": 1}}], "method": method}
    policy, problem = counted(table, asked)
    plan = policy.method.plan(problem, np.random.default_rng(1), Silent())
    assert isinstance(plan, SlicedPlan)
    pieces = plan.pieces
    values = [part.values[pieces.cell] for part in plan.parts]
    return lambda: membership(pieces.bucket, values, pieces.records).fake_tuples

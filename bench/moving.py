"""Sequential Sweep, groups along a Hilbert curve, and local suppression."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measuring import Measured, command, timed
from bench.planning import planner

REQUIREMENTS = ((0.5, 3), (0.3, 5), (0.25, 6), (0.15, 9), (0.1, 13))
MILLION = 1_000_000
COPIES = 4
K_FIVE = {"k-anonymity": {"k": 5}}


def sweep(_: Path) -> Iterator[Measured]:
    """Adult, six quasi attributes (720 combinations of levels), from weak to strong (tau,l)."""
    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy

    table = adult(columns=list(adult_policy()["attributes"]))
    for tau, l in REQUIREMENTS:
        for improve in (False, True):
            policy = adult_policy(privacy=[{"tau-l-diversity": {"tau": tau, "l": l}}])
            policy["method"] = {"sweep": {"improve": improve}}
            name = f"sweep, Adult, tau = {tau}, l = {l}, {'improve' if improve else 'without improve'}"
            plan = timed(planner(table, policy), 3)
            yield Measured(f"{name}: plan in process", plan, "0.6 s", statistics.median(plan) <= 0.6)
            releases: list[Any] = []
            whole = timed(lambda policy=policy, kept=releases: kept.append(anonymize(table, policy, seed=1)), 2)
            most, detail = 0.5 if tau >= 0.25 else 0.6, {"um": round(releases[-1].utility["um"], 4)}
            within = statistics.median(whole) <= most
            yield Measured(f"{name}: in process, verified", whole, f"{most} s", within, detail=detail)


def sweep_stays(folder: Path, rows: int = MILLION) -> Iterator[Measured]:
    """Generated stays by sweep, and the same cells with four times as many records in each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, policy = _stays(folder, rows, {"tau-l-diversity": {"tau": 0.5, "l": 3}}, {"sweep": {}})
    name = f"sweep, {rows / 1e6:g} million stays, tau = 0.5, l = 3"
    plan = timed(planner(path, policy), 1)
    yield Measured(f"{name}: plan in process", plan, "-", True)
    runs = [command(path, policy, folder / "out") for _ in range(2)]
    seconds = [run.seconds for run in runs]
    peak = max(run.peak_mib for run in runs)
    yield Measured(f"{name}: whole command", seconds, "6 s", statistics.median(seconds) <= 6 and peak < 1024, peak)
    copied = folder / "copied.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(path)] * COPIES), copied)
    once = command(copied, policy, folder / "out")
    growth = once.seconds / statistics.median(seconds)
    stated = f"sweep: growth from 1 to {COPIES} copies of every row (a ratio, not seconds)"
    yield Measured(stated, [growth], f"{COPIES}x", growth <= COPIES, once.peak_mib)
    copied.unlink()


def hilbert(folder: Path, rows: int = MILLION) -> Iterator[Measured]:
    """Generated stays in groups of five different diagnoses."""
    from shoal import anonymize

    path, policy = _stays(folder, rows, {"distinct-l-diversity": {"l": 5}}, {"hilbert": {}})
    name = f"hilbert, {rows / 1e6:g} million stays, l = 5"
    plan = timed(planner(path, policy), 3)
    yield Measured(f"{name}: plan in process", plan, "5 s", statistics.median(plan) <= 5)
    whole = timed(lambda: anonymize(path, policy, seed=1), 2)
    yield Measured(f"{name}: in process, verified", whole, "5 s", statistics.median(whole) <= 5)


def local_suppression(folder: Path, rows: int = MILLION) -> Iterator[Measured]:
    """Adult, six quasi attributes, and generated stays, k = 5; how time grows with ten times the rows."""
    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy

    for levels in ({}, {"age": 2, "workclass": 1, "education": 1, "marital-status": 1}):
        policy = {**adult_policy(privacy=[K_FIVE]), "method": {"local-suppression": {"levels": levels}}}
        table = adult(columns=list(policy["attributes"]))
        inside = timed(lambda table=table, policy=policy: anonymize(table, policy, seed=1), 3)
        name = f"local suppression, Adult, k = 5, {'levels by hand' if levels else 'original values'}"
        yield Measured(f"{name}: in process, verified", inside, "0.5 s", statistics.median(inside) <= 0.5)
    medians = []
    for n_rows in (rows // 10, rows):
        path, written = _stays(folder, n_rows, K_FIVE, {"local-suppression": {}})
        whole = timed(lambda path=path, written=written: anonymize(path, written, seed=1), 2)
        medians.append(statistics.median(whole))
        name = f"local suppression, {n_rows / 1e6:g} million stays, k = 5: in process, verified"
        yield Measured(name, whole, "5 s", medians[-1] <= 5)
    growth = medians[1] / medians[0]
    yield Measured("local suppression: growth from 1 to 10 times the rows (a ratio)", [growth], "13x", growth <= 13)


def _stays(folder: Path, rows: int, model: dict[str, Any], method: dict[str, Any]) -> tuple[Path, Path]:
    """Write the stays, unless they are there, and the demo's policy with one model and another method."""
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays

    path = folder / f"stays-{rows}.parquet"
    if not path.exists():
        write_stays(path, rows, seed=1)
    policy = folder / f"{next(iter(method))}.json"
    policy.write_text(json.dumps({**hospital_policy(), "privacy": [model], "method": method}))
    return path, policy

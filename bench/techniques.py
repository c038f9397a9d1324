"""Techniques and methods of the guidance on Adult and on a million rows, and the comparison of all of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import Measured, command, timed
from bench.perturbed import perturbed

KEPT: list[dict[str, Any]] = [{"k-anonymity": {"k": 5}}]
METHODS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "synthetic, epsilon 1": ([], {"synthetic": {"epsilon": 1.0}}),
    "plain, nothing done": ([], {"plain": {}}),
}
MILLION = 1_000_000
AGE_NOISE = {"noise": {"laplace": {"scale": 3}, "edges": "redraw"}}


def microaggregation(folder: Path) -> Iterator[Measured]:
    """Six quasi attributes, k = 5: Adult and ten times as many rows in process, and the whole command."""
    import pyarrow.csv

    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy

    policy = adult_policy(privacy=KEPT) | {"method": {"microaggregation": {}}}
    table = adult(columns=list(policy["attributes"]))
    large = perturbed(table, 10 * table.num_rows, policy["attributes"], np.random.default_rng(5))
    seconds = timed(lambda: anonymize(table, policy))
    least = statistics.median(seconds)
    yield Measured("Adult, microaggregation, k = 5: in process, verified", seconds, "0.5 s", least <= 0.5)
    growth = [one / least for one in timed(lambda: anonymize(large, policy), 3)]
    within = statistics.median(growth) <= 13
    yield Measured("microaggregation: growth to ten times the rows (a ratio, not seconds)", growth, "13x", within)
    written = folder / "averages.json"
    written.write_text(json.dumps(policy))
    for rows, limit in ((101_000, 5.0), (MILLION, 60.0)):
        source = folder / "averages.csv"
        pyarrow.csv.write_csv(perturbed(table, rows, policy["attributes"], np.random.default_rng(6)), source)
        runs = [command(source, written, folder / "out") for _ in range(3)]
        seconds = [run.seconds for run in runs]
        within, peak = statistics.median(seconds) <= limit, max(run.peak_mib for run in runs)
        name = f"microaggregation, {rows:,} rows of six quasi attributes: whole command"
        yield Measured(name, seconds, f"{limit:g} s", within, peak)


def techniques(_: Path) -> Iterator[Measured]:
    """Each method in process, verified, on Adult; what a technique adds to a million rows."""
    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy

    base = adult_policy()
    table = adult(columns=list(base["attributes"]))
    for name, (privacy, method) in METHODS.items():
        policy = {**base, "privacy": privacy, "method": method}
        seconds = timed(lambda policy=policy: anonymize(table, policy), 3)
        yield Measured(f"Adult, {name}: in process, verified", seconds, "-", True)
    million = perturbed(table, 1_000_000, base["attributes"], np.random.default_rng(5))
    noisy = {**base["attributes"], "age": {**base["attributes"]["age"], "technique": AGE_NOISE}}
    ranked = {
        **base["attributes"],
        "age": {**base["attributes"]["age"], "technique": {"rank-swapping": {"window": 0.05}}},
    }
    for name, attributes in (
        ("as it is", base["attributes"]),
        ("with Laplace noise on age", noisy),
        ("with rank swapping on age", ranked),
    ):
        policy = {**base, "attributes": attributes, "privacy": KEPT, "method": {"mondrian": {}}}
        seconds = timed(lambda policy=policy: anonymize(million, policy), 3)
        yield Measured(f"1 million perturbed rows of Adult, Mondrian, k = 5, {name}: verified", seconds, "-", True)


def techniques_of_offices(_: Path) -> Iterator[Measured]:
    """PRAM and record swapping of a generated census: the technique alone, and its check with the source."""
    import pyarrow as pa

    from shoal import anonymize
    from shoal.columns.base import list_changed, treat
    from shoal.columns.pram import Pram
    from shoal.columns.record_swapping import RecordSwapping
    from shoal.core.randomness import Chance
    from shoal.sources.opening import open_source
    from shoal.verify.verifier import verify_table

    rng = np.random.default_rng(5)
    household = np.repeat(np.arange(MILLION), rng.integers(1, 5, MILLION))[:MILLION]
    town = rng.integers(0, 2000, MILLION)[household]
    table = pa.table(
        {
            "hid": household,
            "nuts1": town // 1000,
            "nuts2": town // 200,
            "nuts3": town // 20,
            "lau": town,
            "age": rng.integers(0, 90, MILLION),
            "sex": rng.choice(["f", "m"], MILLION),
            "citizenship": np.minimum(rng.geometric(0.3, MILLION), 20),
        }
    )
    levels = ("nuts1", "nuts2", "nuts3", "lau")
    cases: dict[str, dict[str, Any]] = {
        "PRAM of citizenship, invariant by sex": {"citizenship": Pram(keep=0.8, invariant=True, strata=("sex",))},
        "record swapping, four levels, households": {
            "lau": RecordSwapping(hierarchy=levels, risk=("citizenship", "sex"), similar=("sex",), household="hid")
        },
    }
    for name, own in cases.items():

        def run(own: dict[str, Any] = own) -> None:
            for _batch in treat(own, open_source(table), Chance.of(None)).batches(list(list_changed(own))):
                pass

        seconds = timed(run, 5)
        yield Measured(
            f"{name}, 1 million records: the technique alone", seconds, "2 s", statistics.median(seconds) <= 2
        )
        attributes: dict[str, Any] = {column: {"role": "quasi"} for column in table.column_names}
        attributes["hid"] = {"role": "identifier"}
        for column, technique in own.items():
            given = {technique.name: technique.model_dump(mode="json", exclude_none=True)}
            attributes[column] = {"role": "quasi", "technique": given}
        release = anonymize(table, {"attributes": attributes, "privacy": [], "method": "plain"})
        given = {"source": open_source(table)}
        seconds = timed(lambda release=release, given=given: verify_table(release.data, release.manifest, **given), 5)
        yield Measured(
            f"{name}, 1 million records: verified with the source", seconds, "2 s", statistics.median(seconds) <= 2
        )


def comparing(_: Path) -> Iterator[Measured]:
    """All techniques side by side, with their attacks and measures."""
    from shoal import compare
    from shoal.datasets.uci import adult, adult_policy

    policy = adult_policy(privacy=[{"k-anonymity": {"k": 5}}, {"simple-l-diversity": {"l": 3}}])
    table = adult(columns=list(policy["attributes"]))
    seconds = timed(lambda: compare(table, policy, techniques="all"), 1)
    yield Measured("compare all techniques, Adult, 2,000 targets", seconds, "-", True)

"""Attacks on releases of Adult: all of them with 2,000 targets, and singling out by itself."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.measuring import Measured, timed

if TYPE_CHECKING:
    import pyarrow as pa

TARGETS = 2000
MILLION = 1_000_000
ENCOUNTERS = 100_000
RELEASED = 30_162  # as many of Adult's complete rows; the rest is the control group
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Mondrian, simple 3": ({"simple-l-diversity": {"l": 3}}, {"mondrian": {}}),
    "sweep, (0.5,3)": ({"tau-l-diversity": {"tau": 0.5, "l": 3}}, {"sweep": {}}),
    "anatomy, simple 3": ({"simple-l-diversity": {"l": 3}}, {"anatomy": {}}),
}


def attacking(_: Path) -> Iterator[Measured]:
    """All attacks together, with the policy, a control group and another release, and singling out alone."""
    from shoal import anonymize
    from shoal.attacks.running import attack
    from shoal.datasets.uci import adult_policy

    source, control = _tables()
    other = anonymize(source, adult_policy(), seed=1)
    for name, (model, method) in KINDS.items():
        policy = {**adult_policy(privacy=[model]), "method": method}
        release = anonymize(source, policy, seed=1)

        def tried(attacks: list[str] | None, release: Any = release, policy: Any = policy) -> object:
            return attack(
                release, source, control, attacks=attacks, targets=TARGETS, seed=1, policy=policy, others=[other]
            )

        every = timed(lambda tried=tried: tried(None), 3)
        yield Measured(f"all attacks, {TARGETS:,} targets, Adult, {name}", every, "5 s", _within(every, 5))
        alone = timed(lambda tried=tried: tried(["singling-out"]), 3)
        title = f"singling out, {TARGETS:,} predicates, Adult, {name}"
        yield Measured(title, alone, "3 s", _within(alone, 3))
    yield _measure_encounters()
    yield _measure_copies()


def _measure_encounters() -> Measured:
    """All attacks on hospital encounters that are published as they are, by twelve quasi-identifiers."""
    import pyarrow as pa

    from shoal import anonymize
    from shoal.attacks.running import attack
    from shoal.datasets.hospital import hospital_policy, stays

    def draw(seed: int) -> pa.Table:
        rng, table = np.random.default_rng(seed), pa.Table.from_batches(list(stays(ENCOUNTERS, seed=seed)))
        for name, width in {
            "ward": 24,
            "nights": 60,
            "referral": 5,
            "language": 12,
            "weight": 90,
            "children": 6,
        }.items():
            table = table.append_column(name, pa.array(rng.integers(width, size=ENCOUNTERS).astype(str)))
        return table

    source, control, policy = draw(1), draw(2), hospital_policy()
    new = [name for name in source.column_names if name not in policy["attributes"]]
    policy = {**policy, "privacy": [], "method": {"plain": {}}}
    policy["attributes"] = {**policy["attributes"], **{name: {"role": "quasi"} for name in new}}
    release = anonymize(source, policy, seed=1)
    seconds = timed(lambda: attack(release, source, control, targets=TARGETS, seed=1, policy=policy), 1)
    title = f"all attacks, {TARGETS:,} targets, {ENCOUNTERS:,} encounters, 12 quasi-identifiers"
    return Measured(title, seconds, "20 s", _within(seconds, 20))


def _measure_copies() -> Measured:
    """The copy test on a million rows, with as many people in the source and in the control table."""
    import pyarrow as pa

    from shoal.attacks.copies import CopiesAttack
    from shoal.attacks.view import ReleaseView

    def draw(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        widths = {"age": 72, "town": 500, "sex": 2, "job": 40, "education": 16, "illness": 50, "cost": 100_000}
        columns = {name: rng.integers(width, size=MILLION).astype(str) for name, width in widths.items()}
        return pa.table({name: pa.array(values).dictionary_encode() for name, values in columns.items()})

    rows, source, control = map(draw, range(3))
    attributes = {name: {"role": "quasi", "kind": "category"} for name in ("age", "town", "sex", "job", "education")}
    attributes |= {
        "illness": {"role": "sensitive", "kind": "category"},
        "cost": {"role": "insensitive", "kind": "number"},
    }
    view = ReleaseView.of(rows, {"method": "synthetic", "parts": [rows.column_names], "attributes": attributes})
    people, others = view.people(source, "the source"), view.people(control, "the control table")
    seconds = timed(lambda: CopiesAttack().run(view, people, others, np.random.default_rng(1)), 3)
    return Measured("copies, 1 million rows", seconds, "3 s", _within(seconds, 3))


def _tables() -> tuple[pa.Table, pa.Table]:
    import pyarrow as pa

    from shoal.datasets.uci import adult, adult_policy

    table = adult(columns=list(adult_policy()["attributes"]))
    order = np.random.default_rng(3).permutation(table.num_rows)
    return table.take(pa.array(order[:RELEASED])), table.take(pa.array(order[RELEASED:]))


def _within(seconds: list[float], limit: float) -> bool:
    return statistics.median(seconds) <= limit

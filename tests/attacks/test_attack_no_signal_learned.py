"""Attacks that learn, count, or join releases find nothing where there is nothing: 40 runs each, with a control group.

The rates of missing and of false alarms are those that test_attack_no_signal.py states. Releases to be joined or undone
are about other people than the source. Where an attack must know everybody in the data, the source has the quasi values
of the release, and sensitive values that were drawn anew: whatever is said of somebody is right by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack
from shoal.attacks.decoding import RefinementAttack
from shoal.attacks.downcoding import DowncodingAttack
from shoal.attacks.linkability import CompositionAttack
from shoal.attacks.minimality import MinimalityAttack
from shoal.attacks.view import ReleaseView

SEEDS = 40
N = 300
ILLS = ["asthma", "flu", "gout", "ulcer"]
TOWNS = ["Bonn", "Hof", "Jena", "Kiel", "Ulm", "Wyk"]
TREE = {
    "*": {"any": True},
    "north": {"values": ["Kiel", "Wyk"]},
    "south": {"values": ["Bonn", "Hof", "Jena", "Ulm"]},
    **{town: {"values": [town]} for town in TOWNS},
}
World = tuple[Attack, ReleaseView, pa.Table, pa.Table]


def drawn(rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {"age": rng.integers(20, 60, N), "town": rng.choice(TOWNS, N), "ill": rng.choice(ILLS, N)},
    )


def released(rows: pa.Table, town: np.ndarray[Any, Any], width: int = 10, **more: Any) -> ReleaseView:
    """A release of ages in ranges and of towns with these labels."""
    ranges = {f"from {age}": {"from": age, "below": age + width} for age in range(20, 60, width)}
    ages = pa.array([f"from {age // width * width}" for age in rows["age"].to_pylist()])
    attributes = {
        "age": {"role": "quasi", "kind": "number", "labels": ranges},
        "town": {"role": "quasi", "kind": "category", "labels": TREE},
        "ill": {"role": "sensitive", "kind": "category"},
    }
    published = pa.table({"age": ages, "town": pa.array(town.tolist()), "ill": rows["ill"]})
    return releases.view(
        published, {"method": "mondrian", "parts": [["age", "town", "ill"]], "attributes": attributes, **more}
    )


def labels(rows: pa.Table, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Towns, the half of which each record is under, or everywhere, by chance."""
    town = np.array(rows["town"].to_pylist())
    half = np.where(np.isin(town, TREE["north"]["values"]), "north", "south")
    return np.choose(rng.integers(3, size=N), [town, half, np.full(N, "*")])


def again(rows: pa.Table, rng: np.random.Generator) -> pa.Table:
    return rows.set_column(2, "ill", pa.array(rng.choice(ILLS, N)))


def composed(rng: np.random.Generator) -> World:
    one, two = (drawn(rng) for _ in range(2))
    view, other = released(one, np.full(N, "*")), released(two, labels(two, rng))
    return CompositionAttack(N, others=(other,)), view, drawn(rng), drawn(rng)


def downcoded(rng: np.random.Generator) -> World:
    rows = drawn(rng)
    return DowncodingAttack(N), released(rows, labels(rows, rng), width=2), drawn(rng), drawn(rng)


def refined(rng: np.random.Generator) -> World:
    rows = drawn(rng)
    return RefinementAttack(N), released(rows, labels(rows, rng)), again(rows, rng), drawn(rng)


def minimal(rng: np.random.Generator) -> World:
    rows = drawn(rng)
    promise = [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2}]
    view = released(rows, np.full(N, "*"), method="incognito", levels={"age": 0, "town": 1}, guarantees=promise)
    return MinimalityAttack(N), view, again(rows, rng), drawn(rng)


@pytest.mark.parametrize("world", [composed, downcoded, minimal, refined])
def test_nothing_is_found_where_nothing_is(world: Callable[[np.random.Generator], World]) -> None:
    covered, alarms = 0, 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 5])
        attack, view, source, control = world(rng)
        assert attack.refuses(view) is None
        others = view.people(control, "the control table")
        risk = attack.run(view, view.people(source, "the source"), others, rng).risk
        covered += risk.low <= 0 <= risk.high
        alarms += risk.low > 0
    assert covered >= SEEDS - 4
    assert alarms <= 3

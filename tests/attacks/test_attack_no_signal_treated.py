"""Attacks on changed, averaged and synthetic releases find nothing where nothing is: 40 runs each, with controls.

The rates of missing and of false alarms are those that test_attack_no_signal.py states. Releases are about other people
than the source but for two kinds, in which they are the source's own rows and what is asked for was dealt out anew.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack, People
from shoal.attacks.view import ReleaseView
from shoal.core.registry import discover

ATTACKS = discover("shoal.attacks", Attack)
SEEDS = 40
N_PEOPLE, N_TARGETS = 240, 120
TREE = {"any": {"lung": {"flu": {}, "asthma": {}}, "other": {"gout": {}, "ulcer": {}}}}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "age": {"role": "quasi", "kind": "number"},
    "town": {"role": "quasi", "kind": "category"},
    "sex": {"role": "quasi", "kind": "category"},
    "ill": {"role": "sensitive", "kind": "category", "taxonomy": TREE},
}
ANEW = {"technique": "permutation", "within": []}
TECHNIQUES: dict[str, dict[str, Any]] = {
    "noise": {"age": {"technique": "noise", "gaussian": {"sd": 2.0}, "decimals": 1}},
    "tokens": {"town": {"technique": "token", "length": 26}},
    "swapping": {name: {"technique": "swapping", "share": 0.3, "within": []} for name in ("age", "ill")},
    "pram": {name: {"technique": "pram", "keep": 0.7, "strata": [], "applied": []} for name in ("town", "ill")},
    "values dealt anew": {"ill": ANEW},
    "people dealt anew": dict.fromkeys(("age", "town", "sex"), ANEW),
}
SURE = ("background-knowledge", "external", "homogeneity", "similarity")
EVERY = ("inference", "linkability", "membership", "singling-out", "skewness")
ASKED = {
    "noise": (*SURE, *EVERY),
    "tokens": ("inference", "singling-out"),
    "swapping": ("homogeneity", "inference", "linkability", "singling-out"),
    "pram": ("homogeneity", "inference", "linkability", "singling-out"),
    "averages": ("homogeneity", *EVERY),
    "synthetic": EVERY,
    "values dealt anew": ("inference", "skewness"),
    "people dealt anew": ("linkability", "membership"),
}


def drawn(rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "age": rng.integers(20, 60, N_PEOPLE),
            "town": rng.choice(["Bonn", "Hof", "Jena", "Kiel", "Ulm"], N_PEOPLE),
            "sex": rng.choice(["F", "M"], N_PEOPLE),
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer"], N_PEOPLE),
        }
    )


def with_age(rows: pa.Table, age: Any) -> pa.Table:
    return rows.set_column(0, "age", pa.array(age))


def published(kind: str, rows: pa.Table, rng: np.random.Generator) -> tuple[pa.Table, dict[str, Any]]:
    """What a release of this kind shows of these rows, and its manifest."""
    attributes, age = {name: dict(entry) for name, entry in ATTRIBUTES.items()}, rows["age"].to_numpy()
    manifest: dict[str, Any] = {"method": "plain", "techniques": TECHNIQUES.get(kind, {})}
    if kind == "noise":
        rows = with_age(rows, (age + rng.normal(0, 2, N_PEOPLE)).round(1))
    elif kind == "tokens":
        rows = rows.set_column(1, "town", pa.array([f"token of {town[::-1]}" for town in rows["town"].to_pylist()]))
    elif kind == "averages":
        order = np.lexsort((age, rows["sex"].to_numpy(zero_copy_only=False)))
        rows, group = rows.take(pa.array(order)), np.arange(N_PEOPLE) // 3
        rows = with_age(rows, (np.bincount(group, age[order]) / 3)[group].round(1))
        rows = rows.set_column(1, "town", rows["town"].take(pa.array(group * 3)))
        manifest["method"] = "microaggregation"
    elif kind == "synthetic":
        attributes["age"]["labels"] = {f"{a}-{a + 4}": {"from": a, "below": a + 5} for a in range(0, 100, 5)}
        rows = with_age(rows, [f"{a}-{a + 4}" for a in (age // 5 * 5).tolist()])
        manifest["method"] = "synthetic"
    else:
        for name in manifest["techniques"]:
            order = rng.permutation(N_PEOPLE)
            moved = rows[name].take(pa.array(order))
            rows = rows.set_column(rows.column_names.index(name), name, moved)
    return rows, {"method": "plain", "parts": [rows.column_names], "attributes": attributes, **manifest}


@cache
def worlds(kind: str) -> list[tuple[ReleaseView, People, People]]:
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, *kind.encode()])
        rows = drawn(rng)
        source = rows if "anew" in kind else drawn(rng)
        view = releases.view(*published(kind, rows, rng))
        found.append((view, view.people(source, "the source"), view.people(drawn(rng), "the control table")))
    return found


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in ASKED.items() for name in names])
def test_nothing_is_found_where_nothing_is(kind: str, name: str) -> None:
    covered, alarms = 0, 0
    for seed, (view, source, control) in enumerate(worlds(kind)):
        attack = ATTACKS[name](N_TARGETS)
        assert attack.refuses(view) is None
        risk = attack.run(view, source, control, np.random.default_rng(seed)).risk
        covered += risk.low <= 0 <= risk.high
        alarms += risk.low > 0
    assert covered >= SEEDS - 4
    assert alarms <= 3

"""What every recipe of a comparison keeps to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.attacks.base import Trials
from shoal.compare.compare import compare
from shoal.compare.recipes import RECIPES as RECIPE_TABLE
from shoal.compare.recipes import Base
from shoal.compare.result import RISKS, Comparison
from shoal.policy.policy import Policy

RECIPES = {recipe.name: recipe for recipe in RECIPE_TABLE}
ILLNESSES = ["asthma", "flu", "gout", "migraine", "rash"]
POLICY: dict[str, Any] = {
    "attributes": {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 18, "max": 89, "widths": [6, 12, 24]}}},
        "town": {
            "role": "quasi",
            "taxonomy": {"flat": ["Bonn", "Hof", "Jena", "Kiel", "Ulm"]},
            "technique": {"record-swapping": {"hierarchy": ["town"], "risk": ["age", "sex"], "similar": ["sex"]}},
        },
        "sex": {"role": "quasi", "taxonomy": {"flat": ["F", "M"]}},
        "illness": {"role": "sensitive", "taxonomy": {"flat": ILLNESSES}},
        "cost": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 4}}],
}

SEVERAL = ("correlated-noise", "shuffling")  # need two numbers
ALONE = [recipe.name for recipe in RECIPE_TABLE if recipe.name not in SEVERAL]
COST = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 9999, "widths": [1000, 5000]}}}
NUMBERS = {**POLICY, "attributes": {**POLICY["attributes"], "cost": COST}}


def patients(n: int, seed: int) -> pa.Table:
    """People whose illness follows from their age, but for some."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    illness = np.where(rng.random(n) < 0.6, (age - 18) // 15, rng.integers(0, 5, n))
    return pa.table(
        {
            "patient": [f"{seed}-{i}" for i in range(n)],
            "age": age,
            "town": rng.choice(["Bonn", "Hof", "Jena", "Kiel", "Ulm"], n),
            "sex": rng.choice(["F", "M"], n),
            "illness": np.array(ILLNESSES)[illness],
            "cost": rng.integers(100, 9000, n),
        }
    )


@pytest.fixture(scope="module")
def everything() -> Comparison:
    return compare(patients(1500, 1), POLICY, techniques=ALONE, seed=3, targets=300)


@pytest.fixture(scope="module")
def together() -> Comparison:
    return compare(patients(1500, 1), NUMBERS, techniques=list(SEVERAL), seed=3, targets=300)


def row(found: Comparison, name: str) -> Any:
    return next(each for each in found.rows if each.name == name)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_serves_a_table_that_declares_all(name: str, everything: Comparison, together: Comparison) -> None:
    found = together if name in SEVERAL else everything
    rows = [each for each in found.rows if each.name == name]
    assert rows
    for each in rows:
        assert each.reason is None
        assert each.parameters
        assert each.records > 0
        assert each.seconds > 0
        assert set(each.risks) == set(RISKS)
        assert all(isinstance(each.risks[risk], Trials) for risk in RISKS)
        assert [one.size for one in each.marginals] == [1, 2, 3]
        assert all(0 <= one.release <= 1000 for one in each.marginals)
        assert each.kept.shuffled == found.rows[0].kept.shuffled  # all are compared with the same tables
        inference = each.risks["inference"]
        average = inference.variants.get("average", inference)  # beside the worst, where that is a part of the people
        assert average.control.trials == 300  # the 300 people who were put aside


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_gives_valid_policies_that_leave_the_base_as_it_is(name: str, tmp_path: Path) -> None:
    given = NUMBERS if name in SEVERAL else POLICY
    before = repr(given)
    found = RECIPES[name].apply(Base(Policy.load(given), {"illness": 0.3}, tmp_path / "key"))
    assert not isinstance(found, str)
    for setting in found:
        policy = Policy.load(setting.document)
        assert set(policy.attributes) == set(given["attributes"])
    assert repr(given) == before


def test_every_technique_but_the_original_gives_something_up(everything: Comparison) -> None:
    stands = everything.standings()
    assert set(stands) == set(range(len(everything.rows)))
    assert stands[0].kept == 1.0
    assert all(stand.kept < 1 or stand.risk.value > 0 for stand in stands.values())
    points = {stand.score for stand in stands.values() if not stand.dominated_by}
    assert max(stand.score for stand in stands.values()) in points


def test_risks_and_utility_go_the_way_they_must(everything: Comparison) -> None:
    original = row(everything, "original")
    assert [one.release for one in original.marginals] == [1000, 1000, 1000]
    assert original.risks["singling-out"].risk.low > 0.3
    classes = row(everything, "k-anonymity").risks["singling-out"]
    assert classes.risk.low > 0.3  # by the cost, which is published as it is
    assert classes.variants["quasi-identifiers only"].success.success == 0
    permuted = row(everything, "permutation")
    assert permuted.risks["inference"].risk.low <= 0
    assert permuted.marginals[0].release == 1000
    assert permuted.kept.release < original.kept.fresh
    assert row(everything, "noise").kept.release < 1000  # by the values as they were given
    assert permuted.risks["singling-out"].risk.low > 0.3
    for same in ("pseudonymisation", "hashing"):
        assert row(everything, same).marginals == original.marginals
        assert row(everything, same).risks["singling-out"].risk.low > 0.3

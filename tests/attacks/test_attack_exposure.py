"""Risks of some: the most exposed and the worst subgroup are found, and where there is nothing to find, nothing is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.attacks.base import Tally, Trials, verdict
from shoal.attacks.exposure import OF_SOME, Outcomes, judge

TOWNS = [f"town {i}" for i in range(40)]
VIEW: Any = SimpleNamespace(
    known=("town", "sex"),
    labels=(
        SimpleNamespace(number={town: place for place, town in enumerate(TOWNS)}),
        SimpleNamespace(number={"F": 0, None: 1}),
    ),
)


def outcomes(n: int, rng: np.random.Generator, rate: float = 0.2) -> Outcomes:
    labels = np.stack([rng.integers(40, size=n), rng.integers(2, size=n)], axis=1).astype(np.int32)
    return Outcomes(rng.random(n) < rate, rng.random(n), labels, rng.random(n) < rate)


def compare(inside: Outcomes, outside: Outcomes | None) -> Trials:
    return judge("x", VIEW, inside, outside)


def test_the_twenty_of_whom_an_adversary_is_surest_are_counted() -> None:
    rng = np.random.default_rng(1)
    inside, outside = outcomes(2000, rng), outcomes(1000, rng)
    inside.right[inside.surest[:20]] = True
    found = compare(inside, outside)
    assert found.exposed.success == Tally(20, 20)
    assert found.exposed.control.trials == 10  # the same share of the control group
    assert found.risk.low < 0 < found.exposed.risk.low
    assert found.worst == found.exposed.risk
    assert verdict(found).startswith("slight: for the 20 most exposed, 100% of")
    assert found.as_dict()["worst"]["rare"] is True  # 20 of 2,000 people do not stand for the release
    assert found.as_dict()["most_exposed"]["attack"] == {"success": 20, "trials": 20}


def test_the_worst_subgroup_is_found_and_its_interval_widened() -> None:
    rng = np.random.default_rng(2)
    inside, outside = outcomes(2000, rng), outcomes(2000, rng)
    inside.right[inside.labels[:, 0] == 7] = True
    found = compare(inside, outside)
    stated = found.as_dict()["worst_subgroup"]
    assert (stated["attribute"], stated["label"]) == ("town", "town 7")
    assert stated["among"] == 42
    trials = found.subgroup.trials
    assert trials.alarms == OF_SOME / 42
    assert found.worst == found.subgroup.trials.risk
    assert found.worst.low > 0
    assert "for people with town = town 7, 100% of the guesses that chance would miss" in verdict(found)
    assert "on average)" in verdict(found)


def test_without_a_control_group_some_are_compared_with_their_own_baseline() -> None:
    rng = np.random.default_rng(3)
    inside = outcomes(2000, rng)
    inside.right[inside.labels[:, 1] == 1] = True
    found = compare(inside, None)
    assert found.subgroup.label is None
    assert "sex = (missing)" in verdict(found)
    assert found.subgroup.trials.control is None
    assert found.subgroup.trials.baseline.trials == found.subgroup.trials.success.trials


@pytest.mark.parametrize("n_outside", [300, 2000])
def test_where_nothing_is_to_be_found_the_worst_of_all_is_no_alarm(n_outside: int) -> None:
    """At 0.3 % for both, more than 3 of 150 runs alarm with a chance of 1 in 1,000."""
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, n_outside])
        found = compare(outcomes(2000, rng), outcomes(n_outside, rng))
        alarms += max(found.exposed.risk.low, found.subgroup.trials.risk.low) > 0
    assert alarms <= 3


def test_few_people_have_no_most_exposed_and_no_subgroup() -> None:
    rng = np.random.default_rng(4)
    found = compare(outcomes(19, rng), outcomes(19, rng))
    assert found.exposed is None
    assert found.subgroup is None
    assert found.as_dict()["most_exposed"] is None
    assert found.worst == found.risk


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bonn", "Hof", "Jena", "Kiel", "Ulm", "Wyk"], n, p=[0.2, 0.2, 0.2, 0.2, 0.15, 0.05])
    return pa.table(
        {
            "age": rng.integers(20, 90, n),
            "town": town,
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer"], n),
            "job": rng.choice(["baker", "clerk", "nurse"], n),
        }
    )


def test_a_town_whose_people_are_given_away_is_named() -> None:
    """Everywhere else the illnesses are dealt anew; in Wyk everybody's age leads to the own one."""
    source, control = people(3000, 1), people(3000, 2)
    ill, town = source["ill"].to_numpy(zero_copy_only=False).copy(), source["town"].to_numpy(zero_copy_only=False)
    elsewhere = np.flatnonzero(town != "Wyk")
    ill[elsewhere] = np.random.default_rng(3).permutation(ill[elsewhere])
    roles = {"age": "quasi", "town": "quasi", "ill": "sensitive", "job": "sensitive"}
    policy = {
        "attributes": {name: {"role": role} for name, role in roles.items()},
        "privacy": [],
        "method": {"plain": {}},
    }
    release = shoal.anonymize(source.set_column(2, "ill", pa.array(ill)), policy, seed=1)
    about_ill, about_job = shoal.attack(release, source, control, attacks=["inference"], targets=3000, seed=1)
    assert (about_ill.about, about_job.about) == ("ill", "job")
    assert about_ill.risk.value < 0.1
    assert str(about_ill.subgroup) == "town = Wyk"
    assert about_ill.risk.low < 0 < about_ill.subgroup.trials.risk.low
    assert verdict(about_ill).endswith("(0% on average)")


def test_who_is_linked_is_named() -> None:
    """Ages and towns of all but those in Wyk are dealt anew, so only they are linked by both."""
    source, control = people(3000, 1), people(3000, 2)
    town, chance = source["town"].to_numpy(zero_copy_only=False), np.random.default_rng(3)
    elsewhere = np.flatnonzero(town != "Wyk")
    ages = source["age"].to_numpy().copy()
    ages[town == "Wyk"] = 90 + np.arange((town == "Wyk").sum())
    whole = source.set_column(0, "age", pa.array(ages))
    ages[elsewhere] = chance.permutation(ages[elsewhere])
    roles = {"age": "quasi", "town": "quasi", "ill": "sensitive", "job": "sensitive"}
    policy = {"attributes": {name: {"role": role} for name, role in roles.items()}, "method": {"plain": {}}}
    release = shoal.anonymize(whole.set_column(0, "age", pa.array(ages)), {**policy, "privacy": []}, seed=1)
    (found,) = shoal.attack(release, whole, control, attacks=["linkability"], seed=1)
    assert str(found.subgroup) == "town = Wyk"
    assert found.subgroup.trials.risk.low > 0.3
    assert found.exposed.success == Tally(20, 20)
    assert found.exposed.risk.low > 0.2


def test_seven_records_are_attacked_and_the_interval_says_how_little_that_tells() -> None:
    source, control = people(7, 5), people(7, 6)
    roles = {"age": {"role": "quasi"}, "town": {"role": "quasi"}, "ill": {"role": "sensitive"}}
    policy = {"attributes": roles, "privacy": [], "method": {"plain": {}}}
    rows = source.select(list(roles))
    for each in shoal.attack(shoal.anonymize(rows, policy, seed=1), rows, control, attacks=["inference"], seed=1):
        assert each.success.trials == 7
        assert each.risk.high - each.risk.low > 0.5
        assert any("so few tell little" in note for note in each.notes)

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


@pytest.mark.parametrize("n_outside", [300, 2000])
def test_where_nothing_is_to_be_found_the_worst_of_all_is_no_alarm(n_outside: int) -> None:
    """At 0.3 % for both, more than 3 of 150 runs alarm with a chance of 1 in 1,000."""
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, n_outside])
        found = compare(outcomes(2000, rng), outcomes(n_outside, rng))
        alarms += max(found.exposed.risk.low, found.subgroup.trials.risk.low) > 0
    assert alarms <= 3


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

"""Leaks that were put into changed, averaged and synthetic releases are found, to the record where that is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack, Tally, Trials
from shoal.attacks.linkability import ExternalAttack
from shoal.attacks.sensitive import HomogeneityAttack, InferenceAttack
from shoal.attacks.singling_out import SinglingOutAttack
from shoal.attacks.treatments import Treatments

N = 400
ILLS = ("asthma", "flu", "gout", "ulcer")
SWAPPED = {"technique": "swapping", "share": 2 / N, "within": []}
ANEW = {"technique": "permutation", "within": []}


def strangers(seed: int) -> pa.Table:
    """People with many different values, none of which tells anything about the illness."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "age": chance.integers(18, 90, N),
            "zip": chance.permutation(90_000)[:N] + 10_000,
            "job": chance.choice([f"job {i}" for i in range(40)], N),
            "ill": chance.choice(ILLS, N),
        }
    ).set_column(1, "zip", pa.array([str(code) for code in chance.permutation(90_000)[:N] + 10_000]))


SOURCE, CONTROL = strangers(1), strangers(2)


def manifest(rows: pa.Table, method: str = "plain", **techniques: Any) -> dict[str, Any]:
    kinds = {
        name: "category" if pa.types.is_string(rows.schema.field(name).type) else "number" for name in rows.column_names
    }
    attributes = {
        name: {"role": "sensitive" if name == "ill" else "quasi", "kind": kind} for name, kind in kinds.items()
    }
    return {"parts": [rows.column_names], "attributes": attributes, "method": method, "techniques": techniques}


def tried(attack: Attack, rows: pa.Table, stated: dict[str, Any], source: pa.Table = SOURCE) -> Trials:
    view = releases.view(rows, stated)
    assert attack.refuses(view) is None
    people, others = view.people(source, "the source"), view.people(CONTROL, "the control table")
    return attack.run(view, people, others, np.random.default_rng(7))


def with_column(rows: pa.Table, name: str, values: Any) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, pa.array(values))


def exchanged(name: str, one: int, two: int) -> pa.Table:
    values = SOURCE[name].to_pylist()
    values[one], values[two] = values[two], values[one]
    return with_column(SOURCE, name, values)


def a_pair() -> tuple[int, int]:
    """Two people who differ in their illness."""
    ills = SOURCE["ill"].to_pylist()
    return 0, next(place for place, ill in enumerate(ills) if ill != ills[0])


@pytest.mark.parametrize("attack", [InferenceAttack(N), ExternalAttack(N), HomogeneityAttack(N)], ids=lambda a: a.name)
def test_of_a_swapped_pair_of_values_all_others_are_told_and_these_two_are_not(attack: Attack) -> None:
    rows = exchanged("ill", *a_pair())
    assert tried(attack, rows, manifest(rows, ill=SWAPPED)).success == Tally(N - 2, N)


@pytest.mark.parametrize("name", ["zip", "age"])
@pytest.mark.parametrize("attack", [InferenceAttack(N), ExternalAttack(N), HomogeneityAttack(N)], ids=lambda a: a.name)
def test_a_swapped_pair_of_quasi_values_hides_nobody(attack: Attack, name: str) -> None:
    """Both records differ from their people in one attribute, and from everybody else in more."""
    stated = {name: SWAPPED}
    assert tried(attack, exchanged(name, *a_pair()), manifest(SOURCE, **stated)).success == Tally(N, N)


def test_noise_on_one_column_hides_nobody_whom_the_others_tell() -> None:
    rows = with_column(SOURCE, "age", SOURCE["age"].to_numpy() + np.random.default_rng(3).normal(0, 5, N).round())
    stated = manifest(rows, age={"technique": "noise", "gaussian": {"sd": 5.0}, "decimals": 0})
    for attack in (InferenceAttack(N), ExternalAttack(N), HomogeneityAttack(N)):
        assert tried(attack, rows, stated).success.rate().low > 0.95
    # Predicates ask for a range of ages, if for any: asked for just the published number, hardly one would be right.
    assert tried(SinglingOutAttack(200), rows, stated).success.rate().low > 0.8


def test_values_dealt_out_within_groups_of_one_are_people_s_own() -> None:
    """Permutation within zips, of which everybody has another, moves nothing; the whole table's moves everything."""
    within = {**ANEW, "within": ["zip"]}
    kept = tried(InferenceAttack(N), SOURCE, manifest(SOURCE, ill=within))
    assert kept.success == Tally(N, N)
    assert "agree in zip" in kept.notes[-1]
    rows = with_column(SOURCE, "ill", np.random.default_rng(2).permutation(SOURCE["ill"].to_pylist()))
    moved = tried(InferenceAttack(N), rows, manifest(rows, ill=ANEW))
    assert moved.success == moved.baseline
    refused = HomogeneityAttack(N).refuses(releases.view(rows, manifest(rows, ill=ANEW)))
    assert "'ill' are in other people's rows" in str(refused)


def test_swapped_values_are_believed_as_far_as_they_stayed() -> None:
    """A person's own row counts 1 - s, and the whole table s."""
    stated = manifest(SOURCE, ill={"technique": "swapping", "share": 0.4, "within": []})
    view = releases.view(SOURCE, stated)
    secret, people = view.secrets["ill"], view.people(SOURCE, "the source")
    expected = np.tile(0.4 * secret.marginal, (N, 1))
    expected[np.arange(N), people.secrets["ill"]] += 0.6
    assert np.allclose(view.believe(secret, people), expected, atol=1e-12)
    assert "in a person's row by 0.6" in tried(InferenceAttack(N), SOURCE, stated).notes[-1]
    mostly = releases.view(SOURCE, manifest(SOURCE, age={"technique": "swapping", "share": 0.6, "within": []}))
    assert mostly.together.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("technique", "paid"),
    [
        ({"technique": "rounding", "base": 500, "random": False}, lambda pay: np.floor(pay / 500 + 0.5) * 500),
        ({"technique": "coding", "bottom": 2000, "top": 4000, "decimals": 0}, lambda pay: np.clip(pay, 2000, 4000)),
        ({"technique": "noise", "gaussian": {"sd": 1.0}, "decimals": 2}, lambda pay: pay + 0.37),
    ],
    ids=["rounding", "coding", "noise"],
)
def test_sensitive_numbers_that_were_changed_are_guessed_by_ranges(technique: dict[str, Any], paid: Any) -> None:
    pay = np.random.default_rng(4).integers(1000, 5000, N)
    source = with_column(SOURCE, "ill", pay)
    found = tried(InferenceAttack(N), with_column(SOURCE, "ill", paid(pay)), manifest(source, ill=technique), source)
    assert found.success.rate().value > 0.97
    assert "was changed as a number" in found.notes[0]


def test_what_a_technique_makes_of_values_is_computed_as_it_was() -> None:
    stated = Treatments.of(
        releases.state(
            {
                "attributes": {name: {"role": "quasi", "kind": "number"} for name in ("a", "b", "c")},
                "techniques": {
                    "a": {"technique": "rounding", "base": 0.1, "random": False},
                    "b": {"technique": "coding", "top": 90, "decimals": 0},
                    "c": {"technique": "rounding", "base": 5, "random": True},
                },
            }
        )
    )
    numbers = pa.array(["0.25", "0.34", None, "99"])
    assert stated.apply("a", numbers, None).to_pylist() == [0.3, 0.3, None, 99.0]
    assert stated.apply("b", numbers, None).to_pylist() == [0.0, 0.0, None, 90.0]
    assert stated.apply("a", numbers, (0.4, 98.9)).to_pylist() == [0.4, 0.4, None, 98.9]  # the ends of a domain
    assert stated.apply("a", numbers, (0.5, 98.0)).to_pylist() == [0.3, 0.3, None, 99.0]  # too far beyond them
    assert stated.apply("c", numbers, None) is numbers  # chance decides, so there is nothing to compute
    assert stated.trace("c").blur == 5.0

"""Leaks that were put into changed, averaged and synthetic releases are found, to the record where that is exact."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack, Tally, Trials
from shoal.attacks.linkability import LinkabilityAttack
from shoal.attacks.membership import MembershipAttack
from shoal.attacks.sensitive import ExternalAttack, HomogeneityAttack, InferenceAttack, SkewnessAttack
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


def test_a_swapped_pair_is_all_that_singling_out_and_linking_miss() -> None:
    one, two = a_pair()
    rows = exchanged("zip", one, two)
    out = tried(SinglingOutAttack(N), rows, manifest(rows, zip=SWAPPED))
    assert N - 2 <= out.success.success <= out.success.trials == N
    linked = tried(LinkabilityAttack(N), rows, manifest(rows, zip=SWAPPED))
    copied = tried(LinkabilityAttack(N), SOURCE, manifest(SOURCE))
    assert copied.success.success - 10 <= linked.success.success
    assert linked.risk.low > 0.8
    inside = tried(MembershipAttack(N), rows, manifest(rows, zip=SWAPPED))
    assert inside.success.success >= inside.success.trials - 2
    assert inside.control is not None
    assert inside.control.success == 0


def test_noise_on_one_column_hides_nobody_whom_the_others_tell() -> None:
    rows = with_column(SOURCE, "age", SOURCE["age"].to_numpy() + np.random.default_rng(3).normal(0, 5, N).round())
    stated = manifest(rows, age={"technique": "noise", "gaussian": {"sd": 5.0}, "decimals": 0})
    for attack in (InferenceAttack(N), ExternalAttack(N), HomogeneityAttack(N)):
        assert tried(attack, rows, stated).success.rate().low > 0.95
    # Predicates ask for a range of ages, if for any: asked for just the published number, hardly one would be right.
    assert tried(SinglingOutAttack(200), rows, stated).success.rate().low > 0.8


def test_numbers_alone_with_noise_are_asked_for_in_ranges() -> None:
    chance = np.random.default_rng(5)
    source = pa.table(
        {"pay": chance.permutation(100_000)[:N], "tax": chance.permutation(100_000)[:N], "ill": SOURCE["ill"]}
    )
    noise = {"technique": "noise", "laplace": {"scale": 20.0}, "decimals": 0}
    rows = source
    for name in ("pay", "tax"):
        rows = with_column(rows, name, source[name].to_numpy() + chance.laplace(0, 20, N).round())
    view = releases.view(rows, manifest(rows, pay=noise, tax=noise))
    people = view.people(source, "the source")
    found = SinglingOutAttack(300).run(view, people, None, chance)
    assert found.success.trials == 300
    assert found.success.rate().value > 0.95
    blind = releases.view(rows, manifest(rows))
    exact = SinglingOutAttack(300).run(blind, blind.people(source, "the source"), None, chance)
    assert exact.success.rate().value < 0.1


def test_tokens_of_an_attribute_leave_what_the_others_tell() -> None:
    rows = with_column(SOURCE, "zip", [f"token {i}" for i in range(N)])
    stated = manifest(rows, zip={"technique": "pseudonym", "domain": "zip", "length": 26, "reversible": False})
    view = releases.view(rows, stated)
    assert view.known == ("age", "job")
    found = tried(InferenceAttack(N), rows, stated)
    pairs = len(set(zip(SOURCE["age"].to_pylist(), SOURCE["job"].to_pylist(), strict=True)))
    assert found.success.success >= pairs  # one of each combination at least is guessed right
    hashes = [hashlib.sha256(code.encode()).hexdigest() for code in SOURCE["zip"].to_pylist()]
    bare = with_column(SOURCE, "zip", hashes)
    assert tried(InferenceAttack(N), bare, manifest(bare, zip={"technique": "hash", "salt": "none"})).success == Tally(
        N, N
    )
    salted = tried(InferenceAttack(N), bare, manifest(bare, zip={"technique": "hash", "salt": "random"}))
    assert salted.success == found.success


def test_a_homogeneous_group_of_averages_is_found() -> None:
    """Ten groups of five, one of which has one illness."""
    group = np.repeat(np.arange(10), 5)
    source = pa.table(
        {"age": 20 + 5 * group + np.tile(np.arange(5), 10), "ill": ["gout"] * 5 + ["flu", "ulcer", "flu"] * 15}
    )
    rows = with_column(source, "age", 22.0 + 5 * group)
    stated = manifest(rows, "microaggregation")
    assert tried(HomogeneityAttack(50), rows, stated, source).success == Tally(5, 50)
    assert tried(SinglingOutAttack(50), rows, stated, source).success.success == 0  # groups are of five


def test_a_unique_value_stands_out_of_a_column_that_was_dealt_out_anew() -> None:
    ages = SOURCE["age"].to_numpy().copy()
    ages[3] = 111
    source = with_column(SOURCE, "age", ages)
    rows = with_column(source, "age", np.random.default_rng(1).permutation(ages))
    found = tried(SinglingOutAttack(1000), rows, manifest(rows, age=ANEW), source)
    view = releases.view(rows, manifest(rows, age=ANEW))
    assert view.together.tolist() == [False, True, True]
    alone = tried(
        SinglingOutAttack(1000), rows.select(["age", "ill"]), manifest(rows.select(["age", "ill"]), age=ANEW), source
    )
    assert alone.success.success >= 1
    assert found.success.rate().low > 0.9  # by zip and job, which still belong together


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
    assert "'ill' stand in rows of other people" in str(refused)


def test_swapped_values_are_believed_as_far_as_they_stayed() -> None:
    """A person's own row counts 1 - s, and the whole table s."""
    stated = manifest(SOURCE, ill={"technique": "swapping", "share": 0.4, "within": []})
    view = releases.view(SOURCE, stated)
    secret, people = view.secrets["ill"], view.people(SOURCE, "the source")
    expected = np.tile(0.4 * secret.marginal, (N, 1))
    expected[np.arange(N), people.secrets["ill"]] += 0.6
    assert np.allclose(view.believe(secret, people), expected, atol=1e-12)
    assert "counts 0.6" in tried(InferenceAttack(N), SOURCE, stated).notes[-1]
    mostly = releases.view(SOURCE, manifest(SOURCE, age={"technique": "swapping", "share": 0.6, "within": []}))
    assert mostly.together.tolist() == [False, True, True]


def test_a_swapped_number_is_as_wrong_as_any_other() -> None:
    """One row differs a little in the age and in the job, another much in the swapped age alone: that one is meant."""
    rows = pa.table({"age": [30, 80, 55], "job": ["x", "y", "z"], "ill": ["flu", "gout", "ulcer"]})
    one = pa.table({"age": [31], "job": ["y"], "ill": ["gout"]})
    swapped = releases.view(rows, manifest(rows, age={"technique": "swapping", "share": 0.2, "within": []}))
    left = swapped.find_left(swapped.secrets["ill"], swapped.people(one, "one"))
    assert left.weights[0].tolist() == [0.0, 1.0, 0.0]
    assert left.far.tolist() == [1.0]  # an age is right or wrong
    as_it_is = releases.view(rows, manifest(rows))
    assert as_it_is.find_left(as_it_is.secrets["ill"], as_it_is.people(one, "one")).far[0] < 1.0


def test_a_rare_value_in_a_synthetic_class_is_suspected_but_no_class_is_anybody_s() -> None:
    towns = pa.table({"town": ["Ulm"] * 180 + ["Bonn"] * 20, "ill": ["flu"] * 180 + ["ulcer"] * 10 + ["flu"] * 10})
    stated = manifest(towns, "synthetic")
    view = releases.view(towns, stated)
    people = view.people(towns, "the source")
    assert SkewnessAttack(500).run(view, people, None, np.random.default_rng(1)).success == Tally(10, 200)
    for attack in (HomogeneityAttack(50), ExternalAttack(50)):
        assert "drawn at random" in str(attack.refuses(view))


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


def test_ranges_of_sensitive_numbers_are_wider_than_their_noise() -> None:
    """Grades from 1 to 5 with much noise: 20 ranges would be told apart by noise alone."""
    grade = np.random.default_rng(4).integers(1, 6, N) * 100
    source = with_column(SOURCE, "ill", grade)
    rows = with_column(SOURCE, "ill", grade + np.random.default_rng(5).normal(0, 30, N).round())
    noise = {"technique": "noise", "gaussian": {"sd": 30.0}, "decimals": 0}
    edges = releases.view(rows, manifest(rows, ill=noise)).secrets["ill"].edges
    assert edges is not None
    assert 1 <= len(edges) <= 5
    assert (np.diff(edges) >= 120).all()
    found = tried(InferenceAttack(N), rows, manifest(rows, ill=noise), source)
    assert found.risk.low > 0.3


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

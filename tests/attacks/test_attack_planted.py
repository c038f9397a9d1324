"""A leak that was put into the data is found, by the attack that is about it, and to the record where that is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack, Refusal, Tally, Trials
from shoal.attacks.linkability import ExternalAttack, LinkabilityAttack
from shoal.attacks.membership import MembershipAttack
from shoal.attacks.running import Scene, try_attack
from shoal.attacks.sensitive import (
    BackgroundKnowledgeAttack,
    HomogeneityAttack,
    InferenceAttack,
    SimilarityAttack,
    SkewnessAttack,
)
from shoal.attacks.singling_out import SinglingOutAttack
from shoal.core.errors import UsageError

N = 600
ILLS = ("asthma", "flu", "gout", "ulcer")


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def as_it_is(rows: pa.Table, sensitive: str = "ill", **entry: Any) -> dict[str, Any]:
    """The manifest of rows that are published as they are."""
    attributes: dict[str, Any] = {}
    for name in rows.column_names:
        number = pa.types.is_integer(rows.schema.field(name).type) or pa.types.is_floating(rows.schema.field(name).type)
        attributes[name] = {"role": "quasi", "kind": "number" if number else "category"}
    attributes[sensitive] = {**attributes[sensitive], "role": "sensitive", **entry}
    return {"method": "plain", "parts": [rows.column_names], "attributes": attributes}


def strangers(seed: int, n: int = N) -> pa.Table:
    """People with many different values, none of which tells anything about the illness."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "age": chance.integers(18, 90, n),
            "zip": chance.integers(10_000, 99_999, n).astype(str),
            "job": chance.choice([f"job {i}" for i in range(40)], n),
            "ill": chance.choice(ILLS, n),
        }
    )


def in_towns(ills: dict[str, list[str]]) -> tuple[pa.Table, dict[str, Any]]:
    """Rows of classes, each a town with its illnesses."""
    rows = pa.table(
        {
            "town": [town for town, values in ills.items() for _ in values],
            "ill": [value for values in ills.values() for value in values],
        }
    )
    return rows, as_it_is(rows)


def tried(attack: Any, rows: pa.Table, manifest: dict[str, Any], source: pa.Table, control: pa.Table | None = None):
    view = releases.view(rows, manifest)
    assert attack.refuses(view) is None
    others = None if control is None else view.people(control, "the control table")
    return attack.run(view, view.people(source, "the source"), others, rng())


def test_a_copy_singles_everybody_out() -> None:
    source, control = strangers(1), strangers(2)
    found = tried(SinglingOutAttack(400), source, as_it_is(source), source, control)
    assert found.success == Tally(400, 400)
    assert found.control.success < 40
    assert found.risk.low > 0.9


def test_columns_that_are_not_called_quasi_identifying_tell_people_apart() -> None:
    source, control = (
        strangers(1 + aside).append_column("visits", pa.array(numbers)).append_column("code", pa.array(numbers * 7))
        for aside, numbers in enumerate(np.arange(2 * N).reshape(2, N))
    )
    people, manifest = source, as_it_is(source)
    for name in ("age", "zip", "job"):
        manifest["attributes"][name] = {"role": "quasi", "kind": "category", "labels": {"*": {"any": True}}}
        source = source.set_column(source.column_names.index(name), name, pa.array(["*"] * N))
    for name in ("visits", "code"):
        manifest["attributes"][name]["role"] = "insensitive"

    def try_widely(attack: Attack, control: pa.Table) -> Trials | Refusal:
        view = releases.view(source, manifest)
        known = Scene(view, view.people(people, "people"), others=view.people(control, "others"))
        (found,) = try_attack(attack, known, known.widen(), [7])
        return found

    for attack in (SinglingOutAttack(N), InferenceAttack(N), MembershipAttack(N), LinkabilityAttack(N)):
        found = try_widely(attack, control)
        assert found.risk.low > 0.3, attack.name
        assert "the attacker is assumed to know 'visits', 'code' as well, which the release shows" in found.notes
        assert attack.name == "singling-out" or found.variants["quasi-identifiers only"].risk.low <= 0
    assert try_widely(SinglingOutAttack(N), control).success == Tally(N, N)
    lacking = try_widely(SinglingOutAttack(N), strangers(2))  # the control group lacks the column
    manifest["techniques"] = {name: {"technique": "token", "length": 26} for name in ("visits", "code")}
    for refused in (lacking, try_widely(SinglingOutAttack(N), control)):
        assert "does not distinguish people" in refused.reason


def test_a_copy_links_halves_of_people() -> None:
    source, control = strangers(1), strangers(2)
    found = tried(LinkabilityAttack(400), source, as_it_is(source), source, control)
    assert found.success.success > 390
    assert found.control.rate().low < 0.12
    assert found.risk.low > 0.9


def test_slices_apart_do_not_link_what_they_keep_apart() -> None:
    source, control = strangers(1).select(["age", "zip", "ill"]), strangers(2).select(["age", "zip", "ill"])
    order = rng().permutation(N)
    rows = pa.table(
        {
            "bucket": np.ones(N, dtype=np.int64),
            "age": source["age"],
            "zip": source["zip"].take(pa.array(order)),
            "ill": source["ill"].take(pa.array(order)),
        }
    )
    manifest = {**as_it_is(source), "method": "slicing", "parts": [["age"], ["zip", "ill"]]}
    found = tried(LinkabilityAttack(400), rows, manifest, source, control)
    assert found.risk.low < 0 < found.risk.high


def test_a_copy_tells_the_sensitive_value() -> None:
    source, control = strangers(1), strangers(2)
    found = tried(InferenceAttack(400), source, as_it_is(source), source, control)
    assert found.success == Tally(400, 400)
    assert found.baseline.rate().high < 0.4
    assert found.risk.low > 0.9


def test_a_homogeneous_class_is_found_to_the_record() -> None:
    rows, manifest = in_towns({"Ulm": ["flu", "gout"] * 20, "Bonn": ["gout"] * 7, "Jena": ["asthma", "flu"] * 10})
    found = tried(HomogeneityAttack(100), rows, manifest, rows)
    assert found.success == Tally(7, 67)
    assert found.baseline == Tally(0, 67) or found.baseline == Tally(7, 67)


def test_two_exclusions_leave_one_of_three_values() -> None:
    rows, manifest = in_towns({"Ulm": ["flu", "gout", "asthma"] * 10, "Bonn": list(ILLS) * 10})
    found = tried(BackgroundKnowledgeAttack(100, exclusions=2), rows, manifest, rows)
    assert "30 of 70 people" in found.notes[0]
    assert "is 1.000" in found.notes[0]
    assert found.success.success >= 30
    with pytest.raises(UsageError, match="at least 1"):
        BackgroundKnowledgeAttack(100, exclusions=0)


def test_a_rare_value_that_is_frequent_in_a_class_is_suspected() -> None:
    rows, manifest = in_towns({"Ulm": ["flu"] * 180, "Bonn": ["ulcer"] * 10 + ["flu"] * 10})
    found = tried(SkewnessAttack(500), rows, manifest, rows)
    assert found.success == Tally(10, 200)
    even, stated = in_towns({"Ulm": ["flu"] * 90 + ["ulcer"] * 5, "Bonn": ["flu"] * 90 + ["ulcer"] * 5})
    assert tried(SkewnessAttack(500), even, stated, even).success == Tally(0, 190)


def test_values_of_one_kind_are_told_as_that_kind() -> None:
    rows, manifest = in_towns({"Ulm": ["flu", "gout"] * 20, "Bonn": ["flu", "asthma"] * 6})
    tree = {"any": {"lung": {"flu": {}, "asthma": {}}, "other": {"gout": {}, "ulcer": {}}}}
    manifest["attributes"]["ill"]["taxonomy"] = tree
    assert tried(SimilarityAttack(100), rows, manifest, rows).success == Tally(12, 52)
    assert tried(HomogeneityAttack(100), rows, manifest, rows).success == Tally(0, 52)


def test_a_register_of_names_leads_to_records() -> None:
    source = strangers(1).append_column("name", pa.array([f"person {i}" for i in range(N)]))
    rows = source.drop_columns(["name"])
    register = source.select(["name", "zip", "age"]).slice(0, 200)
    found = tried(ExternalAttack(500, register=register), rows, as_it_is(rows), source, strangers(2))
    assert found.success.trials == 200
    assert found.success.success > 195
    assert found.control.rate().high < 0.35  # the nearest row of others has the same illness by chance
    assert "200 people" in found.notes[0]
    ages = tried(ExternalAttack(500, register=register.select(["name", "age"])), rows, as_it_is(rows), source)
    assert ages.success.success < 10
    twice = pa.concat_tables([register, register])
    with pytest.raises(UsageError, match="fewer than 7 people"):  # a name that two people have tells nobody
        tried(ExternalAttack(500, register=twice), rows, as_it_is(rows), source)

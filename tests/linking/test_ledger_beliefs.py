"""Several releases are held to what each promises about shares: what is believed of people in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

import shoal
from shoal.attacks.running import attack
from shoal.core.errors import InputError, UnreachableError
from shoal.core.progress import Silent
from shoal.linking.beliefs import BeliefJudge, Promise
from shoal.linking.ledger.checking import check
from shoal.linking.ledger.records import LedgerOptions
from shoal.release.release import Release

ILLNESSES = ["flu", "gout", "cold", "ulcer", "rash", "ague"]
PROMISES: dict[str, dict[str, Any]] = {
    "simple-l-diversity": {"l": 3},
    "entropy-l-diversity": {"l": 3},
    "t-closeness": {"t": 0.4},
    "recursive-cl-diversity": {"c": 2, "l": 3},
    "alpha-k-anonymity": {"alpha": 0.4, "k": 3},
    "beta-likeness": {"beta": 2},
}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Six hundred people in streets and trades that have nothing to do with each other, nor with illnesses."""
    rng = np.random.default_rng(5)
    places = {"street": rng.integers(0, 99, 600), "trade": rng.integers(0, 99, 600)}
    return pa.table({**places, "illness": rng.choice(ILLNESSES, 600)})


def policy(quasi: str, model: str = "simple-l-diversity", attribute: str | None = None) -> dict[str, Any]:
    roles = {"street": "identifier", "trade": "identifier", "illness": "sensitive"} | {quasi: "quasi"}
    attributes: dict[str, Any] = {name: {"role": role} for name, role in roles.items()}
    attributes[quasi]["taxonomy"] = {"intervals": {"min": 0, "max": 100, "widths": [1, 2, 4, 20]}}
    about = {} if attribute is None else {"attribute": attribute}
    return {"attributes": attributes, "privacy": [{model: PROMISES[model] | about}]}


def publish(place: Path, name: str, data: pa.Table, wanted: dict[str, Any], **options: Any) -> Release:
    ledger = LedgerOptions(place / "ledger.db", floor=1, **options)
    return shoal.anonymize(data, wanted, out=place / name, ledger=ledger, seed=1)


def test_two_simple_3_diverse_releases_give_away_what_each_hides(tmp_path: Path, people: pa.Table) -> None:
    """Forty illnesses: a class of four or five people has one each, and two such classes have one in common."""
    numbers = np.random.default_rng(6).integers(0, 40, people.num_rows)
    people = people.set_column(2, "illness", pa.array([f"illness {number}" for number in numbers]))
    first = publish(tmp_path, "streets", people, policy("street"))
    with pytest.raises(UnreachableError) as refused:
        publish(tmp_path, "trades", people, policy("trade"))
    said = str(refused.value)
    assert "together with release 1 (" in said
    assert "of 600 people the probability of one value of 'illness' would be up to 1.00, although 0.33 by" in said
    assert "illness 1" not in said
    assert not (tmp_path / "trades").exists()
    second = publish(tmp_path, "trades", people, policy("trade"), warn=True)
    both = next(each for each in second.evidence["ledger"]["linked"][0]["sets"] if len(each["releases"]) == 2)
    assert both["people_unkept"] > 500
    (found,) = attack(second, people, others=[first], attacks=["composition"], seed=1)
    everybody = found.variants["everybody"].success
    assert everybody.success > 0.6 * everybody.trials  # where a third was promised
    (checked,) = check(tmp_path / "ledger.db", None, None, Silent())
    assert [each.releases for each in checked.linked[0].failing] == [(1, 2)]


@pytest.mark.parametrize("model", PROMISES)
def test_the_same_classes_again_teach_nothing(tmp_path: Path, people: pa.Table, model: str) -> None:
    publish(tmp_path, "first", people, policy("street", model))
    again = publish(tmp_path, "again", people, policy("street", model))
    assert again.evidence["warnings"] == []
    assert [each["people_unkept"] for each in again.evidence["ledger"]["linked"][0]["sets"]] == [0, 0]


@pytest.mark.parametrize("model", PROMISES)
def test_every_promise_about_shares_is_held_against_beliefs(tmp_path: Path, people: pa.Table, model: str) -> None:
    publish(tmp_path, "streets", people, policy("street", model))
    with pytest.raises(UnreachableError, match=f"although .*{model} .* is guaranteed"):
        publish(tmp_path, "trades", people, policy("trade", model))


def test_without_people_beliefs_are_judged_for_one_and_for_all(tmp_path: Path, people: pa.Table) -> None:
    """The second source does not tell streets, and both tell of trades: classes are met instead of people."""
    wanted = policy("street")
    wanted["attributes"]["trade"] = policy("trade")["attributes"]["trade"]
    publish(tmp_path, "both", people, wanted)
    fewer = policy("trade")
    del fewer["attributes"]["street"]
    with pytest.raises(UnreachableError, match=r"up to \d+ of 600 people the probability"):
        publish(tmp_path, "trades", people.drop_columns(["street"]), fewer)


def judge(model: str, parameters: dict[str, Any], table: list[int], **entry: Any) -> BeliefJudge:
    attribute = {"role": "sensitive", "kind": "category", **entry}
    manifest = {"attributes": {"s": attribute}, "guarantees": [{"model": model, "parameters": parameters}]}
    return BeliefJudge(Promise.read(releases.state(manifest), "s"), tuple("abc"[: len(table)]), np.array(table))


@pytest.mark.parametrize(
    ("first", "second", "sharing", "kept", "belief"),
    [
        ([1, 1, 1], [1, 1, 1], 3, True, 1 / 3),  # the same class: exactly a third
        ([1, 1, 1], [4, 4, 4], 3, True, 1 / 3),  # one within the other
        ([1, 1, 0], [0, 1, 1], 1, False, 1.0),  # one value in common
        ([2, 1, 1], [2, 1, 1], 1, False, 2 / 3),  # 4, 1, 1 parts of one person
        ([2, 1, 1], [2, 1, 1], 4, False, 1 / 2),  # all four people
    ],
)
def test_beliefs_by_hand(first: list[int], second: list[int], sharing: int, kept: bool, belief: float) -> None:
    left, people = np.array([[first], [second]]), np.array([sharing])
    holds, largest = judge("simple-l-diversity", {"l": 3}, [5, 5, 5]).judge(left, people, people)
    assert (holds.tolist(), largest.tolist()) == ([kept], [pytest.approx(belief)])


def test_a_promise_that_nobody_can_check_is_not_passed_over() -> None:
    with pytest.raises(InputError, match="does not know the model"):
        judge("unheard-of", {}, [1, 1])

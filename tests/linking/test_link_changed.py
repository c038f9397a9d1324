"""Releases that do not tell of original values, or whose tokens link them already: what is refused, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

import shoal
from shoal.columns.keys import new_key
from shoal.core.errors import InputError, UnreachableError
from shoal.core.progress import Silent
from shoal.linking.ledger.book import Ledger
from shoal.linking.ledger.checking import check
from shoal.linking.ledger.records import LedgerOptions
from shoal.linking.linking import link
from shoal.linking.reading import explain_unlinkable
from shoal.release.release import Release

K = [{"k-anonymity": {"k": 4}}]
AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10]}}}
ATTRIBUTES: dict[str, Any] = {
    "age": AGE,
    "sex": {"role": "quasi", "taxonomy": {"flat": ["F", "M"]}},
    "illness": {"role": "sensitive", "taxonomy": {"flat": ["flu", "gout", "ulcer"]}},
}


def rows(n: int = 60) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "name": [f"person {number}" for number in range(n)],
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "gout", "ulcer"], n),
        }
    )


def policy(technique: dict[str, Any] | None = None, of: str = "illness", **more: Any) -> dict[str, Any]:
    attributes = {"name": {"role": "identifier"}, **ATTRIBUTES}
    if technique is not None:
        attributes[of] = attributes[of] | {"technique": technique}
    return {"attributes": attributes, "privacy": K, "method": "mondrian", **more}


def release(*arguments: Any, **more: Any) -> Release:
    return shoal.anonymize(rows(), policy(*arguments, **more), seed=1)


@pytest.fixture(scope="module")
def untouched() -> Release:
    return release()


REFUSED = {
    "noise": (policy({"noise": {"laplace": {"scale": 3}, "edges": "redraw"}}, "age"), "'age' was changed by noise"),
    "rounding": (policy({"rounding": {"base": 5}}, "age"), "'age' was changed by rounding"),
    "swapping": (policy({"swapping": {"share": 0.1}}), "'illness' was changed by swapping"),
    "averages": (policy(method="microaggregation"), "averages, which do not represent sets"),
    "synthetic": (policy(privacy=[], method={"synthetic": {"epsilon": 1}}), "rows are not records of people"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_tell_of_original_values_is_not_linked(untouched: Release, name: str) -> None:
    asked, reason = REFUSED[name]
    changed = shoal.anonymize(rows(), asked)
    for pair in ([untouched, changed], [changed, untouched]):
        with pytest.raises(InputError, match=f"cannot be linked: .*{reason}"):
            link(pair)


def test_a_changed_column_matters_only_where_it_is_looked_at(untouched: Release) -> None:
    changed = release({"rounding": {"base": 5}}, "age")
    assert link([untouched, changed], {"sex": "F"}).remaining.l > 1
    with pytest.raises(InputError, match="'age' was changed"):
        link([untouched, changed], {"age": "33"})


def test_a_changed_insensitive_column_that_is_quasi_elsewhere_is_looked_at(untouched: Release) -> None:
    """Somebody who knows the age would look for it there, and linking would count on finding it."""
    attributes = {**policy()["attributes"], "age": {"role": "insensitive", "technique": {"permutation": {}}}}
    other = shoal.anonymize(rows(), {"attributes": attributes, "privacy": K})
    with pytest.raises(InputError, match="'age' was changed by permutation"):
        link([untouched, other])


def test_rows_as_they_are_can_be_linked_and_leave_what_they_show(untouched: Release) -> None:
    plain = release(privacy=[], method="plain")
    found = link([untouched, plain], population=rows())
    alone: dict[tuple[int, str], set[str]] = {}
    for row in rows().to_pylist():
        alone.setdefault((row["age"], row["sex"]), set()).add(row["illness"])
    assert found.l == min(map(len, alone.values())) == 1
    assert found.people_below == sum(len(alone[row["age"], row["sex"]]) < 2 for row in rows().to_pylist())


def test_tokens_of_one_domain_link_releases_already(tmp_path: Path) -> None:
    new_key(tmp_path / "a.key")
    new_key(tmp_path / "b.key")

    def named(key: str, **more: Any) -> Release:
        return release({"pseudonym": {"key": str(tmp_path / key), **more}}, "name")

    for other in (named("a.key"), named("b.key")):  # which key it was is in no manifest
        with pytest.raises(InputError, match="tokens that are the same for the same value"):
            link([named("a.key"), other])
    assert link([named("a.key"), named("a.key", domain="another")]).values == 3
    assert link([named("a.key"), release({"token": {}}, "name")]).values == 3


def test_bare_hashes_link_releases_already() -> None:
    bare = release({"hash": {"salt": "none", "accept": "dictionary-attacks"}}, "name")
    with pytest.raises(InputError, match="tokens that are the same"):
        link([bare, bare])
    assert link([bare, release({"hash": {}}, "name")]).values == 3


@pytest.mark.parametrize("techniques", [[1], {"age": 3}, {"age": {}}, "noise"])
def test_manifests_that_do_not_explain_their_techniques_are_refused(techniques: Any) -> None:
    made = release({"token": {}}, "name")
    with pytest.raises(InputError, match="manifest cannot be read: techniques"):
        link([replace(made, manifest={**made.manifest, "techniques": techniques}), made])


def test_manifests_of_unknown_forms_are_refused() -> None:
    with pytest.raises(InputError, match="lacks the form of the release"):
        explain_unlinkable(releases.state({"attributes": {"age": {"role": "quasi"}}, "form": "unheard of"}), ())


def enter(place: Path, name: str, asked: dict[str, Any], **options: Any) -> Release:
    ledger = LedgerOptions(place / "ledger.db", floor=1, **options)
    return shoal.anonymize(rows(), asked, out=place / name, ledger=ledger, seed=1)


def linked_sets(found: Release) -> dict[tuple[int, ...], tuple[Any, ...]]:
    (linked,) = (one for one in found.evidence["ledger"]["linked"] if one["sensitive"] == "illness")
    return {tuple(each["releases"]): (each["l"], each["people_linked"], each["problem"]) for each in linked["sets"]}


@pytest.mark.parametrize("name", ["noise", "rounding", "swapping", "averages"])
def test_ledgers_take_changed_releases_and_refuse_what_cannot_be_linked(name: str, tmp_path: Path) -> None:
    asked, reason = REFUSED[name]
    enter(tmp_path, "changed", asked)  # there is nothing to link it with
    with pytest.raises(UnreachableError, match=f"together with release 1 .* cannot be linked: .*{reason}.*unlinked"):
        enter(tmp_path, "classes", policy())
    reason = "values were changed beyond recognition"
    accept = [{"finding": "unlinked", "about": ["illness"], "reason": reason}]
    if name != "swapping":  # how many people share classes is not known either
        with pytest.raises(UnreachableError, match="about none for class sizes"):
            enter(tmp_path, "classes", policy() | {"accept": accept})
        accept.append({"finding": "unlinked", "about": [], "reason": reason})
    found = enter(tmp_path, "classes", policy() | {"accept": accept})
    unlinked = [(one.about, one.accepted) for one in found.findings if one.id == "unlinked"]
    assert sorted(unlinked) == sorted((tuple(each["about"]), reason) for each in accept)
    assert not check(tmp_path / "ledger.db", None, None, Silent())[0].fails


def test_what_was_not_changed_is_linked_all_the_same(tmp_path: Path) -> None:
    """Ages are rounded, so that only sexes are looked up; what people have of them is still enough to be found."""
    enter(tmp_path, "changed", REFUSED["rounding"][0])
    found = linked_sets(enter(tmp_path, "classes", policy(), warn=True))
    least, people, problem = found[1, 2]
    assert (least, people) == (2, 60)
    assert "'age' was changed by rounding" in problem
    assert found[2,][2] is None


def test_tokens_that_link_releases_are_refused_by_the_ledger_too(tmp_path: Path) -> None:
    new_key(tmp_path / "a.key")
    named = policy({"pseudonym": {"key": str(tmp_path / "a.key")}}, "name")
    enter(tmp_path, "first", named)
    with pytest.raises(UnreachableError, match="tokens that are the same for the same value"):
        enter(tmp_path, "second", named)
    enter(tmp_path, "other", policy({"token": {}}, "name"))


def synthetic(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    return policy(privacy=[], method={"synthetic": {"epsilon": epsilon, "delta": delta}})


def test_epsilon_and_delta_add_up_against_a_budget(tmp_path: Path) -> None:
    enter(tmp_path, "classes", policy())
    first = enter(tmp_path, "first", synthetic(0.1))
    assert first.evidence["ledger"]["linked"] == []  # rows are not records of people
    with pytest.raises(UnreachableError, match=r"cost epsilon 0.2 and delta 0, and no budget was set.*ledger budget"):
        enter(tmp_path, "second", synthetic(0.1))
    with Ledger.open(tmp_path / "ledger.db", write=True) as ledger:
        ledger.set_limits("everybody", epsilon=0.3, delta=1e-6)
    enter(tmp_path, "second", synthetic(0.1))
    third = enter(tmp_path, "third", synthetic(0.1, 1e-6))  # three tenths are not more than 0.3
    assert third.evidence["ledger"]["spent"] == {"epsilon": 0.3, "delta": 1e-6, "over": False, "budget": [0.3, 1e-6]}
    assert not any("ledger" in each for each in third.evidence["warnings"])
    with pytest.raises(UnreachableError, match=r"cost epsilon 0.301 and delta 1e-06, and the budget is epsilon 0.3"):
        enter(tmp_path, "fourth", synthetic(0.001))
    assert not check(tmp_path / "ledger.db", None, None, Silent())[0].fails
    said = enter(tmp_path, "fourth", synthetic(0.001), warn=True).evidence["warnings"]
    assert any("below the ledger's limits: together" in each and "cost epsilon 0.301" in each for each in said)
    (found,) = check(tmp_path / "ledger.db", None, None, Silent())
    assert (found.fails, found.spending.over, found.linked[0].failing) == (True, True, [])
    assert enter(tmp_path, "more", policy()).evidence["warnings"] == []  # which costs nothing

"""Linking and the ledger refuse what does not tell of original values, and tokens that link releases already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.columns.keys import new_key
from shoal.core.errors import InputError, PolicyError
from shoal.core.progress import Silent
from shoal.linking.ledger.entering import add
from shoal.linking.ledger.records import LedgerOptions
from shoal.linking.linking import link
from shoal.linking.reading import explain_unenterable, explain_unlinkable, refuse_common_tokens
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
    "averages": (policy(method="microaggregation"), "averages, which stand for no set"),
    "synthetic": (policy(privacy=[], method={"synthetic": {"epsilon": 1}}), "rows are nobody's"),
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


def test_samples_are_linked_as_they_are(untouched: Release) -> None:
    assert link([untouched, release(sample={"share": 0.7})]).values == 3


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
    with pytest.raises(InputError, match="does not explain its techniques"):
        explain_unlinkable({"method": "mondrian", "techniques": techniques}, {"age"})
    with pytest.raises(InputError, match="does not explain its techniques"):
        refuse_common_tokens([("a", {"techniques": techniques}), ("b", {})])


@pytest.mark.parametrize("method", [None, "unheard of", 3])
def test_manifests_of_unknown_methods_are_refused(method: Any) -> None:
    with pytest.raises(InputError, match="no method that this shoal knows"):
        explain_unlinkable({"method": method}, ())


@pytest.mark.parametrize("name", [*REFUSED, "plain", "sample", "token"])
def test_ledgers_take_no_changed_releases(name: str, tmp_path: Path) -> None:
    others = {
        "plain": policy(privacy=[], method="plain"),
        "sample": policy(sample={"share": 0.9}),
        "token": policy({"token": {}}, "name"),
    }
    asked = others[name] if name in others else REFUSED[name][0]
    with pytest.raises(PolicyError, match="ledger"):
        shoal.anonymize(rows(), asked, out=tmp_path / "made", ledger=tmp_path / "ledger.db")
    assert not (tmp_path / "made").exists()
    shoal.anonymize(rows(), asked, out=tmp_path / "out")
    with pytest.raises(InputError, match="cannot be entered into a ledger"):
        add(LedgerOptions(tmp_path / "ledger.db"), tmp_path / "out", None, Silent())
    assert not (tmp_path / "ledger.db").exists()


def test_ledgers_take_what_was_not_changed(untouched: Release) -> None:
    assert explain_unenterable(untouched.manifest) is None
    assert explain_unenterable({"agreed": {}}) is None

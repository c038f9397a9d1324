"""Runs whose planner publishes another release than the policy asks for: the verifier accepts it, the run does not.

Each fault is injected where a planner could have it; the release that it makes is true and keeps its own promises.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests import tables
from tests.tables import cover

import shoal
from shoal.anonymize.refusing import refuse_other_release
from shoal.core.errors import InputError, VerificationError
from shoal.core.kernels import group_items
from shoal.core.randomness import Chance, Shuffler
from shoal.models.k_anonymity import KAnonymity
from shoal.policy.policy import Policy

opening, running = (import_module(f"shoal.anonymize.{name}") for name in ("opening", "run"))
COLUMNS = "name age sex zip illness cost"
Fault = Callable[[Policy], Policy]


def policy(**more: Any) -> dict[str, Any]:
    attributes = tables.attributes(COLUMNS, zip={"technique": {"coding": {"top": 60070}}, "taxonomy": None})
    del attributes["zip"]["taxonomy"]
    privacy = [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}]
    return {"attributes": attributes, "privacy": privacy, "method": {"mondrian": {}}, **more}


def people(n: int = 400) -> pa.Table:
    zips = np.random.default_rng(3).integers(60000, 60100, n)
    return tables.people(n, 3, COLUMNS, zip=zips)


def with_role(name: str, role: Any) -> Fault:
    def change(asked: Policy) -> Policy:
        entry = replace(asked.attributes[name], role=role, technique=None, taxonomy=None)
        return replace(asked, attributes={**asked.attributes, name: entry})

    return change


def without_technique(asked: Policy) -> Policy:
    entry = replace(asked.attributes["zip"], technique=None)
    return replace(asked, attributes={**asked.attributes, "zip": entry})


FAULTS: dict[str, tuple[str, Fault]] = {
    "a lost promise": ("privacy", lambda asked: replace(asked, privacy=asked.privacy[:1])),
    "no promise": ("privacy", lambda asked: replace(asked, privacy=asked.privacy[1:])),
    "a lower k": ("privacy", lambda asked: replace(asked, privacy=(KAnonymity(k=2), *asked.privacy[1:]))),
    "a quasi column as insensitive": ("the role of 'sex'", with_role("sex", "insensitive")),
    "a sensitive column as insensitive": ("the role of 'illness'", with_role("illness", "insensitive")),
    "a published identifier": ("the role of 'name'", with_role("name", "insensitive")),
    "a dropped column": ("the role of 'cost'", with_role("cost", "identifier")),
    "a lost technique": ("the technique of 'zip'", without_technique),
    "a lost sample": ("sample", lambda asked: replace(asked, sample=None)),
    "records with missing values": ("missing", lambda asked: replace(asked, missing="category")),
    "a lost unit": ("unit or household", lambda asked: replace(asked, unit=None)),
}


@pytest.mark.parametrize(("out", "fault"), cover([False, True], FAULTS))
def test_a_planner_with_another_policy_publishes_nothing(
    fault: str, out: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    field, change = FAULTS[fault]
    honest = opening.change_source
    monkeypatch.setattr(opening, "change_source", lambda asked, *given: honest(change(asked), *given))
    more: dict[str, Any] = {"missing": "drop", "sample": {"share": 0.9}}
    if fault == "a lost unit":
        more = {"unit": "name"}
    folder = tmp_path / "out" if out else None
    with pytest.raises(VerificationError, match=f"differs from the policy in .*{field}"):
        shoal.anonymize(people(), policy(**more), out=folder, strict=True)
    assert list(tmp_path.iterdir()) == []


def test_another_method_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Policy.load(policy(method={"hilbert": {}})).method
    monkeypatch.setattr(
        running, "choose_method", lambda run, *_: replace(run, policy=replace(run.policy, method=other))
    )
    with pytest.raises(VerificationError, match="method"):
        shoal.anonymize(people(), policy(), out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


FORMS: dict[str, dict[str, Any]] = {
    "classes": {"method": {"mondrian": {}}},
    "sweep": {"method": {"sweep": {}}, "privacy": [{"tau-l-diversity": {"tau": 0.5, "l": 2}}]},
    "slices": {"method": {"slicing": {"columns": 2}}, "privacy": [{"distinct-l-diversity": {"l": 2}}]},
    "anatomy": {"method": {"anatomy": {}}, "privacy": [{"distinct-l-diversity": {"l": 2}}]},
    "plain": {"method": {"plain": {}}, "privacy": []},
    "averages": {"method": {"microaggregation": {}}, "privacy": [{"k-anonymity": {"k": 5}}]},
}


def reverse(_: Shuffler, rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(np.arange(rows.num_rows)[::-1]))


def shuffle_blocks(_: Shuffler, rows: pa.Table) -> pa.Table:
    blocks = np.array_split(np.arange(rows.num_rows), 2)
    return rows.take(pa.array(np.concatenate([np.random.default_rng(1).permutation(block) for block in blocks])))


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_source_order_are_not_published(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest runs fail once in 10^12 times."""
    shoal.anonymize(people(), policy(**FORMS[form]))
    monkeypatch.setattr(Chance, "order_within", lambda _, groups, n_groups: group_items(groups, n_groups)[1])
    with pytest.raises(VerificationError, match=r"order: the published rows follow|permuted: in"):
        shoal.anonymize(people(), policy(**FORMS[form]), out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("order", "form"), cover([reverse, shuffle_blocks], ["classes", "plain", "averages"]))
def test_other_orders_that_follow_the_source(form: str, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shuffler, "_shuffle", order)
    with pytest.raises(VerificationError, match="order: the published rows follow"):
        shoal.anonymize(people(), policy(**FORMS[form]))


CHANGES: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "privacy": (("guarantees", 0, "parameters", "k"), 4),
    "the role of 'age'": (("attributes", "age", "role"), "insensitive"),
    "the technique of 'zip'": (("techniques", "zip", "top"), 60090),
    "method": (("method",), "hilbert"),
    "the method's parameters": (("method_parameters", "strict"), "other"),
    "sample": (("sample",), {"share": 0.5}),
    "unit or household": (("people",), {"unit": "name"}),
    "missing": (("missing", "tokens"), ["?"]),
    "source": (("reading",), {"trim": True}),
    "release": (("about",), {"title": "another"}),
    "max_withheld": (("withheld",), 1),
}


@pytest.fixture(scope="module")
def release() -> shoal.Release:
    return shoal.anonymize(people(), policy())


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_is_compared(release: shoal.Release, field: str) -> None:
    asked, manifest = Policy.load(policy()), copy.deepcopy(release.manifest)
    refuse_other_release(asked, asked.method, manifest, release.verification, {})
    (*path, last), value = CHANGES[field]
    entry = manifest
    for key in path:
        entry = entry[key]
    entry[last] = value
    with pytest.raises(VerificationError, match=field):
        refuse_other_release(asked, asked.method, manifest, release.verification, {})


def test_guarantees_and_limits_are_compared(release: shoal.Release) -> None:
    asked = Policy.load(policy(max_generalized={"illness": 0.1}))
    rows = release.manifest["rows"]
    refuse_other_release(asked, asked.method, release.manifest, release.verification, {"illness": rows // 10})
    with pytest.raises(VerificationError, match="max_generalized"):
        refuse_other_release(asked, asked.method, release.manifest, release.verification, {"illness": rows // 10 + 1})
    unchecked = replace(release.verification, guarantees=release.verification.guarantees[:1])
    with pytest.raises(VerificationError, match="privacy"):
        refuse_other_release(asked, asked.method, release.manifest, unchecked, {})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_dropped_column_is_neither_published_nor_a_finding(tmp_path: Path, suffix: str) -> None:
    """The same column as an identifier is a finding, because its values repeat."""
    table = pa.table(
        {
            "remarks": ["seen by A"] * 20 + ["seen by B"] * 20,
            "age": [20, 30] * 20,
            "illness": ["flu", "cold"] * 20,
        }
    )
    path = tmp_path / f"people.{suffix}"
    (csv.write_csv if suffix == "csv" else pq.write_table)(table, path)

    def run(role: str, out: str) -> shoal.Release:
        attributes = {"remarks": {"role": role}, "age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
        policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]}
        return shoal.anonymize(path, policy, out=tmp_path / out, seed=1)

    dropped = run("drop", "dropped")
    assert dropped.manifest["parts"] == [["age", "illness"]]
    assert not [one for one in dropped.findings if "remarks" in one.about]
    assert [one for one in run("identifier", "named").findings if "remarks" in one.about]
    published = b"".join(file.read_bytes() for file in (tmp_path / "dropped" / "public").iterdir())
    assert b"seen by" not in published
    assert b"remarks" not in published


def test_a_dropped_column_must_be_in_the_table() -> None:
    table = pa.table({"age": [20, 30] * 20, "illness": ["flu", "cold"] * 20})
    attributes = {"remark": {"role": "drop"}, "age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    with pytest.raises(InputError, match="column 'remark' is not in"):
        shoal.anonymize(table, {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]})

"""Releases that look diverse only by spelling, or by a technique, are rejected."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests import tables

import shoal
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify, verify_table

N = 400
DISTINCT: dict[str, Any] = {"distinct-l-diversity": {"l": 2}}
TRUE = "true values"


def policy(method: str = "mondrian", **illness: Any) -> dict[str, Any]:
    attributes = tables.attributes("age sex illness", plain=True, illness=illness)
    return {"attributes": attributes, "privacy": [DISTINCT], "method": method}


def failed(verification: Verification) -> set[str]:
    checks = {check.name for check in verification.checks if not check.ok}
    return checks | {one.model for one in verification.guarantees if not one.ok}


@pytest.mark.parametrize("method", ["mondrian", "slicing", "anatomy"])
def test_spellings_of_one_value_keep_no_promise(method: str) -> None:
    source = tables.people(N, 2, "age sex illness")
    made = shoal.anonymize(source, policy(method), seed=1)
    assert not failed(verify_table(made.data, made.manifest, source=open_source(source)))
    one = pa.array(["Gout", "gout ", "  GOUT", "\uff27out"])  # the last begins with a full-width letter
    names = pa.array(["angina", "flu", "gout", "mumps"])

    def respell(table: pa.Table) -> pa.Table:
        place = table.column_names.index("illness")
        return table.set_column(place, "illness", one.take(pc.index_in(pa.array(table["illness"].to_pylist()), names)))

    spoiled = verify_table(respell(made.data), made.manifest, source=open_source(respell(source)))
    assert failed(spoiled) == {"distinct-l-diversity"}
    assert failed(verify_table(respell(made.data), made.manifest)) == {"distinct-l-diversity"}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with PRAM on the sensitive column, not to be changed."""
    folder = tmp_path_factory.mktemp("changed") / "out"
    shoal.anonymize(
        tables.people(N, 2, "age sex illness"), policy(technique={"pram": {"keep": 0.6}}), out=folder, seed=1
    )
    return folder


def read_witness(folder: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(pq.read_table(folder / "internal" / "witness.parquet")["class"])


def gather(source: pa.Table, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Table:
    """Let these rows exchange their illnesses with others, until all have the same one."""
    illness = np.array(source["illness"].to_pylist(), dtype=object)
    inside, outside = np.flatnonzero(rows & (illness != "flu")), np.flatnonzero(~rows & (illness == "flu"))
    illness[outside[: len(inside)]], illness[inside] = illness[inside], "flu"
    return source.set_column(source.column_names.index("illness"), "illness", pa.array(illness.tolist()))


def test_a_class_that_is_homogeneous_in_truth_is_rejected(changed: Path) -> None:
    source = tables.people(N, 2, "age sex illness")
    assert not failed(verify(changed, source=source))
    number = read_witness(changed)
    one_class = number == number[0]
    found = verify(changed, source=gather(source, one_class))
    assert failed(found) == {TRUE}
    assert "1 classes fail by the values before it" in str(found.failures)


def test_a_witness_that_gathers_equal_values_in_a_class_is_rejected() -> None:
    """Every row fits both classes, so only the true values show that the witness was changed."""
    rows = 40
    source = pa.table({"age": [30] * rows, "illness": ["flu", "gout"] * (rows // 2)})
    attributes = {"age": {"role": "quasi"}, "illness": {"role": "sensitive", "technique": {"permutation": {}}}}
    made = shoal.anonymize(source, {"attributes": attributes, "privacy": [DISTINCT]}, seed=1)
    manifest = copy.deepcopy(made.manifest)
    (label,) = manifest["attributes"]["age"]["labels"]
    manifest["attributes"]["age"]["labels"] = {label: {"from": 30, "below": 31}, "wide": {"from": 0, "below": 99}}
    manifest["attributes"]["age"].pop("domain", None)
    half = np.arange(rows) < rows // 2
    data = pa.table({"age": np.where(half, label, "wide").tolist(), "illness": ["flu", "gout"] * (rows // 2)})

    def judge(number: Any) -> set[str]:
        return failed(verify_table(data, manifest, source=open_source(source), witness=number))

    assert judge(np.where(half, 1, 2)) == set()
    assert judge(np.where(np.array(source["illness"].to_pylist()) == "flu", 1, 2)) == {TRUE}


def test_without_a_witness_true_values_are_not_checked(changed: Path, tmp_path: Path) -> None:
    source = tables.people(N, 2, "age sex illness")
    public = tmp_path / "public"
    public.mkdir()
    for path in (changed / "public").iterdir():
        (public / path.name).write_bytes(path.read_bytes())
    found = verify(public, source=source)
    assert found.verdict == "incomplete"
    assert [check.done for check in found.checks if check.name == "truth"] == [False]
    assert TRUE not in [check.name for check in found.checks]


def test_a_manifest_that_hides_the_technique_is_rejected(changed: Path) -> None:
    source = tables.people(N, 2, "age sex illness")
    manifest = json.loads((changed / "public" / "manifest.json").read_text())
    del manifest["techniques"]
    table = pq.read_table(changed / "public" / "data.parquet")
    assert "truth" in failed(verify_table(table, manifest, source=open_source(source), witness=read_witness(changed)))


def test_parts_promise_nothing_of_values_that_chance_changed() -> None:
    source = tables.people(N, 2, "age sex illness")
    written = policy("slicing", technique={"permutation": {}}) | {"privacy": [{"column-frequency": {"k": 2}}]}
    made = shoal.anonymize(source, written, seed=1)
    assert not failed(verify_table(made.data, made.manifest, source=open_source(source)))
    manifest = copy.deepcopy(made.manifest)
    manifest["guarantees"].append({"model": "distinct-l-diversity", "parameters": {"l": 1}, "achieved": 1.0})
    assert TRUE in failed(verify_table(made.data, manifest, source=open_source(source)))

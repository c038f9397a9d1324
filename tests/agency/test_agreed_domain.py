"""The agreed domain: how values of any column are compared with a plan's texts, and what classes are called."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.agency.apply import apply_plan, find_hulls
from shoal.core.errors import InputError, UnreachableError
from shoal.release.forms.agreed import digest_plan, parse_plan
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify


def plan_file(folder: Path, quasi: dict[str, list[str]], sensitive: list[str], **changes: Any) -> Path:
    """Write a plan over all combinations of up to two attributes, a class for each value of the first."""
    sizes = [len(values) for values in quasi.values()]
    points = np.indices(sizes).reshape(len(sizes), -1)
    document: dict[str, Any] = {
        "format": 2,
        "kind": "shoal-agency-plan",
        "quasi": [{"name": name, "values": values} for name, values in quasi.items()],
        "sensitive": {"name": "illness", "values": sensitive},
        "order": "lexicographic",
        "arrangement": "contiguous",
        "promise": {"model": "k-delta-anonymity", "k": 1},
        "delta": 0.1,
        "p": 0.1,
        "eta": 0,
        "n": 2,
        "n_tight": 2,
        "records": 2,
        "m": float(sizes[0]),
        "classes": sizes[0],
        "points": points.tolist(),
        "runs": [[number + 1, points.shape[1] // sizes[0]] for number in range(sizes[0])],
        "values": [],
    } | changes
    path = folder / "plan.json"
    path.write_text(json.dumps(document | {"digest": digest_plan(document)}), encoding="utf-8")
    return path


def agreed(path: Path) -> Any:
    return parse_plan(path.read_bytes(), path.name)


DAYS = [datetime.date(2024, 1, 5), datetime.date(2024, 2, 29)]
COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "int64": (pa.array([34, 9]), ["9", "34"]),
    "int8": (pa.array([34, 9], pa.int8()), ["9", "34"]),
    "uint64 beyond floats": (pa.array([2**53 + 1, 2**53], pa.uint64()), [str(2**53), str(2**53 + 1)]),
    "whole floats": (pa.array([34.0, 9.0]), ["9", "34"]),
    "floats": (pa.array([0.5, 0.1]), ["0.1", "0.5"]),
    "narrow floats": (pa.array([0.5, 0.1], pa.float32()), ["0.1", "0.5"]),
    "a negative zero": (pa.array([-0.0, 1.0]), ["0", "1"]),
    "truth values": (pa.array([True, False]), ["false", "true"]),
    "dates": (pa.array(DAYS), ["2024-01-05", "2024-02-29"]),
    "decimals": (pa.array(["1.50", "2.25"]).cast(pa.decimal128(5, 2)), ["1.50", "2.25"]),
    "text": (pa.array(["b", "a"]), ["a", "b"]),
    "large text": (pa.array(["b", "a"], pa.large_string()), ["a", "b"]),
    "dictionary": (pa.array(["b", "a"]).dictionary_encode(), ["a", "b"]),
    "codes": (pa.array(["010", "10"]), ["010", "10"]),
    "odd texts": (pa.array(["*", "{a, b}"]), ["{a, b}", "*"]),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_every_kind_are_compared_as_texts(tmp_path, name, form):
    column, values = COLUMNS[name]
    path = plan_file(tmp_path, {"age": values}, values)
    table = pa.table({"age": column, "illness": column})
    release = apply_plan(path, table, tmp_path / "out", format=form)
    assert release.verification.verified
    assert release.manifest["rows"] == 2
    assert verify(tmp_path / "out", source=open_source(table)).verified
    if form == "parquet":
        rows = pq.read_table(tmp_path / "out" / "public" / "data.parquet")
        assert rows.schema.field("class").type == pa.int32()
        texts = rows["illness"].combine_chunks().cast(pa.string()).to_pylist()
        assert {
            (number, values.index(text) + 1) for number, text in zip(rows["class"].to_pylist(), texts, strict=True)
        } == {
            (1, 1),
            (2, 2),
        }


@pytest.mark.parametrize("texts", [["034", "9"], ["34.0", "9"], [" 34", "9"], ["34", None]])
def test_other_spellings_are_outside_the_domain(tmp_path, texts):
    path = plan_file(tmp_path, {"age": ["9", "34"]}, ["flu"])
    with pytest.raises(InputError, match=r"column 'age': 1 record with(out a| 1) value"):
        apply_plan(path, pa.table({"age": texts, "illness": ["flu", "flu"]}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_hulls_are_the_first_and_last_value_of_each_class(tmp_path):
    points = [[0, 0, 1, 2, 3], [1, 0, 0, 1, 0]]
    runs = [[1, 1], [2, 2], [1, 1], [3, 1]]
    path = plan_file(
        tmp_path, {"age": ["1", "2", "3", "4"], "sex": ["F", "M"]}, ["flu"], points=points, runs=runs, classes=3, m=3.0
    )
    lo, hi = find_hulls(agreed(path))
    assert lo.tolist() == [[0, 1], [0, 0], [3, 0]]
    assert hi.tolist() == [[3, 2], [2, 1], [4, 1]]


def test_a_plan_with_an_attribute_called_class_is_refused(tmp_path):
    path = plan_file(tmp_path, {"class": ["1"]}, ["flu"])
    with pytest.raises(InputError, match="'class'"):
        apply_plan(path, pa.table({"class": ["1", "1"], "illness": ["flu", "flu"]}), tmp_path / "out")


def test_columns_that_the_plan_does_not_know_are_left_out_whatever_they_hold(tmp_path):
    path = plan_file(tmp_path, {"age": ["1"]}, ["flu"])
    table = pa.table({"class": ["x", "y"], "illness": ["flu", "flu"], "age": [1, 1], "notes": [["a"], ["b"]]})
    release = apply_plan(path, table, tmp_path / "out")
    assert release.evidence["left_out"] == ["class", "notes"]
    rows = pq.read_table(release.data_file)
    assert rows.column_names == ["class", "age", "illness"]
    assert rows["class"].to_pylist() == [1, 1]


def test_classes_without_records_are_counted(tmp_path):
    path = plan_file(tmp_path, {"age": ["1", "2", "3"]}, ["flu"], promise={"model": "k-delta-anonymity", "k": 2})
    with pytest.raises(
        UnreachableError, match="in 2 of 3 classes there are fewer than 2 records; 3 are missing in all"
    ):
        apply_plan(path, pa.table({"age": [1, 1, 2], "illness": ["flu"] * 3}), tmp_path / "out")
    path = plan_file(
        tmp_path, {"age": ["1", "2"]}, ["cold", "flu"], promise={"model": "entropy-l-delta-diversity", "l": 1}
    )
    with pytest.raises(UnreachableError, match="in 1 of 2 classes values are less uncertain than 1"):
        apply_plan(path, pa.table({"age": [1, 1, 1], "illness": ["flu"] * 3}), tmp_path / "out")


def test_one_record_short_is_short_though_everything_shows(tmp_path):
    path = plan_file(tmp_path, {"age": ["1"]}, ["flu"], n=3, n_tight=3, records=3)
    with pytest.raises(UnreachableError, match="there are 2 records, and the plan asks for 3: 1 is missing"):
        apply_plan(path, pa.table({"age": [1, 1], "illness": ["flu"] * 2}), tmp_path / "out")
    assert apply_plan(path, pa.table({"age": [1] * 3, "illness": ["flu"] * 3}), tmp_path / "out").verification.verified

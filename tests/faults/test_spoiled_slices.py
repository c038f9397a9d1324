"""Spoiled sliced releases: for every promise of the verifier one that breaks it, its digests made to fit."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.sources.opening import open_source
from shoal.sources.writers import header_line, lines
from shoal.verify.result import Verification
from shoal.verify.verifier import verify, verify_table

CLEAN = {"store_schema": False, "write_statistics": False}
SOURCE = {
    "age": [22, 22, 33, 52, 54, 60, 60, 64, 22, 33, 54, 64],
    "sex": ["M", "F", "F", "F", "M", "M", "M", "F", "M", "F", "M", None],
    "zip": ["06", "06", "05", "05", "02", "02", "04", "04", "06", "05", "02", "04"],
    "cost": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.125, 8.5, 9.5, 1.5, 2.5, 3.5],
    "illness": ["gout", "flu", "flu", "cold", "flu", "gout", "gout", "cold", "flu", "cold", "gout", "flu"],
}
BUCKET = [1, 1, 2, 2, 3, 3, 4, 4, 1, 2, 3, 4]
ORDER = [[0, 1, 8, 2, 3, 9, 4, 5, 10, 6, 7, 11], [8, 0, 1, 9, 2, 3, 5, 10, 4, 11, 6, 7]]  # of the rows, by part
PARTS = [["age", "sex", "cost"], ["zip", "illness"]]


def release_manifest() -> dict[str, Any]:
    quasi = {"role": "quasi", "kind": "category"}
    return {
        "format": 1,
        "shoal_version": "0.1.0",
        "method": "slicing",
        "form": "slices",
        "method_parameters": {},
        "guarantees": [
            {"model": "column-frequency", "parameters": {"k": 1}, "achieved": 1.0},
            {"model": "simple-l-diversity", "parameters": {"l": 1.5}, "achieved": 1.5},
            {"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2.0},
        ],
        "parts": copy.deepcopy(PARTS),
        "buckets": 4,
        "rows": 12,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            "age": {"role": "quasi", "kind": "number"},
            "sex": dict(quasi),
            "cost": {"role": "insensitive", "kind": "number"},
            "zip": dict(quasi),
            "illness": {"role": "sensitive", "kind": "category"},
        },
    }


@dataclass
class Release:
    """A sliced release before it is written; mutants change it."""

    format: str
    witness: list[int] | None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=release_manifest)
    source: dict[str, list[Any]] = field(default_factory=lambda: copy.deepcopy(SOURCE))
    tables: dict[str, pa.Table] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.columns = {"bucket": sorted(BUCKET)}
        for part, order in zip(PARTS, ORDER, strict=True):
            self.columns |= {name: [SOURCE[name][i] for i in order] for name in part}

    def swap(self, first: int, second: int, *names: str) -> None:
        for name in names:
            values = self.columns[name]
            values[first], values[second] = values[second], values[first]

    def rebucket(self, numbers: list[int], count: int) -> None:
        """Give published rows and the witness other buckets, both by the old ones' rows."""
        order = np.argsort(numbers, kind="stable")
        self.columns = {name: [values[i] for i in order] for name, values in self.columns.items()}
        self.columns["bucket"] = sorted(numbers)
        self.manifest["buckets"] = count

    def _write(self, path: Path, table: pa.Table) -> str:
        if self.format == "parquet":
            pq.write_table(table, path, **CLEAN)
        else:
            path.write_bytes(header_line(table.column_names) + b"".join(map(lines, table.to_batches())))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def write(self, folder: Path) -> Path:
        public = folder / "public"
        public.mkdir(parents=True)
        stated = copy.deepcopy(self.manifest)
        data = public / f"data.{self.format}"
        digest = self._write(data, pa.table(self.columns))
        stated["data"] = {"file": data.name, "format": self.format, "sha256": digest}
        for name, table in self.tables.items():
            file = public / f"{name}.{self.format}"
            entry = {"file": file.name, "sha256": self._write(file, table)}
            stated.setdefault("tables", {})[name] = entry
        for name in self.extra:
            (public / name).write_text("bucket\n")
        (public / "manifest.json").write_text(json.dumps(stated))
        if self.witness is not None:
            (folder / "internal").mkdir()
            pq.write_table(
                pa.table({"bucket": pa.array(self.witness, pa.int32())}), folder / "internal/witness.parquet"
            )
        return folder

    def verify(self, folder: Path) -> Verification:
        return verify(self.write(folder), source=open_source(pa.table(self.source)))

    def judge(self, folder: Path) -> set[str]:
        """Write it and return the names of what failed; no answer may quote a record."""
        verification = self.verify(folder)
        assert "7.125" not in json.dumps(verification.as_dict())
        names = {check.name for check in verification.checks if not check.ok}
        names |= {promise.model for promise in verification.guarantees if not promise.ok}
        assert (verification.verdict == "failed") == (bool(names) or not verification.guarantees)
        return names


@pytest.fixture(params=["parquet", "csv"])
def release(request: pytest.FixtureRequest) -> Release:
    return Release(request.param, list(BUCKET))


@pytest.fixture
def witnessed() -> Release:
    return Release("parquet", list(BUCKET))


def test_the_honest_release_is_accepted(release, tmp_path):
    verification = release.verify(tmp_path)
    assert verification.failures == ()
    assert verify(tmp_path).failures == ()
    public = verify(tmp_path / "public", source=open_source(pa.table(release.source)))
    assert public.as_dict() == verification.as_dict()


# Values in other buckets, or changed ---------------------------------------------------------------------------


def test_sensitive_values_swapped_across_buckets(release, tmp_path):
    """Row 1 of bucket 1 is (06, gout), row 10 in bucket 4 is (04, gout) or (04, cold)."""
    release.swap(2, 11, "illness")
    assert release.columns["illness"] != Release("csv", None).columns["illness"]
    assert "truth" in release.judge(tmp_path)


def test_sensitive_values_swapped_where_both_buckets_have_both():
    """The people of age 1 fit in bucket 1 only, so two of them must have flu there; all else fits somewhere."""
    buckets = [1, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    stated = release_manifest()
    stated |= {"parts": [["age"], ["zip", "illness"]], "buckets": 3, "rows": 10}
    stated["attributes"] = {name: stated["attributes"][name] for name in ("age", "zip", "illness")}
    honest = pa.table({"age": [1] * 3 + [9] * 7, "zip": ["x"] * 10, "illness": list("ffggfggfgg")})
    for illness, failing in (("ffggfggfgg", []), ("fgggffgfgg", ["truth"])):
        table = honest.set_column(2, "illness", pa.array(list(illness))).add_column(0, "bucket", pa.array(buckets))
        verification = verify_table(table, stated, source=open_source(honest), witness=np.array(buckets))
        assert [check.name for check in verification.checks if not check.ok] == failing


def test_values_of_a_part_exchanged_between_buckets(release, tmp_path):
    release.swap(0, 6, "zip", "illness")
    assert "truth" in release.judge(tmp_path)


def test_insensitive_values_exchanged_between_rows_of_a_bucket(release, tmp_path):
    release.swap(0, 1, "cost")
    assert {"parts", "truth"} <= release.judge(tmp_path)


def test_rows_of_a_part_permuted_within_a_bucket(release, tmp_path):
    release.swap(0, 2, "zip", "illness")
    release.swap(4, 5, "age", "sex", "cost")
    assert release.judge(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "value"), [("age", 23), ("sex", "F"), ("cost", 1.75), ("zip", "07"), ("illness", "flu")]
)
def test_altered_values(release, tmp_path, name, value):
    row = release.columns["illness"].index("gout") if name == "illness" else 0
    release.columns[name][row] = value
    assert {"parts", "truth"} <= release.judge(tmp_path)


def test_a_value_that_was_missing(release, tmp_path):
    release.columns["sex"][release.columns["sex"].index(None)] = "F"
    assert {"parts", "truth"} <= release.judge(tmp_path)


def test_a_row_duplicated(release, tmp_path):
    release.columns = {name: [values[0], *values] for name, values in release.columns.items()}
    assert release.judge(tmp_path) >= {"rows"}


def test_a_row_duplicated_and_admitted(release, tmp_path):
    release.columns = {name: [values[0], *values] for name, values in release.columns.items()}
    release.manifest["rows"] = 13
    assert {"source counts", "parts", "truth"} <= release.judge(tmp_path)


def test_values_of_two_people_lost_and_said_to_be_one_withheld(release, tmp_path):
    release.columns = {name: values[1:] for name, values in release.columns.items()}
    release.manifest |= {"rows": 11, "withheld": 1}
    assert "truth" in release.judge(tmp_path)


def test_one_person_withheld(release, tmp_path):
    """The fourth person of the source is in row 4, and in row 5 of the second part; alone, absence shows the value."""
    release.swap(4, 5, "zip", "illness")
    release.columns = {name: values[:4] + values[5:] for name, values in release.columns.items()}
    release.manifest |= {"rows": 11, "withheld": 1}
    assert release.witness is not None
    release.witness[3] = 0
    assert release.judge(tmp_path) == {"withheld"}
    release.manifest["withheld"] = 0
    assert "source counts" in release.judge(tmp_path / "again")


# Buckets ---------------------------------------------------------------------------------------------------------


def test_a_bucket_split_once_too_often(release, tmp_path):
    """Bucket 3 becomes two; its witness says so too. One person stays alone with an illness."""
    rows = [1, 1, 1, 2, 2, 2, 3, 3, 5, 4, 4, 4]
    release.rebucket(rows, 5)
    release.witness = [1, 1, 2, 2, 3, 3, 4, 4, 1, 2, 5, 4]
    assert release.judge(tmp_path) >= {"simple-l-diversity"}


def test_buckets_merged(release, tmp_path):
    """It still protects people, but the manifest tells of another table."""
    release.rebucket([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3], 3)
    release.witness = [1, 1, 2, 2, 3, 3, 3, 3, 1, 2, 3, 3]
    names = release.judge(tmp_path)
    assert "truth" not in names
    release.witness = None
    release.manifest["buckets"] = 4
    assert release.judge(tmp_path / "again") >= {"buckets"}


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 5, 5, 5],
        [2, 2, 2, 1, 1, 1, 3, 3, 3, 4, 4, 4],
        [1, 1, 1, 2, 2, 2, 3, 3, 4, 3, 4, 4],
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        [2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4],
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, None],
        [1.5, 1.5, 1.5, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0],
        [*"111222333", "04", "04", "04"],
    ],
)
@pytest.mark.parametrize("written", ["csv", "parquet"])
def test_numbers_of_buckets(numbers, written, tmp_path):
    release = Release(written, None)
    release.columns["bucket"] = numbers
    assert release.judge(tmp_path) >= {"buckets", "simple-l-diversity"}


@pytest.mark.parametrize("count", [3, 5, 0, 10**15])
def test_wrong_number_of_buckets(release, tmp_path, count):
    release.manifest["buckets"] = count
    assert release.judge(tmp_path) >= {"buckets"}


# The manifest ----------------------------------------------------------------------------------------------------


def test_wrong_parts(release, tmp_path):
    release.manifest["parts"] = [["age", "sex"], ["cost", "zip", "illness"]]
    assert {"parts", "truth"} <= release.judge(tmp_path)


def test_parts_in_another_order_than_the_columns(release, tmp_path):
    release.manifest["parts"].reverse()
    assert release.judge(tmp_path) >= {"columns"}


def test_overlap_that_is_not_declared(release, tmp_path):
    release.manifest["parts"][1].append("sex")
    release.columns["sex (2)"] = list(release.columns["sex"])
    assert release.judge(tmp_path) == {"manifest"}


@pytest.mark.parametrize(("place", "figure"), [(0, 2.0), (1, 1.4), (1, 1.6), (2, 3.0), (1, None)])
def test_lying_achieved(release, tmp_path, place, figure):
    release.manifest["guarantees"][place]["achieved"] = figure
    assert release.judge(tmp_path) == {release.manifest["guarantees"][place]["model"]}


@pytest.mark.parametrize(("place", "asked"), [(0, {"k": 2}), (1, {"l": 2}), (2, {"l": 3})])
def test_promises_that_are_not_kept(release, tmp_path, place, asked):
    release.manifest["guarantees"][place]["parameters"] = asked
    assert release.judge(tmp_path) == {release.manifest["guarantees"][place]["model"]}


# Overlapping parts -----------------------------------------------------------------------------------------------


def overlapping(release: Release) -> Release:
    release.manifest["parts"] = [["age", "sex", "cost"], ["zip", "illness", "sex"]]
    release.manifest["method_parameters"] = {"overlapping": True}
    release.columns["sex (2)"] = [SOURCE["sex"][i] for i in ORDER[1]]
    for place, figure in enumerate((1.0, 1.0, 1.0)):
        release.manifest["guarantees"][place]["achieved"] = figure
    release.manifest["guarantees"][1]["parameters"] = {"l": 1}
    release.manifest["guarantees"][2]["parameters"] = {"l": 1}
    return release


def test_overlapping_parts(release, tmp_path):
    assert overlapping(release).judge(tmp_path) == set()


def test_overlapping_parts_that_contradict_each_other(release, tmp_path):
    overlapping(release).columns["sex (2)"][0] = "X"
    assert release.judge(tmp_path) >= {"overlap"}


# The witness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forged", "failing"),
    [
        ([*BUCKET[:-1]], "witness"),
        ([*BUCKET, 1], "witness"),
        ([9, *BUCKET[1:]], "witness"),
        ([-1, *BUCKET[1:]], "witness"),
        ([0, *BUCKET[1:]], "truth"),
        ([2, 1, 1, *BUCKET[3:]], "truth"),
        ([0] * 12, "truth"),
    ],
)
def test_forged_witness(witnessed, tmp_path, forged, failing):
    witnessed.witness = forged
    assert failing in witnessed.judge(tmp_path)


def test_a_witness_that_is_no_witness(witnessed, tmp_path):
    folder = witnessed.write(tmp_path)
    pq.write_table(pa.table({"bucket": [str(b) for b in BUCKET]}), folder / "internal" / "witness.parquet")
    verification = verify(folder, source=open_source(pa.table(SOURCE)))
    assert [check.name for check in verification.checks if not check.ok] == ["file"]


def test_a_witness_with_gaps(witnessed, tmp_path):
    witnessed.witness = [None, *BUCKET[1:]]
    assert "witness" in witnessed.judge(tmp_path)


# The two files of a bucketized release ---------------------------------------------------------------------------


def two_tables(release: Release) -> Release:
    counted: dict[tuple[Any, ...], int] = {}
    for key in zip(*(release.columns[name] for name in ("bucket", "zip", "illness")), strict=True):
        counted[key] = counted.get(key, 0) + 1
    sensitive = {name: [key[i] for key in counted] for i, name in enumerate(("bucket", "zip", "illness"))}
    release.tables = {
        "quasi": pa.table({name: release.columns[name] for name in ("bucket", "age", "sex", "cost")}),
        "sensitive": pa.table({**sensitive, "count": list(counted.values())}),
    }
    return release


def test_two_tables(release, tmp_path):
    verification = two_tables(release).verify(tmp_path)
    assert verification.failures == ()
    assert "tables" in {check.name for check in verification.checks}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("quasi", "age", 99), ("quasi", "bucket", 2), ("sensitive", "count", 2), ("sensitive", "illness", "hiv"),
     ("sensitive", "count", -1), ("sensitive", "bucket", 7)],
)  # fmt: skip
def test_two_tables_that_differ(release, tmp_path, table, column, value):
    found = two_tables(release).tables[table]
    values = found[column].to_pylist()
    values[0] = value if values[0] != value else 3
    release.tables[table] = found.set_column(found.column_names.index(column), column, pa.array(values))
    assert release.judge(tmp_path) == {"tables"}


def test_tables_with_other_columns(release, tmp_path):
    release.tables["sensitive"] = two_tables(release).tables["sensitive"].drop_columns(["zip"])
    assert release.judge(tmp_path) == {"tables"}


def test_tables_that_hold_values_of_no_row(tmp_path):
    release = two_tables(Release("parquet", list(BUCKET)))
    found = release.tables["quasi"]
    coded = found["sex"].combine_chunks().dictionary_encode()
    entries = pa.array([*coded.dictionary.to_pylist(), "X"])
    spoiled = pa.DictionaryArray.from_arrays(coded.indices, entries)
    release.tables["quasi"] = found.set_column(found.column_names.index("sex"), "sex", spoiled)
    assert release.judge(tmp_path) == {"dictionaries"}


def test_tables_that_are_not_declared(release, tmp_path):
    release.extra = ("quasi.csv",)
    assert release.judge(tmp_path) == {"folder"}


def test_tables_that_were_changed_after_the_manifest(release, tmp_path):
    folder = two_tables(release).write(tmp_path)
    path = folder / "public" / f"quasi.{release.format}"
    release._write(path, release.tables["quasi"].slice(1))
    verification = verify(folder)
    assert "digest" in [check.name for check in verification.checks if not check.ok]

"""Spoiled releases: for every promise of the verifier a release that breaks it, and nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from shoal.errors import InputError
from shoal.sources import open_source
from shoal.verify import Verification, verify_folder

CLEAN = {"store_schema": False, "write_statistics": False}
TWENTIES, OLDER, ANY = "[20, 29]", ">= 30", "*"


def source_table() -> pa.Table:
    """Eight people; one older man has no known sex."""
    return pa.table(
        {
            "age": pa.array([20, 24, 25, 29, 30, 38, 51, 90]),
            "zip": ["47110", "47111", "47119", "47110", "10115", "10117", "10119", "10115"],
            "sex": ["F", "M", "F", "F", "M", "M", None, "F"],
            "illness": ["flu", "flu", "hiv", "ulcer", "flu", "hiv", "ulcer", "ulcer"],
            "cost": pa.array([1.5, 2.25, 3.0, 4.0, 5.0, 6.0, 7.125, 8.0]),
        }
    )


def release_table() -> pa.Table:
    """Two classes of four, rows in another order than in the source."""
    return pa.table(
        {
            "age": [TWENTIES, OLDER] * 4,
            "zip": ["471**", "10***"] * 4,
            "sex": [ANY, ANY] * 4,
            "illness": ["ulcer", "ulcer", "hiv", "ulcer", "flu", "hiv", "flu", "flu"],
            "cost": pa.array([4.0, 8.0, 3.0, 7.125, 2.25, 6.0, 1.5, 5.0]),
        }
    )


def release_manifest() -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0.1.0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [
            {"model": "k-anonymity", "parameters": {"k": 4}, "achieved": 4.0},
            {"model": "distinct-l-diversity", "parameters": {"l": 3}, "achieved": 3.0},
            {"model": "simple-l-diversity", "parameters": {"l": 2, "attribute": "illness"}, "achieved": 2.0},
            {"model": "t-closeness", "parameters": {"t": 0.125, "distance": "equal"}, "achieved": 0.125},
        ],
        "parts": [["age", "zip", "sex", "illness", "cost"]],
        "rows": 8,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            "age": {
                "role": "quasi",
                "kind": "number",
                "labels": {TWENTIES: {"from": 20, "below": 30}, OLDER: {"from": 30, "below": None}},
            },
            "zip": {
                "role": "quasi",
                "kind": "prefix",
                "labels": {"471**": {"prefixes": ["471"]}, "10***": {"prefixes": ["10"]}},
            },
            "sex": {"role": "quasi", "kind": "category", "labels": {ANY: {"any": True}}},
            "illness": {"role": "sensitive", "kind": "category"},
            "cost": {"role": "insensitive", "kind": "number"},
        },
    }


@dataclass
class Release:
    """A release before it is written; mutants change it."""

    format: str
    table: pa.Table = field(default_factory=release_table)
    manifest: dict[str, Any] = field(default_factory=release_manifest)
    parquet: dict[str, Any] = field(default_factory=lambda: dict(CLEAN))
    source: pa.Table = field(default_factory=source_table)
    after: Callable[[Path], None] = lambda _: None
    sign: bool = True

    def set(self, column: str, row: int, value: object) -> None:
        values = self.table.column(column).to_pylist()
        values[row] = value
        kind = self.table.schema.field(column).type
        place = self.table.column_names.index(column)
        self.table = self.table.set_column(place, column, pa.array(values, type=kind))

    def write(self, folder: Path) -> Path:
        public = folder / "public"
        public.mkdir(parents=True)
        data = public / f"data.{self.format}"
        if self.format == "parquet":
            pq.write_table(self.table, data, **self.parquet)
        else:
            style = pa_csv.WriteOptions(quoting_style="needed")
            pa_csv.write_csv(self.table, data, style)
        (public / "README.md").write_text("A release.\n")
        manifest = copy.deepcopy(self.manifest)
        if self.sign:
            self.after(public)
        digest = hashlib.sha256(data.read_bytes()).hexdigest()
        manifest.setdefault("data", {"file": data.name, "format": self.format, "sha256": digest})
        if not self.sign:
            self.after(public)
        (public / "manifest.json").write_text(json.dumps(manifest))
        return folder


@pytest.fixture(params=["parquet", "csv"])
def release(request: pytest.FixtureRequest) -> Release:
    return Release(request.param)


@pytest.fixture
def parquet() -> Release:
    return Release("parquet")


def failed(verification: Verification) -> set[str]:
    return {check.name for check in verification.checks if not check.ok} | {
        promise.model for promise in verification.guarantees if not promise.ok
    }


def judge(release: Release, folder: Path, *, with_source: bool = True) -> set[str]:
    """Return the names of what failed; the verdict must agree."""
    source = open_source(release.source) if with_source else None
    verification = verify_folder(release.write(folder), source=source)
    names = failed(verification)
    assert verification.verified == (not names and bool(verification.guarantees))
    assert verification.as_dict()["verified"] is verification.verified
    told = json.dumps(verification.as_dict())
    assert "7.125" not in told
    assert "47119" not in told
    return names


def test_honest_release_is_accepted(release, tmp_path):
    verification = verify_folder(release.write(tmp_path), source=open_source(release.source))
    assert verification.failures == ()
    assert verification.verified
    assert {check.name for check in verification.checks} >= {
        "manifest", "folder", "digest", "hygiene", "columns", "rows", "labels", "source counts", "truth",
    }  # fmt: skip
    assert [promise.achieved for promise in verification.guarantees] == [4.0, 3.0, 2.0, 0.125]


def test_the_public_folder_itself_is_accepted(release, tmp_path):
    assert verify_folder(release.write(tmp_path) / "public").verified


def test_the_order_of_rows_is_free(release, tmp_path):
    release.table = release.table.take([7, 3, 1, 0, 2, 4, 6, 5])
    assert judge(release, tmp_path) == set()


def test_unreadable_folders_are_input_errors(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        verify_folder(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"manifest\.json"):
        verify_folder(tmp_path)


# Rows ------------------------------------------------------------------------------------------------------


def test_two_rows_merged_into_one(release, tmp_path):
    release.table = release.table.slice(0, 7)
    release.manifest["rows"] = 7
    release.manifest["attributes"]["age"]["labels"]["[20, 99]"] = {"from": 20, "below": 100}
    release.set("age", 6, "[20, 99]")
    assert {"k-anonymity", "source counts"} <= judge(release, tmp_path)


def test_changed_label(release, tmp_path):
    release.set("age", 0, OLDER)
    assert {"k-anonymity", "truth"} <= judge(release, tmp_path)


def test_swapped_labels_keep_the_sizes_but_not_the_truth(release, tmp_path):
    for column, first, second in (("age", TWENTIES, OLDER), ("zip", "471**", "10***")):
        release.set(column, 2, second)
        release.set(column, 5, first)
    assert judge(release, tmp_path) == {"truth"}


def test_class_too_small_by_one(release, tmp_path):
    release.table = release.table.slice(0, 7)
    release.manifest["rows"] = 7
    release.manifest["withheld"] = 1
    assert "k-anonymity" in judge(release, tmp_path)


def test_extra_row(release, tmp_path):
    release.table = pa.concat_tables([release.table, release.table.slice(2, 1)])
    assert {"rows", "source counts", "truth"} <= judge(release, tmp_path)


def test_extra_row_that_the_manifest_admits(release, tmp_path):
    release.table = pa.concat_tables([release.table, release.table.slice(2, 1)])
    release.manifest["rows"] = 9
    names = judge(release, tmp_path)
    assert {"source counts", "truth"} <= names
    assert "rows" not in names


def test_missing_row(release, tmp_path):
    release.table = release.table.slice(1)
    assert {"rows", "k-anonymity", "source counts"} <= judge(release, tmp_path)


def test_duplicated_row_in_place_of_another(release, tmp_path):
    table = release.table.take([0, 1, 2, 3, 4, 5, 4, 7])
    release.table = table
    assert judge(release, tmp_path) == {"truth"}


def test_invented_row_beside_withheld_ones(release, tmp_path):
    release.set("cost", 0, 4.5)
    release.manifest["withheld"] = 1
    release.source = pa.concat_tables([release.source, release.source.slice(0, 1)])
    assert judge(release, tmp_path) == {"truth"}


def test_withheld_rows_need_no_published_row(release, tmp_path):
    release.manifest["withheld"] = 1
    release.source = pa.concat_tables([release.source, release.source.slice(0, 1)])
    assert judge(release, tmp_path) == set()


def test_sensitive_value_swapped_between_classes(release, tmp_path):
    release.set("illness", 2, "flu")
    release.set("illness", 7, "hiv")
    assert "truth" in judge(release, tmp_path)


def test_insensitive_value_changed(release, tmp_path):
    release.set("cost", 3, 7.25)
    assert judge(release, tmp_path) == {"truth"}
    assert judge(release, tmp_path / "again", with_source=False) == set()


def test_insensitive_value_lost(release, tmp_path):
    release.set("cost", 3, None)
    assert judge(release, tmp_path) == {"truth"}


def test_cover_without_the_source_value(release, tmp_path):
    release.manifest["attributes"]["age"]["labels"][TWENTIES] = {"from": 20, "below": 29}
    assert judge(release, tmp_path) == {"truth"}


def test_cover_without_the_missing_value(release, tmp_path):
    release.manifest["attributes"]["sex"]["labels"][ANY] = {"values": ["F", "M"]}
    assert judge(release, tmp_path) == {"truth"}
    release.manifest["attributes"]["sex"]["labels"][ANY] = {"values": ["F", "M"], "missing": True}
    assert judge(release, tmp_path / "whole") == set()


def test_empty_release(release, tmp_path):
    release.table = release.table.slice(0, 0)
    release.manifest["rows"] = 0
    release.manifest["withheld"] = 8
    names = judge(release, tmp_path)
    assert {"rows", "k-anonymity", "t-closeness"} <= names


# Promises --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "parameter", "value"),
    [(0, "k", 5), (1, "l", 4), (2, "l", 2.0000001), (3, "t", 0.1249999999999)],
)
def test_promise_stronger_than_the_data(release, tmp_path, place, parameter, value):
    promise = release.manifest["guarantees"][place]
    promise["parameters"][parameter] = value
    assert judge(release, tmp_path) == {promise["model"]}


@pytest.mark.parametrize(("place", "value"), [(0, 5.0), (1, 4.0), (2, 2.1), (3, 0.1), (0, 3.0), (0, None)])
def test_achieved_is_not_what_the_rows_reach(release, tmp_path, place, value):
    promise = release.manifest["guarantees"][place]
    promise["achieved"] = value
    assert judge(release, tmp_path) == {promise["model"]}


@pytest.mark.parametrize(
    "promise",
    [
        {"model": "perfect-privacy", "parameters": {}, "achieved": 1.0},
        {"model": "k-anonymity", "parameters": {}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": "4"}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": True}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": 4, "except": "kings"}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": 0}, "achieved": 4.0},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "felt"}, "achieved": 0.125},
        {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": "cost"}, "achieved": 3.0},
        {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": []}, "achieved": 3.0},
        {"model": "k-map", "parameters": {"k": 4, "population": "people.csv"}, "achieved": 4.0},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "ordered"}, "achieved": 0.125},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "hierarchical"}, "achieved": 0.125},
    ],
)
def test_promise_that_cannot_be_checked(release, tmp_path, promise):
    release.manifest["guarantees"].append(promise)
    verification = verify_folder(release.write(tmp_path))
    assert failed(verification) == {promise["model"]}
    assert verification.guarantees[-1].detail.startswith("cannot check")


# The manifest ----------------------------------------------------------------------------------------------


def _without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.pop(key)


@pytest.mark.parametrize(
    "spoil",
    [
        *(_without(key) for key in release_manifest()),
        lambda m: m.update(format=2),
        lambda m: m.update(format="1"),
        lambda m: m.update(guarantees=[]),
        lambda m: m.update(guarantees={"k-anonymity": 4}),
        lambda m: m["guarantees"].append("k-anonymity"),
        lambda m: m["guarantees"][0].update(achieved="4"),
        lambda m: m.update(rows="8"),
        lambda m: m.update(rows=8.0),
        lambda m: m.update(withheld=-1),
        lambda m: m.update(patients=["Ann", "Bob"]),
        lambda m: m["attributes"]["age"].update(minimum=20),
        lambda m: m["attributes"]["age"].pop("labels"),
        lambda m: m["attributes"]["age"].update(labels=[]),
        lambda m: m["attributes"]["age"].update(role="identifier"),
        lambda m: m["attributes"]["age"].update(kind="star sign"),
        lambda m: m["attributes"]["cost"].update(labels={}),
        lambda m: m["attributes"].pop("cost"),
        lambda m: m["attributes"]["illness"].update(taxonomy={"a": {}, "b": {}}),
        lambda m: m["attributes"]["illness"].update(taxonomy={"*": {"a": []}}),
        lambda m: m.update(parts=[["age", "zip", "sex"], ["illness", "cost"]]),
        lambda m: m["missing"].update(policy="ignore"),
        lambda m: m["missing"].update(dropped=3),
        lambda m: m.update(data={"file": "../data.csv", "format": "csv", "sha256": "0" * 64}),
        lambda m: m.update(data={"file": "data.csv", "format": "csv", "sha256": "?"}),
        lambda m: [m["attributes"][name].update(role="insensitive") for name in ("age", "zip", "sex")],
    ],
)
def test_manifest_out_of_shape(parquet, tmp_path, spoil):
    spoil(parquet.manifest)
    assert judge(parquet, tmp_path) == {"manifest"}


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"format": NaN}', '{"rows": 1, "rows": 2}', "[" * 99999])
def test_manifest_that_is_no_manifest(parquet, tmp_path, text):
    (parquet.write(tmp_path) / "public" / "manifest.json").write_text(text)
    assert failed(verify_folder(tmp_path)) == {"manifest"}


def test_manifest_that_is_no_text(parquet, tmp_path):
    (parquet.write(tmp_path) / "public" / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        verify_folder(tmp_path)


def test_wrong_number_of_rows(release, tmp_path):
    release.manifest["rows"] = 9
    assert judge(release, tmp_path) == {"rows"}


def test_wrong_number_withheld(release, tmp_path):
    release.manifest["withheld"] = 1
    assert judge(release, tmp_path) == {"source counts"}


def test_columns_in_another_order(release, tmp_path):
    release.table = release.table.select(["zip", "age", "sex", "illness", "cost"])
    assert "columns" in judge(release, tmp_path)


def test_declared_column_absent(release, tmp_path):
    release.table = release.table.drop_columns(["cost"])
    assert "columns" in judge(release, tmp_path)


def test_identifier_left_as_a_column(release, tmp_path):
    release.table = release.table.append_column("patient", pa.array([f"P{i}" for i in range(8)]))
    assert "columns" in judge(release, tmp_path)


def test_column_twice(release, tmp_path):
    release.table = pa.Table.from_arrays(
        [*release.table.columns, release.table["cost"]], names=[*release.table.column_names, "cost"]
    )
    assert "columns" in judge(release, tmp_path)


def test_label_that_the_manifest_does_not_know(release, tmp_path):
    for row in (0, 2, 4, 6):
        release.set("zip", row, "4711*")
    assert "labels" in judge(release, tmp_path)


def test_missing_value_as_a_label(release, tmp_path):
    release.set("zip", 0, None)
    assert "labels" in judge(release, tmp_path)


def test_label_that_no_row_has(release, tmp_path):
    release.manifest["attributes"]["age"]["labels"]["[0, 19]"] = {"from": 0, "below": 20}
    assert judge(release, tmp_path) == {"labels"}


@pytest.mark.parametrize(
    ("attribute", "label", "cover"),
    [
        ("age", TWENTIES, {}),
        ("age", TWENTIES, {"from": 30, "below": 20}),
        ("age", TWENTIES, {"from": 20}),
        ("age", TWENTIES, {"from": "20", "below": 30}),
        ("age", TWENTIES, {"values": ["twenty"]}),
        ("age", TWENTIES, {"prefixes": ["2"]}),
        ("age", TWENTIES, {"from": 20, "below": 30, "any": True}),
        ("zip", "471**", {"prefixes": "471"}),
        ("zip", "471**", {"prefixes": []}),
        ("zip", "471**", {"prefixes": [""]}),
        ("sex", ANY, {"values": [1, 2]}),
        ("sex", ANY, {"any": False}),
    ],
)
def test_cover_without_meaning(parquet, tmp_path, attribute, label, cover):
    parquet.manifest["attributes"][attribute]["labels"][label] = cover
    assert "labels" in judge(parquet, tmp_path)


# Files -----------------------------------------------------------------------------------------------------


def test_another_data_file(release, tmp_path):
    release.manifest["data"] = {
        "file": f"data.{release.format}",
        "format": release.format,
        "sha256": hashlib.sha256(b"").hexdigest(),
    }
    assert judge(release, tmp_path) == {"digest"}


def test_data_file_absent(release, tmp_path):
    release.sign = False
    release.after = lambda public: (public / f"data.{release.format}").unlink()
    assert "file" in judge(release, tmp_path)


@pytest.mark.parametrize("name", ["index.csv", ".secret", "taxonomies/notes.txt", "internal/evidence.json"])
def test_other_file_in_the_public_folder(release, tmp_path, name):
    def leave(public: Path) -> None:
        (public / name).parent.mkdir(exist_ok=True)
        (public / name).write_text("x")

    release.after = leave
    assert judge(release, tmp_path) == {"folder"}


def test_taxonomies_and_report_may_be_there(release, tmp_path):
    def leave(public: Path) -> None:
        (public / "taxonomies").mkdir()
        (public / "taxonomies" / "zip.csv").write_text("47110;471**\n")
        (public / "report.html").write_text("<p>")

    release.after = leave
    assert judge(release, tmp_path) == set()


def test_identifiers_in_parquet_metadata(parquet, tmp_path):
    def rewrite(public: Path) -> None:
        with pq.ParquetWriter(public / "data.parquet", parquet.table.schema, **CLEAN) as writer:
            writer.write_table(parquet.table)
            writer.add_key_value_metadata({"patients": "P1 P2 P3"})

    parquet.after = rewrite
    assert judge(parquet, tmp_path) == {"hygiene"}


def test_identifiers_in_the_metadata_of_a_column(parquet, tmp_path):
    fields = [f.with_metadata({"patients": "P1 P2"}) if f.name == "cost" else f for f in parquet.table.schema]
    parquet.table = parquet.table.cast(pa.schema(fields))
    parquet.parquet = {"write_statistics": False}
    assert "hygiene" in judge(parquet, tmp_path)


def test_data_frame_metadata(parquet, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(parquet.table.to_pydict(), index=[f"P{i}" for i in range(8)])
    parquet.table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.parquet["store_schema"] = True
    assert judge(parquet, tmp_path) == {"hygiene"}


def test_arrow_schema_metadata(parquet, tmp_path):
    parquet.parquet["store_schema"] = True
    assert judge(parquet, tmp_path) == {"hygiene"}


@pytest.mark.parametrize("option", [{"write_statistics": True}, {"write_statistics": ["cost"]}])
def test_column_statistics(parquet, tmp_path, option):
    parquet.parquet |= option
    assert judge(parquet, tmp_path) == {"hygiene"}


def test_page_index(parquet, tmp_path):
    parquet.parquet |= {"write_page_index": True, "write_statistics": True}
    verification = verify_folder(parquet.write(tmp_path))
    assert "page index" in next(c.detail for c in verification.checks if c.name == "hygiene")


def test_unused_dictionary_entries(parquet, tmp_path):
    illness = parquet.table["illness"].combine_chunks().dictionary_encode()
    entries = pa.concat_arrays([illness.dictionary, pa.array(["Ann Smith"])])
    parquet.table = parquet.table.set_column(3, "illness", pa.DictionaryArray.from_arrays(illness.indices, entries))
    assert b"Ann Smith" in parquet.write(tmp_path).joinpath("public", "data.parquet").read_bytes()
    assert failed(verify_folder(tmp_path)) == {"dictionaries"}


def test_dictionaries_of_several_row_groups(parquet, tmp_path):
    parquet.parquet["row_group_size"] = 3
    assert judge(parquet, tmp_path) == set()


def test_bytes_hidden_between_columns(parquet, tmp_path):
    def hide(public: Path) -> None:
        path = public / "data.parquet"
        raw = path.read_bytes()
        footer = int.from_bytes(raw[-8:-4], "little")
        path.write_bytes(raw[: -8 - footer] + b"P1 P2 P3" + raw[-8 - footer :])

    parquet.after = hide
    assert judge(parquet, tmp_path) == {"hygiene"}


def _spoil_csv(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(public: Path) -> None:
        path = public / "data.csv"
        path.write_bytes(change(path.read_bytes()))

    return spoil


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda raw: b"\xef\xbb\xbf" + raw, "hygiene"),
        (lambda raw: raw.replace(b"ulcer", b"ul\0er", 1), "hygiene"),
        (lambda raw: raw + b"a,b\n", "file"),
        (lambda raw: raw + b"\n", "rows"),
        (lambda raw: raw + b"# P1 P2\n", "file"),
        (lambda raw: b"# P1 P2\n" + raw, "file"),
        (lambda raw: raw.replace(b"ulcer", b"ul\xffer", 1), "file"),
        (lambda _: b"", "file"),
    ],
)
def test_spoiled_csv(tmp_path, change, check):
    release = Release("csv", after=_spoil_csv(change))
    assert check in judge(release, tmp_path)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" * 9, bytes(range(256)) * 4])
def test_file_that_is_not_parquet(parquet, tmp_path, raw):
    parquet.after = lambda public: (public / "data.parquet").write_bytes(raw)
    assert "file" in judge(parquet, tmp_path)


@pytest.mark.parametrize("place", range(4, 900, 37))
def test_one_flipped_byte_is_never_accepted(parquet, tmp_path, place):
    def flip(public: Path) -> None:
        path = public / "data.parquet"
        raw = bytearray(path.read_bytes())
        raw[place % len(raw)] ^= 0x5A
        path.write_bytes(bytes(raw))

    parquet.sign = False
    parquet.after = flip
    assert "digest" in judge(parquet, tmp_path)

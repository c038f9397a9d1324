"""Spoiled manifests and files: for every rule about them a release that breaks it, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.core.errors import InputError
from shoal.verify.verifier import verify

CLEAN = {"store_schema": False, "write_statistics": False}
TWENTIES, ANY = "[20, 29]", "*"
REQUIRED = (
    "format",
    "shoal_version",
    "method",
    "method_parameters",
    "guarantees",
    "parts",
    "rows",
    "withheld",
    "missing",
    "attributes",
)

# The manifest ----------------------------------------------------------------------------------------------


def _without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.pop(key)


@pytest.mark.parametrize(
    "spoil",
    [
        *map(_without, REQUIRED),
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
    assert parquet.judge(tmp_path) == {"manifest"}


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"format": NaN}', '{"rows": 1, "rows": 2}', "[" * 99999])
def test_manifest_that_is_no_manifest(parquet, tmp_path, text):
    (parquet.write(tmp_path) / "public" / "manifest.json").write_text(text)
    assert parquet.failed(verify(tmp_path)) == {"manifest"}


def test_manifest_that_is_no_text(parquet, tmp_path):
    (parquet.write(tmp_path) / "public" / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        verify(tmp_path)


def test_wrong_number_of_rows(release, tmp_path):
    release.manifest["rows"] = 9
    assert release.judge(tmp_path) == {"rows"}


def test_wrong_number_withheld(release, tmp_path):
    release.manifest["withheld"] = 1
    assert release.judge(tmp_path) == {"source counts"}


def test_columns_in_another_order(release, tmp_path):
    release.table = release.table.select(["zip", "age", "sex", "illness", "cost"])
    assert "columns" in release.judge(tmp_path)


def test_declared_column_absent(release, tmp_path):
    release.table = release.table.drop_columns(["cost"])
    assert "columns" in release.judge(tmp_path)


def test_identifier_left_as_a_column(release, tmp_path):
    release.table = release.table.append_column("patient", pa.array([f"P{i}" for i in range(8)]))
    assert "columns" in release.judge(tmp_path)


def test_column_twice(release, tmp_path):
    release.table = pa.Table.from_arrays(
        [*release.table.columns, release.table["cost"]], names=[*release.table.column_names, "cost"]
    )
    assert "columns" in release.judge(tmp_path)


def test_label_that_the_manifest_does_not_know(release, tmp_path):
    for row in (0, 2, 4, 6):
        release.set("zip", row, "4711*")
    assert "labels" in release.judge(tmp_path)


def test_missing_value_as_a_label(release, tmp_path):
    release.set("zip", 0, None)
    assert "labels" in release.judge(tmp_path)


def test_label_that_no_row_has(release, tmp_path):
    release.manifest["attributes"]["age"]["labels"]["[0, 19]"] = {"from": 0, "below": 20}
    assert release.judge(tmp_path) == {"labels"}


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
    assert "labels" in parquet.judge(tmp_path)


# Files -----------------------------------------------------------------------------------------------------


def test_another_data_file(release, tmp_path):
    release.manifest["data"] = {
        "file": f"data.{release.format}",
        "format": release.format,
        "sha256": hashlib.sha256(b"").hexdigest(),
    }
    assert release.judge(tmp_path) == {"digest"}


def test_data_file_absent(release, tmp_path):
    release.sign = False
    release.after = lambda public: (public / f"data.{release.format}").unlink()
    assert "file" in release.judge(tmp_path)


@pytest.mark.parametrize(
    "name", ["index.csv", ".secret", "report.html", "taxonomies/zip.csv", "internal/evidence.json"]
)
def test_other_file_in_the_public_folder(release, tmp_path, name):
    def leave(public: Path) -> None:
        (public / name).parent.mkdir(exist_ok=True)
        (public / name).write_text("x")

    release.after = leave
    assert release.judge(tmp_path) == {"folder"}


def test_identifiers_in_parquet_metadata(parquet, tmp_path):
    def rewrite(public: Path) -> None:
        with pq.ParquetWriter(public / "data.parquet", parquet.table.schema, **CLEAN) as writer:
            writer.write_table(parquet.table)
            writer.add_key_value_metadata({"patients": "P1 P2 P3"})

    parquet.after = rewrite
    assert parquet.judge(tmp_path) == {"hygiene"}


def test_identifiers_in_the_metadata_of_a_column(parquet, tmp_path):
    fields = [f.with_metadata({"patients": "P1 P2"}) if f.name == "cost" else f for f in parquet.table.schema]
    parquet.table = parquet.table.cast(pa.schema(fields))
    parquet.parquet = {"write_statistics": False}
    assert "hygiene" in parquet.judge(tmp_path)


def test_arrow_schema_metadata(parquet, tmp_path):
    parquet.parquet["store_schema"] = True
    assert parquet.judge(tmp_path) == {"hygiene"}


@pytest.mark.parametrize("option", [{"write_statistics": True}, {"write_statistics": ["cost"]}])
def test_column_statistics(parquet, tmp_path, option):
    parquet.parquet |= option
    assert parquet.judge(tmp_path) == {"hygiene"}


def test_page_index(parquet, tmp_path):
    parquet.parquet |= {"write_page_index": True, "write_statistics": True}
    verification = verify(parquet.write(tmp_path))
    assert "page index" in next(c.detail for c in verification.checks if c.name == "hygiene")


def test_unused_dictionary_entries(parquet, tmp_path):
    illness = parquet.table["illness"].combine_chunks().dictionary_encode()
    entries = pa.concat_arrays([illness.dictionary, pa.array(["Ann Smith"])])
    parquet.table = parquet.table.set_column(3, "illness", pa.DictionaryArray.from_arrays(illness.indices, entries))
    assert b"Ann Smith" in parquet.write(tmp_path).joinpath("public", "data.parquet").read_bytes()
    assert parquet.failed(verify(tmp_path)) == {"dictionaries"}


def test_bytes_hidden_between_columns(parquet, tmp_path):
    def hide(public: Path) -> None:
        path = public / "data.parquet"
        raw = path.read_bytes()
        footer = int.from_bytes(raw[-8:-4], "little")
        path.write_bytes(raw[: -8 - footer] + b"P1 P2 P3" + raw[-8 - footer :])

    parquet.after = hide
    assert parquet.judge(tmp_path) == {"hygiene"}


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
        (lambda raw: raw + b"\n", "hygiene"),
        (lambda raw: raw + b"# P1 P2\n", "file"),
        (lambda raw: b"# P1 P2\n" + raw, "columns"),
        (lambda raw: raw.replace(b"ulcer", b"ul\xffer", 1), "file"),
        (lambda _: b"", "columns"),
    ],
)
def test_spoiled_csv(delimited, tmp_path, change, check):
    delimited.after = _spoil_csv(change)
    assert check in delimited.judge(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" * 9, bytes(range(256)) * 4])
def test_file_that_is_not_parquet(parquet, tmp_path, raw):
    parquet.after = lambda public: (public / "data.parquet").write_bytes(raw)
    assert "file" in parquet.judge(tmp_path)


@pytest.mark.parametrize("place", range(4, 900, 37))
def test_one_flipped_byte_is_never_accepted(parquet, tmp_path, place):
    def flip(public: Path) -> None:
        path = public / "data.parquet"
        raw = bytearray(path.read_bytes())
        raw[place % len(raw)] ^= 0x5A
        path.write_bytes(bytes(raw))

    parquet.sign = False
    parquet.after = flip
    assert "digest" in parquet.judge(tmp_path)

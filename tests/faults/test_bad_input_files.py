"""Files that cannot be read: each is refused with the place at fault and without a value."""

from __future__ import annotations

import gzip
import os
import random
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.errors import InputError
from shoal.sources.opening import open_source
from shoal.sources.snapshots import Snapshot

SECRET = "Schmidt"


def refusal(path, options=None, kind=InputError) -> str:
    """Open and read everything; return the message."""
    with pytest.raises(kind) as caught:
        for _ in open_source(path, options).batches():
            pass
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert SECRET not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file of that name."""

    def _write(content, name="people.csv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return _write


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_empty_file(write, content):
    assert refusal(write(content)) == "people.csv is empty"


@pytest.mark.parametrize("content", [b"a,b\n", b"a,b", b"a,b\n\n\n", b"name\n"])
def test_header_only(write, content):
    assert refusal(write(content)) == "people.csv has a header but no rows"


@pytest.mark.parametrize(
    ("bad", "received"),
    [(b"Schmidt\n", "1 field "), (b"Schmidt,2,3\n", "3 fields"), (b"Schmidt,2,\n", "3 fields")],
)
def test_ragged_rows_are_named_by_line(write, bad, received):
    message = refusal(write(b"a,b\n1,2\n" + bad + b"3,4\n"))
    assert message.startswith("people.csv: line 3 has " + received)
    assert "the table has 2" in message


def test_ragged_row_after_fields_with_newlines_and_far_into_the_file(write):
    content = b'a,b\n"x\ny",2\n' + b"1,2\n" * 3_000_000 + b"Schmidt,1,2\n"
    assert "line 3000004 has 3 fields" in refusal(write(content))


@pytest.mark.parametrize("lines_before", [0, 10, 3_000_000])
def test_nul_byte(write, lines_before):
    message = refusal(write(b"a,b\n" + b"1,2\n" * lines_before + b"Schmidt,\0\n"))
    assert f"NUL byte in line {lines_before + 2}:" in message


@pytest.mark.parametrize("lines_before", [0, 10, 3_000_000])
def test_wrong_encoding(write, lines_before):
    start = b"a,b\n" + b"1,2\n" * lines_before
    message = refusal(write(start + b"Schmidt,K\xf6ln\n"))
    assert f"byte {len(start) + len(b'Schmidt,K')} (line {lines_before + 2})" in message
    assert "is not utf-8" in message
    assert "cp1252" in message


def test_character_cut_off_at_the_end(write):
    assert "byte 6 (line 2)" in refusal(write("a,b\n1,€".encode()[:-1]))


def test_duplicate_and_missing_column_names(write):
    assert "same name: 'age', 'sex'" in refusal(write(b"sex,age,sex,age,zip\n1,2,3,4,5\n"))
    assert "column 1 has no name" in refusal(write(b",age\n0,2\n"))


def test_gzip_that_breaks_off(write):
    whole = gzip.compress(b"a,b\n" + b"".join(b"%d,Schmidt\n" % i for i in range(300_000)), mtime=0)
    assert "not a whole gzip file" in refusal(write(whole[: len(whole) // 2], "people.csv.gz"))
    assert "not a whole gzip file" in refusal(write(whole[:-4], "people.csv.gz"))


def test_gzip_that_is_damaged(write):
    noise = random.Random(1)
    whole = bytearray(gzip.compress(b"a,b\n" + b"".join(b"%d,2\n" % noise.randrange(10**9) for _ in range(300_000))))
    whole[len(whole) // 2] ^= 0xFF
    assert refusal(write(bytes(whole), "people.csv.gz")).startswith("people.csv.gz")


@pytest.mark.parametrize("content", [b'a,b\n1,2\n"Schmidt,3\n4,5\n', b'a,b\n1,2\n3,"Schmidt\n4,5\n6,7'])
def test_quote_that_never_closes(write, content):
    assert "line 3 do not close" in refusal(write(content))


def test_quote_that_never_closes_in_a_long_file(write):
    content = b'a,b\n1,2\n3,"Schmidt\n' + b"4,5\n" * 6_000_000
    assert "line 3 do not close" in refusal(write(content))


def test_not_parquet(write):
    assert "not a readable Parquet file" in refusal(write(b"a,b\n1,2\n", "people.parquet"))
    assert refusal(write(b"", "people.parquet")) == "people.parquet is empty"


def test_parquet_that_is_damaged(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"a": [SECRET] * 1000, "b": list(range(1000))}), path, compression="snappy")
    whole = bytearray(path.read_bytes())
    path.write_bytes(whole[:-100])
    assert "not a readable Parquet file" in refusal(path)
    whole[4:60] = b"\xff" * 56
    path.write_bytes(whole)
    assert "not a readable Parquet file" in refusal(path)


def test_parquet_without_rows(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), path)
    assert refusal(path) == "people.parquet has no rows"


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"a": ["x"], "b": ["y"]}, "its column 'b' holds string, not int64"),
        ({"a": ["x"]}, "it has no column 'b'"),
        ({"a": ["x"], "b": [1], "c": [2]}, "only it has a column 'c'"),
    ],
    ids=["type", "less", "more"],
)
def test_folder_of_different_tables(tmp_path, other, difference):
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / "one.parquet")
    pq.write_table(pa.table(other), tmp_path / "two.parquet")
    assert refusal(tmp_path) == (
        f"{tmp_path.name}/two.parquet differs from one.parquet: {difference}. A folder is one table: same names, same "
        "types"
    )


def test_folder_where_a_file_belongs(tmp_path):
    (tmp_path / "people.csv").mkdir()
    assert "has no .parquet files" in refusal(tmp_path / "people.csv")


def test_file_that_vanishes_between_opening_and_reading(tmp_path):
    for path, content in ((tmp_path / "a.csv", b"a,b\n1,2\n"), (tmp_path / "b.parquet", None)):
        if content is None:
            pq.write_table(pa.table({"a": ["x"]}), path)
        else:
            path.write_bytes(content)
        source = open_source(path)
        path.unlink()
        with pytest.raises(InputError, match=path.name):
            list(source.batches())


def as_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, compression="none", use_dictionary=False)


def as_gzip(rows: pa.Table, path: Path) -> None:
    with pa.output_stream(path, compression="gzip") as file:
        pa_csv.write_csv(rows, file)


def as_folder(rows: pa.Table, path: Path) -> None:
    path.mkdir(exist_ok=True)
    as_parquet(rows, path / "a.parquet")
    as_parquet(rows, path / "b.parquet")


@pytest.mark.parametrize("ledger", [False, True], ids=["", "ledger"])
@pytest.mark.parametrize("old", [False, True], ids=["young", "old"])
@pytest.mark.parametrize(
    ("name", "write"),
    [("people.csv", pa_csv.write_csv), ("people.csv.gz", as_gzip), ("people.parquet", as_parquet), ("p", as_folder)],
    ids=["csv", "gz", "parquet", "folder"],
)
def test_a_file_that_changes_after_it_was_read_for_the_last_time(tmp_path, monkeypatch, name, write, old, ledger):
    """Same size, same modification time: rows of the old file must not go with the digest of the new one."""
    rows = pa.table({"age": pa.array([20, 20, 60, 60] * 4), "illness": ["flu", "gout", "flu", "cold"] * 4})
    path = tmp_path / name
    write(rows, path)
    changed = path / "b.parquet" if path.is_dir() else path
    size, before = changed.stat().st_size, changed.stat()
    monkeypatch.setattr("shoal.sources.base._SETTLED", 0 if old else 1 << 62)

    def late(*_):
        write(rows.set_column(0, "age", pa.array([60, 60, 20, 20] * 4)), path)
        os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert changed.stat().st_size == size or name.endswith(".gz")

    monkeypatch.setattr(import_module("shoal.anonymize.run"), "refuse_unverified", late)
    policy = {
        "attributes": {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 2}}],
    }
    book = tmp_path / "ledger.db" if ledger else None
    with pytest.raises(InputError, match="changed while it was being read; nothing was published"):
        shoal.anonymize(path, policy, out=tmp_path / "out", ledger=book)
    assert not (tmp_path / "out").exists()
    write(rows, path)
    with pytest.raises(InputError, match="changed while it was being read; nothing was published"):
        shoal.anonymize(path, policy)


def test_a_file_that_joins_a_folder_while_it_is_read(tmp_path):
    as_folder(pa.table({"age": [1, 2]}), tmp_path / "p")
    source = open_source(tmp_path / "p")
    as_parquet(pa.table({"age": [3]}), tmp_path / "p" / "c.parquet")
    with pytest.raises(InputError, match="p changed while it was being read"):
        source.digest()


def test_a_workbook_that_changes_while_it_is_read(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["age"])
    book.active.append([7])
    book.save(tmp_path / "people.xlsx")
    taken = Snapshot.__init__

    def late(*given):
        with (tmp_path / "people.xlsx").open("ab") as file:
            file.write(b"more")
        taken(*given)

    monkeypatch.setattr(Snapshot, "__init__", late)
    with pytest.raises(InputError, match=r"people\.xlsx changed while it was being read"):
        open_source(tmp_path / "people.xlsx")

"""Rows kept in an anonymous temporary file."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.core.errors import UsageError
from shoal.sources import snapshots
from shoal.sources.base import SourceOptions
from shoal.sources.delimited import TextStream, open_delimited
from shoal.sources.snapshots import KeptSource, Snapshot

N = 200_001
SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


def batches(rows: int):
    table = pa.table(
        {"i": range(N), "s": [f"name {i % 977}" for i in range(N)], "f": [i / 3 for i in range(N)]}, SCHEMA
    )
    return table.to_batches(max_chunksize=rows)


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_rows_come_back_whatever_their_batches_were():
    one, other = Snapshot(batches(1_000), SCHEMA), Snapshot(batches(N), SCHEMA)
    assert one.n_rows == other.n_rows == N
    assert one.sha256 == other.sha256
    assert one.sha256 != Snapshot(batches(N)[:1] + batches(1_000)[:1], SCHEMA).sha256
    sizes = [batch.num_rows for batch in one.batches(["s"])]
    assert sizes == [1 << 16] * 3 + [N - (3 << 16)]
    assert pa.Table.from_batches(one.batches(["i", "s", "f"])).equals(pa.Table.from_batches(batches(N)))


def test_the_file_has_no_name_and_goes_with_its_last_user(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    kept = Snapshot(batches(N), SCHEMA)
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before + 1
    reader = kept.batches(["i"])
    del kept
    assert next(reader).num_rows == 1 << 16
    del reader
    assert open_files() == before


def test_rows_that_break_off_leave_no_file_open():
    def breaking():
        yield from batches(70_000)[:2]
        raise ValueError("no more")

    before = open_files()
    with pytest.raises(ValueError, match="no more"):
        Snapshot(breaking(), SCHEMA)
    assert open_files() == before


def test_a_full_disk(monkeypatch):
    """The device is always full."""
    monkeypatch.setattr(
        snapshots.tempfile, "TemporaryFile", lambda **_: os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", 0)
    )
    before = open_files()
    with pytest.raises(UsageError, match=r"cannot keep rows in a temporary file: No space left on device; .* TMPDIR"):
        Snapshot(batches(N), SCHEMA)
    assert open_files() == before


class TestParsedOnce:
    """A delimited file whose first pass keeps what later ones want."""

    @pytest.fixture
    def source(self, tmp_path):
        path = tmp_path / "people.csv"
        rows = (f"{i},name {i % 977},{'' if i % 5 == 0 else i % 7},x{i}\n" for i in range(20_000))
        path.write_text("id,name,grade,note\n" + "".join(rows))
        return open_delimited(path, SourceOptions(missing=["", "3"]), block_bytes=1 << 16)

    @pytest.fixture
    def parsed(self, monkeypatch):
        """The passes over a file."""
        passes: list[str] = []
        start = TextStream.__init__

        def count(self, path, *arguments):
            passes.append(path.name)
            start(self, path, *arguments)

        monkeypatch.setattr(TextStream, "__init__", count)
        return passes

    @staticmethod
    def read(source, columns, dictionary=()):
        """The rows, with dictionaries that do not depend on batches."""
        return pa.Table.from_batches(source.batches(columns, dictionary=dictionary)).combine_chunks().to_pylist()

    def test_every_pass_sees_the_same_rows(self, source, parsed, tmp_path):
        kept = KeptSource.of(source, ("name", "grade", "note"), ("name", "grade"), tmp_path)
        whole = self.read(source, ["name", "grade", "note"])
        assert {row["grade"] for row in whole} == {None, "0", "1", "2", "4", "5", "6"}
        parsed.clear()
        for columns, coded in ((["grade"], ["grade"]), (["note", "name"], ["name"]), (["grade", "note"], ["note"])):
            expected = [{name: row[name] for name in columns} for row in whole]
            assert self.read(kept, columns, coded) == expected
        assert len(parsed) == 1
        assert kept.digest() == source.digest()
        assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]

    def test_a_column_that_is_not_kept_is_parsed(self, source, parsed, tmp_path):
        kept = KeptSource.of(source, ("name",), (), tmp_path)
        self.read(kept, ["name"])
        assert self.read(kept, ["id", "name"])[-1] == {"id": "19999", "name": f"name {19_999 % 977}"}
        assert len(parsed) == 2

    def test_a_pass_that_ended_early_is_not_kept(self, source, parsed, tmp_path):
        kept, before = KeptSource.of(source, ("name",), ("name",), tmp_path), open_files()
        reader = kept.batches(["name"])
        next(reader)
        del reader
        assert open_files() == before
        assert len(self.read(kept, ["name"])) == 20_000
        assert len(parsed) == 2

    def test_the_file_is_closed_with_the_source(self, source, tmp_path):
        before = open_files()
        kept = KeptSource.of(source, ("name",), (), tmp_path)
        self.read(kept, ["name"])
        assert open_files() == before + 1
        del kept
        assert open_files() == before

    def test_without_room_every_pass_parses_anew(self, source, parsed, monkeypatch):
        monkeypatch.setattr(
            snapshots.tempfile, "TemporaryFile", lambda **_: os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", 0)
        )
        kept, before = KeptSource.of(source, ("name",), ("name",), None), open_files()
        assert self.read(kept, ["name"]) == self.read(kept, ["name"]) == self.read(source, ["name"])
        assert len(parsed) == 3
        assert open_files() == before

"""Rows kept in an anonymous temporary file."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.core.errors import UsageError
from shoal.sources import snapshots
from shoal.sources.snapshots import Snapshot

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


def test_only_the_columns_asked_for_are_read():
    kept = Snapshot(batches(N), SCHEMA)
    assert next(kept.batches(["f", "i"])).schema.names == ["i", "f"]


def test_many_threads_read_at_once():
    kept = Snapshot(batches(N), SCHEMA)
    found: list[int] = []

    def add() -> None:
        found.append(sum(sum(batch.column("i").to_pylist()) for batch in kept.batches(["i"])))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [N * (N - 1) // 2] * 4


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
        snapshots.tempfile, "TemporaryFile", lambda: os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", 0)
    )
    before = open_files()
    with pytest.raises(UsageError, match=r"cannot keep rows in a temporary file: No space left on device; .* TMPDIR"):
        Snapshot(batches(N), SCHEMA)
    assert open_files() == before


def test_a_temporary_folder_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot keep rows in a temporary file: No such file or directory"):
        Snapshot(batches(N), SCHEMA)
    assert not os.path.lexists(tmp_path / "none")

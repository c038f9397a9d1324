"""The shuffler: every row once, whatever the number of heaps, and errors that say what happened."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core import randomness
from shoal.core.errors import UsageError
from shoal.core.randomness import Chance, Shuffler


def shuffled(n: int, batch: int, seed: int, folder: Path | None = None, expected: int | None = None) -> pa.Table:
    table = pa.table({"row": range(n), "text": [None if i % 7 == 0 else f"t{i}" for i in range(n)]})
    with Shuffler(n if expected is None else expected, Chance.of(seed), folder) as shuffler:
        for piece in table.to_batches(max_chunksize=batch):
            shuffler.add(piece)
        return pa.concat_tables(list(shuffler.heaps()))


@pytest.mark.parametrize("per_heap", [1 << 20, 40, 7, 1])
@pytest.mark.parametrize("batch", [1, 9, 200])
def test_every_row_comes_back_once_and_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, per_heap: int, batch: int
) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", per_heap)
    rows = shuffled(60, batch, seed=5, folder=tmp_path)
    numbers = rows["row"].to_pylist()
    assert sorted(numbers) == list(range(60))
    assert numbers != list(range(60))
    assert rows["text"].to_pylist() == [None if i % 7 == 0 else f"t{i}" for i in numbers]
    assert list(tmp_path.iterdir()) == []


def test_the_same_generator_gives_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 10)
    one, same, other = (shuffled(50, 8, seed) for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


def test_a_wrong_expectation_of_rows_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 10)
    assert sorted(shuffled(50, 8, 1, expected=5)["row"].to_pylist()) == list(range(50))
    assert sorted(shuffled(5, 8, 1, expected=500)["row"].to_pylist()) == list(range(5))


def test_heaps_hold_no_more_than_about_their_share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 100)
    table = pa.table({"row": range(1000)})
    with Shuffler(1000, Chance.of(3), tmp_path) as shuffler:
        shuffler.add(table.to_batches()[0])
        sizes = [heap.num_rows for heap in shuffler.heaps()]
    assert len(sizes) == 10
    assert sum(sizes) == 1000
    assert max(sizes) < 200  # mean 100, standard deviation 9.5


def test_a_full_disk_is_said_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 10)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(UsageError, match="No space left on device; nothing was published"):
        shuffled(50, 8, 1, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_are_closed_when_the_run_is_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 10)
    shuffler = Shuffler(50, Chance.of(1), tmp_path)

    def interrupted() -> None:
        with shuffler:
            shuffler.add(pa.table({"row": range(50)}).to_batches()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(shuffler._files) == 5
    assert all(file._file.closed for file in shuffler._files)


def test_without_a_seed_the_order_follows_from_the_operating_system_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator's output can be continued by whoever sees some of it; a published order shows some."""

    def orders() -> list[list[int]]:
        found = []
        for rows in (1 << 20, 10):
            monkeypatch.setattr(randomness, "ROWS_PER_HEAP", rows)
            fixed = np.random.default_rng(5)
            monkeypatch.setattr("shoal.core.randomness.os", SimpleNamespace(urandom=fixed.bytes))
            found.append(shoal.anonymize(TABLE, POLICY).data["note"].to_pylist())
        return found

    first = orders()
    assert first == orders()
    assert len({tuple(order) for order in [*first, range(60)]}) == 3


TABLE = pa.table({"age": pa.array([20, 60] * 30), "note": pa.array(range(60))})
POLICY = {
    "attributes": {"age": {"role": "quasi"}, "note": {"role": "insensitive"}},
    "privacy": [{"k-anonymity": {"k": 2}}],
}

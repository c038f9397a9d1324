"""Rows that wait for their turn: a temporary file for each region, which vanishes with the process however it ends."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray, KeyArray
from shoal.publishing.columns import without_dictionary
from shoal.shuffling import kept_in_files


class RegionFiles:
    """The keys and the carried columns of rows, region by region."""

    def __init__(self, n_regions: int, n_words: int, folder: Path | None) -> None:
        """Open a file for each region in *folder* (None: the system's temporary folder)."""
        self._n_words = n_words
        self._folder = folder
        self._files: list[IO[bytes] | None] = [None] * n_regions
        self._writers: list[pa.RecordBatchStreamWriter | None] = [None] * n_regions

    def write(self, rows: pa.RecordBatch, first: IntArray) -> None:
        """Take rows in the order of their regions; those of region r begin at ``first[r]``."""
        with kept_in_files():
            for region in np.flatnonzero(np.diff(first)).tolist():
                writer = self._writers[region]
                if writer is None:
                    file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed in __exit__
                    writer = pa.ipc.new_stream(file, rows.schema)
                    self._files[region], self._writers[region] = file, writer
                writer.write_batch(rows.slice(first[region], first[region + 1] - first[region]))

    def finish(self) -> None:
        """Say that no rows come any more."""
        with kept_in_files():
            for writer, file in zip(self._writers, self._files, strict=True):
                if writer is not None and file is not None:
                    writer.close()
                    file.flush()
        self._writers = []

    def read(self, regions: Sequence[int], n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
        """Yield the keys and the carried columns of all rows of some regions, about *n_rows* at a time."""
        return parted_rows(self._batches(regions), self._n_words, n_rows)

    def drop(self, regions: Sequence[int]) -> None:
        """Let the files of regions go that are done."""
        for region in regions:
            file = self._files[region]
            if file is not None:
                file.close()

    def __enter__(self) -> RegionFiles:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            if file is not None:
                with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now
                    file.close()

    def _batches(self, regions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for region in regions:
            file = self._files[region]
            if file is not None:
                with kept_in_files():
                    file.seek(0)
                    yield from pa.ipc.open_stream(file)


def waiting_rows(keys: KeyArray, carried: pa.RecordBatch, order: IntArray | CodeArray) -> pa.RecordBatch:
    """Return keys and carried columns in one batch, in another order."""
    taken = carried.take(pa.array(order)) if carried.num_columns else carried
    arrays = [*(pa.array(word[order]) for word in keys), *map(without_dictionary, taken.columns)]
    names = [*(f"word {word}" for word in range(len(keys))), *(f"carried {name}" for name in carried.schema.names)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def parted_rows(batches: Iterable[pa.RecordBatch], n_words: int, n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
    """Yield the keys and the carried columns of rows that waited, about *n_rows* at a time."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= n_rows:
            yield _parted(waiting, n_words)
            waiting = []
    if waiting:
        yield _parted(waiting, n_words)


def _parted(batches: list[pa.RecordBatch], n_words: int) -> tuple[KeyArray, pa.Table]:
    table = pa.Table.from_batches(batches)
    words = [table.column(word).combine_chunks().to_numpy() for word in range(n_words)]
    return np.stack(words), table.select(range(n_words, table.num_columns))

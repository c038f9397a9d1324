"""What tasks tell the driver, and rows on their way from one task to another, as batches of one column."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.regional.files import sorted_by_parts

RELEASE, SOURCE = "release", "source"  # what rows are of
_WORD = 8  # bytes
_TOLD = "told"


def told_message(found: object) -> pa.RecordBatch:
    """Return what a task found."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found, protocol=5)], pa.large_binary())], names=[_TOLD])


def told_of(message: pa.RecordBatch) -> Any:
    """Return what a task found, of its message."""
    return pickle.loads(message.column(0)[0].as_py())  # noqa: S301  what a task of this run has packed


def pieces(
    kind: str, words: list[KeyArray], parts: list[CodeArray], destinations: IntArray
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield destinations and the rows for them.

    Batches of (n_words, n_rows) *words* go where the *parts* of their rows are sent; parts sent to -1 are left out.
    """
    if not words:
        return
    n_parts = len(destinations)
    rows, first = sorted_by_parts(np.concatenate(words, axis=1), np.concatenate(parts), n_parts)
    width = pa.binary(_WORD * rows.shape[1])
    column = pa.FixedSizeBinaryArray.from_buffers(width, len(rows), [None, pa.py_buffer(rows)])
    for part in np.flatnonzero((np.diff(first) > 0) & (destinations >= 0)).tolist():
        some = column.slice(int(first[part]), int(first[part + 1] - first[part]))
        yield int(destinations[part]), pa.RecordBatch.from_arrays([some], names=[kind])


def words_of(batches: list[pa.RecordBatch], kind: str, n_words: int) -> KeyArray:
    """Return (n_rows, n_words) the rows of one kind among those that came to a task."""
    found = [_words(batch.column(0), n_words) for batch in batches if batch.schema.names == [kind]]
    return np.concatenate(found) if found else np.empty((0, n_words), dtype=np.uint64)


def _words(column: pa.FixedSizeBinaryArray, n_words: int) -> KeyArray:
    size = _WORD * n_words
    if column.type != pa.binary(size):
        raise ValueError("rows have another width than was agreed")
    words = np.frombuffer(
        column.buffers()[1], dtype=np.uint64, count=n_words * len(column), offset=size * column.offset
    )
    return words.reshape(len(column), n_words)

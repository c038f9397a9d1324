"""Rows of all tasks in random order, every order equally likely, and the same whenever a task is run again.

Each row is sent to a random heap, and each heap is put in random order by the task that receives it. All draws follow
from one secret of the run and from the numbers of partitions and heaps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, KeyArray
from shoal.core.randomness import Chance, shuffle_within

ROWS_PER_HEAP = 1 << 20


def heaps_for(n_rows: int) -> int:
    """Return how many heaps these rows are to have."""
    return max(-(-n_rows // ROWS_PER_HEAP), 1)


def scatter(
    batch: pa.RecordBatch, n_heaps: int, secret: bytes, number: int, place: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield heaps and the rows that go there, of the batch at *place* of the partition *number*."""
    keys = _keys(secret, f"heap {number} {place}", batch.num_rows)
    yield from _cut(batch, _heaps(keys, n_heaps), n_heaps)


def order_rows(pieces: Sequence[pa.RecordBatch], secret: bytes, heap: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a heap, which must always come in the same order, in random order."""
    if pieces:
        rows = pa.Table.from_batches(pieces).combine_chunks()
        order = np.arange(rows.num_rows)
        shuffle_within(np.array([0, rows.num_rows]), order, _keys(secret, f"order {heap}", rows.num_rows))
        yield from rows.take(pa.array(order)).combine_chunks().to_batches()


def chance_for(secret: bytes, use: str) -> Chance:
    """Return the chance of one use."""
    own = _stream(secret, use, 32)
    return Chance(np.random.default_rng(int.from_bytes(own)), own)


def _heaps(keys: KeyArray, n_heaps: int) -> CodeArray:
    """Return (n_rows,) ``key * n_heaps / 2**64``, rounded down.

    >>> _heaps(np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64), 4).tolist()
    [0, 1, 2, 3]
    """
    half, low_bits, number = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(n_heaps)
    low = (keys & low_bits) * number >> half
    return (((keys >> half) * number + low) >> half).astype(np.int32)


def _keys(secret: bytes, use: str, n_keys: int) -> KeyArray:
    return np.frombuffer(bytearray(_stream(secret, use, 8 * n_keys)), dtype=np.uint64)


def _stream(secret: bytes, use: str, n_bytes: int) -> bytes:
    return hashlib.shake_256(secret + use.encode()).digest(n_bytes)


def _cut(batch: pa.RecordBatch, destinations: CodeArray, n_destinations: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows for each destination that has some, in their order; columns should hold no dictionaries."""
    first, order = kernels.group_items(destinations, n_destinations)
    ordered = batch.take(pa.array(order))
    for destination in np.flatnonzero(np.diff(first)).tolist():
        start = int(first[destination])
        yield destination, ordered.slice(start, int(first[destination + 1]) - start)

"""Chance of one run, from the operating system's generator unless a seed is given, and rows in random order."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import group_items, kernel

ROWS_PER_HEAP = 1 << 20
MOST_HEAPS = 400  # files that are open at a time, of the 1,024 that a process may usually have


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """A generator for what is planned, and keys that nobody can compute from other draws: for who goes where.

    From a stretch of a generator's output all the rest of it can be computed; a published order would be such a
    stretch. Keys are therefore bytes of the operating system, each for one use. With a seed a run can be repeated: all
    draws then follow from the seed and the digest of the source together, so that whoever has the release alone cannot
    try seeds out on it.

    >>> chance = Chance.of(7)
    >>> order = chance.order_within(np.array([1, 0, 1, 1], dtype=np.int32), 2)
    >>> order[0].item(), sorted(order.tolist())
    (1, [0, 1, 2, 3])
    """

    generator: np.random.Generator
    secret: bytes | None  # what keys follow from; None: the operating system
    uses: Iterator[int] = field(default_factory=itertools.count)
    root: bytes = field(default_factory=partial(os.urandom, 32), repr=False)  # of what is common, without a seed

    @classmethod
    def of(cls, seed: int | None, source: str = "") -> Chance:
        """Start from *seed* and the digest of the *source*, or from the operating system."""
        if seed is None:
            return cls(np.random.default_rng(), None)
        secret = hashlib.sha256(f"{seed} {source}".encode()).digest()
        return cls(np.random.default_rng(int.from_bytes(secret)), secret)

    def apart(self, purpose: str) -> Chance:
        """Return the chance of one purpose, of which draws for other purposes tell nothing, with a seed either."""
        if self.secret is None:
            return self
        secret = hashlib.sha256(self.secret + purpose.encode()).digest()
        return Chance(np.random.default_rng(int.from_bytes(secret)), secret)

    def common(self, purpose: str) -> bytes:
        """Return a secret of 256 bits that all who name this purpose in the run have in common."""
        return hashlib.sha256((self.secret or self.root) + b"common " + purpose.encode()).digest()

    @property
    def seeded(self) -> bool:
        """Whether the run can be repeated."""
        return self.secret is not None

    def keys(self, n_keys: int) -> KeyArray:
        """Return (n_keys,) numbers of 64 random bits."""
        if self.secret is None:
            drawn = os.urandom(8 * n_keys)
        else:
            drawn = hashlib.shake_256(self.secret + next(self.uses).to_bytes(8)).digest(8 * n_keys)
        return np.frombuffer(bytearray(drawn), dtype=np.uint64)  # writable: the kernels' usual type

    def fractions(self, n_fractions: int) -> FloatArray:
        """Return (n_fractions,) numbers from 0 to below 1, each a multiple of 2**-53."""
        return (self.keys(n_fractions) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def order(self, n_items: int) -> IntArray:
        """Return (n_items,) the items in random order."""
        return self.order_within(np.zeros(n_items, dtype=np.int32), 1)

    def order_within(self, groups: CodeArray, n_groups: int) -> IntArray:
        """Return (n_items,) the items by ascending group, those of each group in random order."""
        first, order = group_items(groups, n_groups)
        shuffle_within(first, order, self.keys(len(order)))
        return order


@kernel
def shuffle_within(first: IntArray, order: IntArray, keys: KeyArray) -> None:
    """Put the items ``first[g]:first[g + 1]`` of each group in random order (Fisher and Yates).

    Each item changes places with one at or before it in its group: that of ``key * n / 2**64``, rounded down, of the
    n there are. No place is more likely than another by more than 2**-64.
    """
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    for group in range(len(first) - 1):
        start = first[group]
        for item in range(first[group + 1] - 1, start, -1):
            n_places = np.uint64(item - start + 1)
            high, low = keys[item] >> half, keys[item] & low_bits
            place = start + np.int64((high * n_places + (low * n_places >> half)) >> half)
            order[item], order[place] = order[place], order[item]


class Shuffler:
    """Takes batches in any order and gives all their rows back in random order."""

    def __init__(self, n_rows: int, chance: Chance, folder: Path | None, rows_per_heap: int | None = None) -> None:
        """Expect about *n_rows* rows; *folder* is where heaps wait (None: the system's temporary folder)."""
        self._chance = chance
        self._folder = folder
        self._n_heaps = min(max(-(-n_rows // (rows_per_heap or ROWS_PER_HEAP)), 1), MOST_HEAPS)
        self._in_memory: list[pa.RecordBatch] = []
        self._files: list[IO[bytes]] = []
        self._writers: list[pa.RecordBatchStreamWriter] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of one batch; its columns must have plain types, the same in all batches."""
        if self._n_heaps == 1:
            self._in_memory.append(batch)
            return
        with explain_file_errors():
            if not self._writers:
                for _ in range(self._n_heaps):
                    file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed in __exit__
                    self._files.append(file)
                    self._writers.append(pa.ipc.new_stream(file, batch.schema))
            half_keys = self._chance.keys(-(-batch.num_rows // 2)).view(np.uint32)[: batch.num_rows]
            heap = (half_keys * np.uint64(self._n_heaps) >> np.uint64(32)).astype(np.uint16)
            order = np.argsort(heap, kind="stable")
            edges = np.searchsorted(heap[order], np.arange(self._n_heaps + 1))
            sorted_rows = batch.take(pa.array(order))
            for number, writer in enumerate(self._writers):
                writer.write_batch(sorted_rows.slice(edges[number], edges[number + 1] - edges[number]))

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows, each heap in random order."""
        if self._n_heaps == 1:
            rows, self._in_memory = pa.Table.from_batches(self._in_memory), []
            yield self._shuffle(rows)
            return
        with explain_file_errors():
            for writer in self._writers:
                writer.close()
        for file in self._files:
            with explain_file_errors():
                file.flush()
                file.seek(0)
                with pa.ipc.open_stream(file) as reader:
                    rows = reader.read_all()
                file.close()
            if rows.num_rows:
                yield self._shuffle(rows)

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now; the file goes anyway
                file.close()

    def _shuffle(self, rows: pa.Table) -> pa.Table:
        return rows.combine_chunks().take(pa.array(self._chance.order(rows.num_rows)))


@contextlib.contextmanager
def explain_file_errors(advice: str = "nothing was published") -> Iterator[None]:
    """Turn a failure of the temporary files into a message."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise UsageError(f"cannot keep rows in a temporary file: {reason}; {advice}") from None

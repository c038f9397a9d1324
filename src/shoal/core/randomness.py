"""The randomness of a run, from the operating system unless a seed is given, and shuffling of rows."""

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
MOST_HEAPS = 400  # open files; a process may usually have 1,024


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """A generator for plans, and keys that cannot be computed from other draws, for assigning and ordering rows.

    From a stretch of a generator's output its whole output can be computed, and a published order would be such a
    stretch. Therefore keys are bytes of the operating system, used once. With a seed a run can be repeated: then all
    draws follow from the seed together with the digest of the source, so the release alone does not suffice to try
    seeds.

    >>> chance = Chance.of(7)
    >>> order = chance.order_within(np.array([1, 0, 1, 1], dtype=np.int32), 2)
    >>> order[0].item(), sorted(order.tolist())
    (1, [0, 1, 2, 3])
    """

    generator: np.random.Generator
    secret: bytes | None  # from which keys follow; None: the operating system
    uses: Iterator[int] = field(default_factory=itertools.count)
    root: bytes = field(default_factory=partial(os.urandom, 32), repr=False)  # for ``common`` without a seed

    @classmethod
    def of(cls, seed: int | None, source: str = "") -> Chance:
        """Return the randomness for *seed* and the digest of the *source*, or the operating system's."""
        if seed is None:
            return cls(np.random.default_rng(), None)
        secret = hashlib.sha256(f"{seed} {source}".encode()).digest()
        return cls(np.random.default_rng(int.from_bytes(secret)), secret)

    def apart(self, purpose: str) -> Chance:
        """Return independent randomness for one purpose, also with a seed."""
        if self.secret is None:
            return self
        secret = hashlib.sha256(self.secret + purpose.encode()).digest()
        return Chance(np.random.default_rng(int.from_bytes(secret)), secret)

    def common(self, purpose: str) -> bytes:
        """Return 256 secret bits that are the same for every use of this purpose in the run."""
        return hashlib.sha256((self.secret or self.root) + b"common " + purpose.encode()).digest()

    @property
    def seeded(self) -> bool:
        return self.secret is not None

    def keys(self, n_keys: int) -> KeyArray:
        """Return (n_keys,) random 64-bit numbers."""
        if self.secret is None:
            drawn = os.urandom(8 * n_keys)
        else:
            drawn = hashlib.shake_256(self.secret + next(self.uses).to_bytes(8)).digest(8 * n_keys)
        return np.frombuffer(bytearray(drawn), dtype=np.uint64)  # a bytearray is writable, as kernels expect

    def fractions(self, n_fractions: int) -> FloatArray:
        """Return (n_fractions,) numbers in [0, 1), multiples of 2**-53."""
        return (self.keys(n_fractions) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def order(self, n_items: int) -> IntArray:
        """Return (n_items,) the items in random order."""
        return self.order_within(np.zeros(n_items, dtype=np.int32), 1)

    def order_within(self, groups: CodeArray, n_groups: int) -> IntArray:
        """Return (n_items,) the items by ascending group and in random order within each group."""
        first, order = group_items(groups, n_groups)
        shuffle_within(first, order, self.keys(len(order)))
        return order


@kernel
def shuffle_within(first: IntArray, order: IntArray, keys: KeyArray) -> None:
    """Shuffle the items ``first[g]:first[g + 1]`` of each group by Fisher and Yates' algorithm.

    Each item is swapped with one of the n items up to itself, the one at ``floor(key * n / 2**64)``. Probabilities of
    places differ by at most 2**-64.
    """
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    for group in range(len(first) - 1):
        start = first[group]
        for item in range(first[group + 1] - 1, start, -1):
            n_places = np.uint64(item - start + 1)
            high, low = keys[item] >> half, keys[item] & low_bits
            place = start + np.int64((high * n_places + (low * n_places >> half)) >> half)
            order[item], order[place] = order[place], order[item]


class BatchFile:
    """A temporary file of record batches, which are written once and can be read any number of times."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        with explain_file_errors():
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  see close
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            assert self._writer is not None  # noqa: S101  writing precedes reading
            self._writer.write_batch(batch)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, after which no more can be written."""
        if self._file is not None:
            with explain_file_errors():
                if self._writer is not None:
                    self._writer.close()
                    self._file.flush()
                    self._writer = None
                self._file.seek(0)
                yield from pa.ipc.open_stream(self._file)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # buffered rows that did not fit on the disk are not needed
                self._file.close()


class Shuffler:
    """Collects batches in any order and returns their rows in random order."""

    def __init__(self, n_rows: int, chance: Chance, folder: Path | None, rows_per_heap: int | None = None) -> None:
        """Expect about *n_rows* rows; the temporary files are in *folder*, or the system's temporary folder."""
        self._chance = chance
        n_heaps = min(max(-(-n_rows // (rows_per_heap or ROWS_PER_HEAP)), 1), MOST_HEAPS)
        self._in_memory: list[pa.RecordBatch] = []
        self._files = [BatchFile(folder) for _ in range(n_heaps)] if n_heaps > 1 else []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; all batches must have the same columns of types without dictionaries."""
        if not self._files:
            self._in_memory.append(batch)
            return
        n_heaps = len(self._files)
        half_keys = self._chance.keys(-(-batch.num_rows // 2)).view(np.uint32)[: batch.num_rows]
        heap = (half_keys * np.uint64(n_heaps) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(heap, kind="stable")
        edges = np.searchsorted(heap[order], np.arange(n_heaps + 1))
        sorted_rows = batch.take(pa.array(order))
        for number in np.flatnonzero(np.diff(edges)).tolist():
            self._files[number].write(sorted_rows.slice(edges[number], edges[number + 1] - edges[number]))

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows in random order."""
        if not self._files:
            rows, self._in_memory = pa.Table.from_batches(self._in_memory), []
            yield self._shuffle(rows)
        for file in self._files:
            batches = list(file.read())
            file.close()
            if batches:
                yield self._shuffle(pa.Table.from_batches(batches))

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            file.close()

    def _shuffle(self, rows: pa.Table) -> pa.Table:
        return rows.combine_chunks().take(pa.array(self._chance.order(rows.num_rows)))


@contextlib.contextmanager
def explain_file_errors(advice: str = "nothing was published") -> Iterator[None]:
    """Raise errors of temporary files as :class:`UsageError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise UsageError(f"cannot keep rows in a temporary file: {reason}; {advice}") from None

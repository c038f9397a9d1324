"""The result of one pass over a source: all of its cells, or a sample of them; and how batches become cells."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.plan.cells import KeyLayout, Run, RunStack

Factored = list[tuple[CodeArray, pa.Array]]


@dataclass(frozen=True, slots=True, eq=False)
class SeenValues(ABC):
    """The values of columns, and which of them occur in records."""

    columns: tuple[str, ...]
    dictionaries: tuple[GrowingDictionary, ...]  # the values of each column, including some that may not occur
    layout: KeyLayout  # the position of each column in a key

    @abstractmethod
    def find_used(self, column: int) -> BoolArray:
        """Return (n_codes,) which codes of a column occur."""

    @abstractmethod
    def records(self, column: int) -> IntArray:
        """Return (n_codes,) the records of each code of a column."""

    def in_use(self, column: int) -> tuple[pa.Array, BoolArray]:
        """Return the occurring values of a column in the order of their codes, and (n_codes,) which codes occur."""
        used = self.find_used(column)
        return self.dictionaries[column].values.filter(pa.array(used[1:])), used


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells(SeenValues):
    """The dictionaries and cells of a source.

    Cells are sorted by their last column first, which makes cells that share the last columns neighbours.
    """

    run: Run
    n_rows: int

    def codes(self, column: int) -> AnyIntArray:
        return self.run.column(self.layout, column)

    def find_used(self, column: int) -> BoolArray:
        used = np.zeros(self.dictionaries[column].size, dtype=np.bool_)
        kernels.find_codes(*self.column_key(column), used)
        return used

    def records(self, column: int) -> IntArray:
        codes = self.codes(column).astype(np.int32)
        return kernels.sum_groups(codes, self.run.counts, self.dictionaries[column].size)

    def translate(self, column: int, table: AnyIntArray) -> AnyIntArray:
        """Return (n_cells,) the entry of *table* for each cell's code in one column."""
        out = np.empty(len(self.run.counts), dtype=table.dtype)
        kernels.translate_codes(*self.column_key(column), table, out)
        return out

    def column_key(self, column: int) -> tuple[KeyArray, int, int]:
        """Return the word of the keys that holds a column, with the shift and mask of its codes."""
        return self.run.keys[self.layout.word[column]], self.layout.shift[column], (1 << self.layout.bits[column]) - 1

    def only(self, cells: IntArray | None) -> CountedCells:
        """Return some of the cells, as if no other record had been read; None keeps all."""
        if cells is None:
            return self
        run = Run(np.ascontiguousarray(self.run.keys[:, cells]), self.run.counts[cells])
        return replace(self, run=run, n_rows=int(run.counts.sum()))

    def class_sizes(self, columns: Sequence[str]) -> IntArray:
        """Return the records of each distinct combination of *columns*, which must be the last columns."""
        if set(columns) != set(self.columns[-len(columns) :]):
            raise ValueError("only the last columns are sorted")
        first = len(self.columns) - len(columns)
        low, *others = self.run.keys[self.layout.word[first] :]
        high = [low >> np.uint64(self.layout.shift[first]), *others]
        return np.add.reduceat(self.run.counts, kernels.find_starts(high))


@dataclass(frozen=True, slots=True, eq=False)
class SampledCells(SeenValues):
    """The result for a source with too many cells: all values with their records, and a sample of the cells."""

    sample: CountedCells
    share: float  # the probability with which each record is in the sample
    tallies: tuple[IntArray, ...]  # (n_codes,) for each column: the records of the whole source
    n_rows: int

    @classmethod
    def of(cls, sample: CountedCells, share: float, tallies: tuple[IntArray, ...], n_rows: int) -> SampledCells:
        """Combine the values of all records with the cells of the sample."""
        return cls(sample.columns, sample.dictionaries, sample.layout, sample, share, tallies, n_rows)

    def find_used(self, column: int) -> BoolArray:
        return self.tallies[column] > 0

    def records(self, column: int) -> IntArray:
        return self.tallies[column]

    def without_cells(self) -> SampledCells:
        """Return the same values and records with an empty sample, to save memory and transfer."""
        empty = Run(np.zeros((self.layout.n_words, 0), dtype=np.uint64), np.zeros(0, dtype=np.int64))
        return replace(self, sample=replace(self.sample, run=empty))


class Thinning:
    """Bounds the number of cells: beyond the bound, only a random share of the records is counted."""

    def __init__(
        self,
        most_cells: int,
        sample_cells: int,
        sampler: Callable[[], np.random.Generator],
        refuse: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Sample at most *sample_cells* once there are more than *most_cells*, unless *refuse* raises then."""
        self.most_cells, self._sample = most_cells, min(sample_cells, most_cells)
        self._sampler, self._refuse = sampler, refuse
        self._rng: np.random.Generator | None = None
        self.share = 1.0
        self.tallies: list[IntArray] = []

    @classmethod
    def of_share(cls, share: float, n_columns: int, sampler: Callable[[], np.random.Generator]) -> Thinning:
        """Sample a *share* of all records from the first one, however many there are."""
        thinning = cls(sys.maxsize, sys.maxsize, sampler)
        thinning.share = share
        thinning.tallies = [np.zeros(1, dtype=np.int64) for _ in range(n_columns)]
        return thinning

    def share_of(self, n_rows: int) -> float:
        """Return the share to sample of *n_rows* records with too many cells, unless *refuse* raises."""
        self._refuse(self.most_cells)
        share = 0.5
        while share * n_rows > self._sample:
            share /= 2
        return share

    def secret(self) -> bytes:
        """Return random bytes, to seed samplers in other processes."""
        return self._chance().bytes(32)

    @property
    def sampling(self) -> bool:
        return self.share < 1

    def overflows(self, n_held: int) -> bool:
        return n_held > (self._sample if self.sampling else self.most_cells)

    def thin(self, stack: RunStack, layout: KeyLayout, sizes: Sequence[int]) -> None:
        """Halve the sample until it is small enough; before the first time, tally all records so far."""
        total = stack.total()
        if not self.sampling:
            if len(total.counts) <= self.most_cells:
                return
            self._refuse(len(total.counts))
            self.tallies = [
                kernels.sum_groups(total.column(layout, column).astype(np.int32), total.counts, size)
                for column, size in enumerate(sizes)
            ]
        while stack.n_held > self._sample:
            stack.thin(self._chance())
            self.share /= 2

    def tally(self, column: int, codes: KeyArray, rows: IntArray) -> None:
        """Add the rows of each value of a column to its tally, given the values' codes."""
        self.tallies[column] = _longer(self.tallies[column], int(codes.max()) + 1)
        self.tallies[column][codes.astype(np.int64)] += rows

    def all_tallies(self, sizes: Sequence[int]) -> tuple[IntArray, ...]:
        """Return (n_codes,) for each column the records of each code; trailing codes may not occur."""
        return tuple(_longer(tally, size) for tally, size in zip(self.tallies, sizes, strict=True))

    def _chance(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = self._sampler()
        return self._rng

    def draw(self, factors: Factored) -> IntArray:
        return np.flatnonzero(self._chance().random(len(factors[0][0])) < self.share)


def _longer(tally: IntArray, size: int) -> IntArray:
    return np.pad(tally, (0, max(size - len(tally), 0)))


@dataclass(frozen=True, slots=True, eq=False)
class LocatedBatch:
    """A batch of the source with the cell of each of its rows."""

    batch: pa.RecordBatch
    cells: IntArray  # (n_rows,)


def factor_batch(batch: pa.RecordBatch) -> Factored:
    return [factor_column(column) for column in batch.columns]


def look_up(dictionaries: Sequence[GrowingDictionary], factors: Factored, names: Sequence[str]) -> list[KeyArray]:
    """Return the codes of each column's values; a new value is an error."""
    return [
        dictionary.lookup(values, name)
        for dictionary, (_, values), name in zip(dictionaries, factors, names, strict=True)
    ]


def pack_keys(factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout) -> KeyArray:
    """Return (n_words, n_rows) the keys of rows."""
    keys = np.zeros((layout.n_words, len(factors[0][0])), dtype=np.uint64)
    for column, ((indices, _), table) in enumerate(zip(factors, tables, strict=True)):
        kernels.add_codes(keys[layout.word[column]], indices, table << np.uint64(layout.shift[column]))
    return keys


class Sorting:
    """Threads that reduce batches to cells, and the merged cells of earlier batches."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Run], int]] = deque()
        self._stack = RunStack()

    @property
    def n_bound(self) -> int:
        """An upper bound on the number of cells of all batches."""
        return self._stack.n_held + sum(n_rows for _, n_rows in self._waiting)

    def add(self, factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout, keep: int) -> None:
        """Submit a batch; at most *keep* are in progress when this returns."""
        run = self._pool.submit(lambda: Run.of_rows(pack_keys(factors, tables, layout)))
        self._waiting.append((run, len(factors[0][0])))
        self._drain(keep)

    def finish(self) -> RunStack:
        self._drain(0)
        return self._stack

    def _drain(self, keep: int) -> None:
        while len(self._waiting) > keep:
            self._stack.push(self._waiting.popleft()[0].result())


def some_rows(factors: Factored, rows: IntArray) -> Factored:
    return [(indices[rows], values) for indices, values in factors]


def tally_values(factors: Factored) -> list[IntArray]:
    """Return (n_values + 1,) for each column the rows of each value, then the rows without a value."""
    return [
        np.roll(np.bincount(indices + np.int32(1), minlength=len(values) + 1), -1).astype(np.int64)
        for indices, values in factors
    ]

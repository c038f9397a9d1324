"""The local engine: Arrow record batches, packed keys, a thread for each core.

Reading, factoring and sorting overlap: while one batch is being read, earlier ones are factored and sorted in
other threads. Dictionaries grow in the order of batches, whatever thread comes first, so the same source gives
the same cells in the same order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.cells import KeyLayout, Run, RunStack
from shoal.engines.dictionaries import GrowingDictionary, factored
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.sources import Source

T = TypeVar("T")
R = TypeVar("R")
Factored = list[tuple[CodeArray, pa.Array]]


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells:
    """What one pass over a source found: dictionaries, and the cells in terms of their codes.

    Cells ascend by their last column first, so that those which share the last columns are neighbours.
    """

    columns: tuple[str, ...]
    dictionaries: tuple[GrowingDictionary, ...]
    layout: KeyLayout
    run: Run
    n_rows: int

    def codes(self, column: int) -> AnyIntArray:
        """Return (n_cells,) the dictionary codes of one column; 0 is missing."""
        return self.run.column(self.layout, column)

    def used(self, column: int) -> BoolArray:
        """Return (n_codes,) which codes of a column occur."""
        return kernels.used_codes(*self._packed(column), self.dictionaries[column].size)

    def in_use(self, column: int) -> tuple[pa.Array, BoolArray]:
        """Return the values of a column that occur, in the order of their codes, and which codes these are."""
        used = self.used(column)
        return self.dictionaries[column].values.filter(pa.array(used[1:])), used

    def translated(self, column: int, table: AnyIntArray) -> AnyIntArray:
        """Return (n_cells,) the entry of *table* for each cell's code in one column."""
        out = np.empty(len(self.run.counts), dtype=table.dtype)
        kernels.translated(*self._packed(column), table, out)
        return out

    def _packed(self, column: int) -> tuple[KeyArray, int, int]:
        return self.run.keys[self.layout.word[column]], self.layout.shift[column], (1 << self.layout.bits[column]) - 1

    def class_sizes(self, columns: Sequence[str]) -> IntArray:
        """Return the records of each distinct combination of *columns*, which must be the last ones counted."""
        if set(columns) != set(self.columns[-len(columns) :]):
            raise ValueError("only the last columns counted are in order")
        first = len(self.columns) - len(columns)
        new = np.zeros(len(self.run.counts), dtype=np.bool_)
        new[0] = True
        for word in range(self.layout.word[first], self.layout.n_words):
            shift = self.layout.shift[first] if word == self.layout.word[first] else 0
            high = self.run.keys[word] >> np.uint64(shift)
            new[1:] |= high[1:] != high[:-1]
        return np.add.reduceat(self.run.counts, np.flatnonzero(new))


@dataclass(frozen=True, slots=True, eq=False)
class LocatedBatch:
    """A batch of the source with the cell of each of its rows."""

    batch: pa.RecordBatch
    cells: IntArray  # (n_rows,)


class LocalEngine:
    """Counts and locates rows of one machine's files and tables."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or min(os.cpu_count() or 1, 8)

    def count(self, source: Source, columns: Sequence[str], progress: Progress) -> CountedCells:
        """Reduce the source to the distinct combinations of *columns*."""
        dictionaries = tuple(GrowingDictionary() for _ in columns)
        stack, layout, n_rows = RunStack(), KeyLayout.of_bits([1] * len(columns)), 0
        with ThreadPoolExecutor(self._threads) as pool, progress.step("counting", source.n_rows) as step:
            sorting: deque[Future[Run]] = deque()
            batches = source.batches(columns, dictionary=columns)
            for factors in _ahead(pool, batches, _factor, self._threads + 1):
                tables = [
                    dictionary.codes(values) for dictionary, (_, values) in zip(dictionaries, factors, strict=True)
                ]
                sizes = [dictionary.size for dictionary in dictionaries]
                if not layout.holds(sizes):
                    _drain(sorting, stack, keep=0)
                    wider = KeyLayout.roomy(sizes)
                    if n_rows:
                        stack.relay(layout, wider)
                    layout = wider
                sorting.append(pool.submit(_sorted_run, factors, tables, layout))
                _drain(sorting, stack, keep=self._threads)
                n_rows += len(factors[0][0])
                step.advance(len(factors[0][0]))
            _drain(sorting, stack, keep=0)
        if not n_rows:
            raise InputError(f"{source.name} has no rows")
        return CountedCells(tuple(columns), dictionaries, layout, stack.total(), n_rows)

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Read the source again; yield its batches, in their order, with the cell of every row."""
        wanted = list(dict.fromkeys([*counted.columns, *carried]))

        def locate_batch(batch: pa.RecordBatch) -> LocatedBatch:
            factors = [factored(batch.column(name)) for name in counted.columns]
            tables = [
                dictionary.lookup(values, name)
                for dictionary, (_, values), name in zip(counted.dictionaries, factors, counted.columns, strict=True)
            ]
            cells = counted.run.find(_packed(factors, tables, counted.layout))
            if len(cells) and cells.min() < 0:
                raise InputError(f"{source.name} changed while it was being read; nothing was published")
            return LocatedBatch(batch.select(list(carried)), cells)

        with ThreadPoolExecutor(self._threads) as pool, progress.step("rewriting", counted.n_rows) as step:
            batches = source.batches(wanted, dictionary=counted.columns)
            for located in _ahead(pool, batches, locate_batch, self._threads):
                yield located
                step.advance(len(located.cells))


def _factor(batch: pa.RecordBatch) -> Factored:
    return [factored(column) for column in batch.columns]


def _packed(factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout) -> KeyArray:
    keys = np.zeros((layout.n_words, len(factors[0][0])), dtype=np.uint64)
    for column, ((indices, _), table) in enumerate(zip(factors, tables, strict=True)):
        kernels.add_codes(keys[layout.word[column]], indices, table << np.uint64(layout.shift[column]))
    return keys


def _sorted_run(factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout) -> Run:
    return Run.of_rows(_packed(factors, tables, layout))


def _drain(waiting: deque[Future[Run]], stack: RunStack, keep: int) -> None:
    while len(waiting) > keep:
        stack.push(waiting.popleft().result())


def _ahead(pool: ThreadPoolExecutor, items: Iterable[T], work: Callable[[T], R], depth: int) -> Iterator[R]:
    """Yield ``work(item)`` in order while up to *depth* later ones are under way."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > depth:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()

"""What the passes of the local engine share: factored batches, packed keys, work that runs ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.dictionaries import GrowingDictionary, factored
from shoal.plan.cells import KeyLayout, Run, RunStack

T = TypeVar("T")
R = TypeVar("R")
Factored = list[tuple[CodeArray, pa.Array]]


def factor(batch: pa.RecordBatch) -> Factored:
    """Return the indices and the values of every column."""
    return [factored(column) for column in batch.columns]


def looked_up(dictionaries: Sequence[GrowingDictionary], factors: Factored, names: Sequence[str]) -> list[KeyArray]:
    """Return the codes of each column's values; a value that was not there before is an error."""
    return [
        dictionary.lookup(values, name)
        for dictionary, (_, values), name in zip(dictionaries, factors, names, strict=True)
    ]


def packed(factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout) -> KeyArray:
    """Return (n_words, n_rows) the keys of rows."""
    keys = np.zeros((layout.n_words, len(factors[0][0])), dtype=np.uint64)
    for column, ((indices, _), table) in enumerate(zip(factors, tables, strict=True)):
        kernels.add_codes(keys[layout.word[column]], indices, table << np.uint64(layout.shift[column]))
    return keys


class Sorting:
    """Batches that become cells in other threads, and the cells of those before them."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Run], int]] = deque()
        self._stack = RunStack()

    @property
    def n_bound(self) -> int:
        """A number that the cells of all batches do not exceed."""
        return self._stack.n_held + sum(n_rows for _, n_rows in self._waiting)

    def add(self, factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout, keep: int) -> None:
        """Take a batch; at most *keep* are under way when this returns."""
        run = self._pool.submit(_sorted_run, factors, tables, layout)
        self._waiting.append((run, len(factors[0][0])))
        self._drain(keep)

    def finished(self) -> RunStack:
        """Wait for all batches, and return their cells."""
        self._drain(0)
        return self._stack

    def _drain(self, keep: int) -> None:
        while len(self._waiting) > keep:
            self._stack.push(self._waiting.popleft()[0].result())


def _sorted_run(factors: Factored, tables: Sequence[KeyArray], layout: KeyLayout) -> Run:
    return Run.of_rows(packed(factors, tables, layout))


def some_rows(factors: Factored, rows: IntArray) -> Factored:
    """Return the same of some rows."""
    return [(indices[rows], values) for indices, values in factors]


def tallied(factors: Factored) -> list[IntArray]:
    """Return for each column (n_values + 1,) the rows of each value, and last those without one."""
    return [
        np.roll(np.bincount(indices + np.int32(1), minlength=len(values) + 1), -1).astype(np.int64)
        for indices, values in factors
    ]


def ahead(pool: ThreadPoolExecutor, items: Iterable[T], work: Callable[[T], R], depth: int) -> Iterator[R]:
    """Yield ``work(item)`` in order while up to *depth* later ones are under way."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > depth:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()

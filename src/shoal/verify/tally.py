"""Counting keys and numbering combinations while rows stream by; memory is bounded by the distinct ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray, KeyArray
from shoal.verify.exact import Histograms

HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
Number = TypeVar("Number", bound=np.generic)


def number_rows(columns: NDArray[Number]) -> tuple[NDArray[Number], IntArray]:
    """Return the distinct tuples of (n_columns, n) numbers as they come, and (n,) the number of each tuple.

    >>> distinct, numbers = number_rows(np.array([[7, 3, 7], [1, 1, 1]]))
    >>> distinct.tolist(), numbers.tolist()
    ([[7, 3], [1, 1]], [0, 1, 0])
    """
    numbers: IntArray = np.zeros(columns.shape[1], dtype=np.int64)
    for place, column in enumerate(columns):
        codes = _encode(column)
        numbers = _encode(numbers << 32 | codes) if place else codes
    first = np.empty(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return columns[:, first], numbers


def _encode(column: NDArray[np.generic]) -> IntArray:
    return np.asarray(pa.array(column).dictionary_encode().indices).astype(np.int64)


def pair(owner: NDArray[Any], value: NDArray[Any]) -> KeyArray:
    """Return (n,) owner << 32 | value."""
    return np.asarray(owner.astype(np.uint64) << HALF | value.astype(np.uint64), dtype=np.uint64)


def sum_up(keys: KeyArray, counts: IntArray) -> tuple[KeyArray, IntArray]:
    """Return the distinct keys, ascending, and the sums of their counts.

    >>> [part.tolist() for part in sum_up(np.array([7, 3, 7], dtype=np.uint64), np.array([1, 2, 3]))]
    [[3, 7], [2, 4]]
    """
    order = np.argsort(keys, kind="stable")  # it only merges where keys are two ascending runs
    keys = keys[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return keys[first], np.add.reduceat(counts[order], first) if len(first) else counts


class Tally:
    """How often each 64-bit key was added.

    >>> tally = Tally()
    >>> tally.add(np.array([7, 3, 7], dtype=np.uint64))
    >>> [part.tolist() for part in tally.result()]
    [[3, 7], [1, 2]]
    """

    def __init__(self) -> None:
        self._keys: KeyArray = np.empty(0, dtype=np.uint64)
        self._counts: IntArray = np.empty(0, dtype=np.int64)

    def add(self, keys: KeyArray) -> None:
        """Count these keys."""
        more, counts = np.unique(keys, return_counts=True)
        self._keys, self._counts = sum_up(np.append(self._keys, more), np.append(self._counts, counts))

    def result(self) -> tuple[KeyArray, IntArray]:
        """Return the distinct keys in ascending order and their counts."""
        return self._keys, self._counts


class Combinations:
    """Numbers 0, 1, 2, ... for distinct tuples of numbers, in order of first appearance.

    >>> combinations = Combinations([2, 3])
    >>> combinations.ids([np.array([1, 0, 1]), np.array([2, 2, 2])]).tolist()
    [0, 1, 0]
    >>> combinations.tuples().tolist()
    [[1, 2], [0, 2]]
    """

    def __init__(self, radices: Sequence[int]) -> None:
        self._known: IntArray = np.zeros((len(radices), 0), dtype=np.int64)

    @property
    def count(self) -> int:
        """How many distinct tuples were seen."""
        return int(self._known.shape[1])

    def ids(self, columns: Sequence[AnyIntArray], n_rows: int | None = None) -> CodeArray:
        """Return the number of each row's tuple."""
        n_known = self.count
        wide = (len(columns[0]) if n_rows is None else n_rows) + n_known
        every = np.empty((len(columns), wide), dtype=np.int64)
        every[:, :n_known] = self._known
        for place, column in enumerate(columns):
            every[place, n_known:] = column
        self._known, numbers = number_rows(every)
        return numbers[n_known:].astype(np.int32)

    def tuples(self) -> CodeArray:
        """Return (count, n_columns) the codes of each number."""
        return self._known.T.astype(np.int32)


class Interner(Combinations):
    """Numbers 0, 1, 2, ... for 64-bit keys, in order of first appearance.

    >>> interner = Interner()
    >>> interner.ids(np.array([9, 4, 9], dtype=np.uint64)).tolist(), interner.keys().tolist()
    ([0, 1, 0], [9, 4])
    """

    def __init__(self) -> None:
        super().__init__([0])

    def ids(self, keys: KeyArray) -> CodeArray:  # type: ignore[override]
        """Return the number of each key, giving new ones to keys not seen before."""
        return super().ids([keys.view(np.int64)])

    def keys(self) -> KeyArray:
        """Return (count,) the key of each number."""
        return np.asarray(self._known[0].view(np.uint64), dtype=np.uint64)


def histograms_of(tally: Tally, sizes: IntArray, values: tuple[str | None, ...], n_values: int) -> Histograms:
    """Return the sparse histograms of keys class << 32 | value; *values* are what the codes stand for."""
    keys, counts = tally.result()
    start = np.searchsorted(keys, np.arange(len(sizes) + 1, dtype=np.uint64) << HALF).astype(np.int64)
    return Histograms(sizes, start, (keys & LOW).astype(np.int64), counts, values, n_values)

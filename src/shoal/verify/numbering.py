"""Numbers for labels, values and combinations of them, and how often each occurs, while rows stream by.

Memory is bounded by the distinct ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.kernels import number_keys
from shoal.manifest import Attribute
from shoal.verify.contents import MISSING, Contents
from shoal.verify.exact import Histograms
from shoal.verify.reading import encode

_VALUE = "value"
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
Number = TypeVar("Number", bound=np.generic)


def number_rows(columns: NDArray[Number]) -> tuple[NDArray[Number], CodeArray]:
    """Return the distinct tuples of (n_columns, n) numbers as they come, and (n,) the number of each tuple.

    >>> distinct, numbers = number_rows(np.array([[7, 3, 7], [1, 1, 1]]))
    >>> distinct.tolist(), numbers.tolist()
    ([[7, 3], [1, 1]], [0, 1, 0])
    """
    keys = columns[0].astype(np.uint64)
    for column in columns[1:].astype(np.uint64):
        keys = pair(_narrow(keys), _narrow(column))
    first, numbers = number_keys(keys)
    return columns[:, first], numbers


def _narrow(keys: KeyArray) -> NDArray[Any]:
    """Return numbers of 32 bits, equal ones for equal keys only."""
    return keys if keys.max(initial=0) <= LOW else number_keys(keys)[1]


def pair(owner: NDArray[Any], value: NDArray[Any]) -> KeyArray:
    """Return (n,) owner << 32 | value."""
    keys: KeyArray = owner.astype(np.uint64)
    keys <<= HALF
    np.bitwise_or(keys, value, out=keys, dtype=np.uint64, casting="unsafe")
    return keys


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
        more, counts = np.unique(keys, return_counts=True)
        self.add_counts(more, counts)

    def add_counts(self, keys: KeyArray, counts: IntArray) -> None:
        """Count these keys as often as each is said to occur."""
        self._keys, self._counts = sum_up(np.append(self._keys, keys), np.append(self._counts, counts))

    def result(self) -> tuple[KeyArray, IntArray]:
        """Return the distinct keys in ascending order and their counts."""
        return self._keys, self._counts


class Numbering:
    """Numbers 0, 1, 2, ... for distinct tuples of numbers, in order of first appearance.

    >>> numbering = Numbering(2)
    >>> numbering.ids([np.array([1, 0, 1]), np.array([2, 2, 2])]).tolist()
    [0, 1, 0]
    >>> numbering.tuples().tolist()
    [[1, 2], [0, 2]]
    """

    def __init__(self, n_columns: int) -> None:
        self._known: IntArray = np.zeros((n_columns, 0), dtype=np.int64)

    @property
    def count(self) -> int:
        """How many distinct tuples were seen."""
        return int(self._known.shape[1])

    def ids(self, columns: Sequence[NDArray[Any]]) -> CodeArray:
        """Return the number of each row's tuple; keys of 64 bits may be among the columns."""
        n_known = self.count
        every = np.empty((len(columns), n_known + len(columns[0])), dtype=np.int64)
        every[:, :n_known] = self._known
        for place, column in enumerate(columns):
            every[place, n_known:] = column.astype(np.int64)
        self._known, numbers = number_rows(every)
        return numbers[n_known:]

    def tuples(self) -> CodeArray:
        """Return (count, n_columns) the codes of each number."""
        return self._known.T.astype(np.int32)


def histograms_of(tally: Tally, sizes: IntArray, values: tuple[str | None, ...], n_values: int) -> Histograms:
    """Return the sparse histograms of keys class << 32 | value; *values* are what the codes stand for."""
    keys, counts = tally.result()
    start = np.searchsorted(keys, np.arange(len(sizes) + 1, dtype=np.uint64) << HALF).astype(np.int64)
    return Histograms(sizes, start, (keys & LOW).astype(np.int64), counts, values, n_values)


class LabelReader:
    """Numbers labels as ``read_covers`` does; after them come missing values, where legal, and unknown texts."""

    def __init__(self, attribute: Attribute) -> None:
        labels = list(attribute.labels or {})
        self.name = attribute.name
        self._labels = pa.array(labels, type=pa.string())
        self.radix = len(labels) + attribute.may_keep_missing + 1

    def read(self, column: pa.Array) -> CodeArray:
        """Return (n_rows,) label numbers; several threads may read at a time."""
        values, places = encode(column)
        known = pc.index_in(values.cast(pa.string()), value_set=self._labels).fill_null(self.radix - 1)
        return np.append(np.asarray(known), len(self._labels)).astype(np.int32).take(places)

    def count(self, numbers: CodeArray) -> IntArray:
        """Return (radix,) how many rows have each number."""
        return np.bincount(numbers, minlength=self.radix)


class ValueReader:
    """Numbers the values of a sensitive attribute in the order in which they are met.

    Values that are equal in the type *kind* or in their normal form are one, however they are spelled, and so are all
    that mean missing: else a release could make one value look like several.

    >>> reader = ValueReader(pa.float64(), ["?"])
    >>> reader.read(*encode(pa.array(["1", "1.0", None, "?", "2", "a", "A "]))).tolist(), reader.texts
    ([0, 0, 1, 1, 2, 3, 3], ['1', None, '2', 'a'])
    """

    def __init__(self, kind: pa.DataType, missing: Sequence[str]) -> None:
        self._contents = Contents([_VALUE], [kind], missing, fold=True)
        self._codes: dict[int, int] = {}  # word of a value -> its number
        self.texts: list[str | None] = []  # how each number's value is spelled where it is first met

    @property
    def count(self) -> int:
        """How many different values were met."""
        return len(self.texts)

    def read(self, values: pa.Array, places: CodeArray) -> CodeArray:
        """Return (n_rows,) numbers of the rows' values, given as ``encode`` does."""
        spelled = values.cast(pa.string()).to_pylist()
        words = self._contents.words(_VALUE, values)
        numbers = np.zeros(len(values) + 1, dtype=np.int32)
        for place in np.flatnonzero(np.bincount(places)).tolist():
            word = int(words[place])
            numbers[place] = self._codes.setdefault(word, len(self._codes))
            if self.count < len(self._codes):
                self.texts.append(None if word == MISSING else spelled[place])
        return numbers.take(places)

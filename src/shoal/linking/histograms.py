"""How often each sensitive value occurs in each of many boxes, as sparse rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import AnyIntArray, IntArray
from shoal.core.kernels import compiled


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Row b has the values ``value[start[b]:start[b + 1]]``, each once, in any order, with their counts."""

    start: IntArray  # (n_rows + 1,)
    value: IntArray  # (n_entries,)
    count: IntArray  # (n_entries,)

    @classmethod
    def of(cls, row: AnyIntArray, value: AnyIntArray, count: AnyIntArray, n_rows: int, n_values: int) -> Histograms:
        """Add up entries, of which several may be of the same row and value."""
        entries = cls(np.arange(len(value) + 1), value.astype(np.int64), count.astype(np.int64))
        return entries.merged(np.arange(len(value)), row, n_rows, n_values)

    def merged(self, rows: AnyIntArray, into: AnyIntArray, n_rows: int, n_values: int) -> Histograms:
        """Return new rows, each the sum of those of these *rows* that go *into* it."""
        target = into.astype(np.int64)
        first = np.append(0, np.cumsum(np.bincount(target, minlength=n_rows)))
        order = np.arange(len(target)) if bool((target[1:] >= target[:-1]).all()) else np.argsort(target, kind="stable")
        given = (self.start, self.value, self.count, rows.astype(np.int64)[order], first, n_values)
        none = np.empty(0, dtype=np.int64)
        start = np.append(0, np.cumsum(merge(*given, none, none, none)))
        value, count = np.empty(start[-1], dtype=np.int64), np.empty(start[-1], dtype=np.int64)
        merge(*given, start, value, count)
        return Histograms(start, value, count)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def distinct(self) -> IntArray:
        """(n_rows,) how many values each row has."""
        return np.diff(self.start)

    def renumbered(self, number: AnyIntArray) -> Histograms:
        """Return the same rows with other numbers for their values; no two values may get the same one."""
        return Histograms(self.start, number.astype(np.int64)[self.value], self.count)


@compiled
def merge(
    start: IntArray,
    value: IntArray,
    count: IntArray,
    rows: IntArray,
    first: IntArray,
    n_values: int,
    start_there: IntArray,
    value_there: IntArray,
    count_there: IntArray,
) -> IntArray:
    """Return how many values each new row has; if there is room, write its values and their counts.

    New row b is the sum of ``rows[first[b]:first[b + 1]]``.
    """
    write = len(start_there) > 0
    n_rows = len(first) - 1
    distinct = np.zeros(n_rows, dtype=np.int64)
    sums = np.zeros(n_values, dtype=np.int64)
    seen_in = np.full(n_values, -1, dtype=np.int64)
    listed = np.empty(n_values, dtype=np.int64)
    for b in range(n_rows):
        n_listed = 0
        for place in range(first[b], first[b + 1]):
            for entry in range(start[rows[place]], start[rows[place] + 1]):
                one = value[entry]
                if seen_in[one] != b:
                    seen_in[one] = b
                    sums[one] = 0
                    listed[n_listed] = one
                    n_listed += 1
                sums[one] += count[entry]
        distinct[b] = n_listed
        for place in range(n_listed if write else 0):
            at = start_there[b] + place
            value_there[at], count_there[at] = listed[place], sums[listed[place]]
    return distinct


def gathered(start: IntArray, rows: AnyIntArray) -> tuple[IntArray, IntArray]:
    """Return, entry by entry of the given rows, the place in *rows* and the place of the entry.

    >>> gathered(np.array([0, 2, 3]), np.array([1, 0]))
    (array([0, 1, 1]), array([2, 0, 1]))
    """
    length = np.diff(start)[rows]
    place = np.repeat(np.arange(len(rows)), length)
    ends = np.cumsum(length)
    within = np.arange(len(place)) - np.repeat(ends - length, length)
    return place, start[rows][place] + within

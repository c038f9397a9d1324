"""How often each sensitive value occurs in each of many boxes, as sparse rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.arrays import AnyIntArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Row b has the values ``value[start[b]:start[b + 1]]``, ascending, with their counts."""

    start: IntArray  # (n_rows + 1,)
    value: IntArray  # (n_entries,)
    count: IntArray  # (n_entries,)

    @classmethod
    def of(cls, row: AnyIntArray, value: AnyIntArray, count: AnyIntArray, n_rows: int, n_values: int) -> Histograms:
        """Add up entries, of which several may be of the same row and value."""
        keys, which = np.unique(row.astype(np.int64) * max(n_values, 1) + value, return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, which.reshape(-1), count)
        rows, values = np.divmod(keys, max(n_values, 1))
        return cls(np.searchsorted(rows, np.arange(n_rows + 1)).astype(np.int64), values, counts)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def distinct(self) -> IntArray:
        """(n_rows,) how many values each row has."""
        return np.diff(self.start)

    def taken(self, rows: AnyIntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the entries of these rows: the place in *rows* of each, its value and its count."""
        place, entry = gathered(self.start, rows)
        return place, self.value[entry], self.count[entry]

    def renumbered(self, number: AnyIntArray) -> Histograms:
        """Return the same rows with other numbers for their values; no two values may get the same one."""
        row = np.repeat(np.arange(self.n_rows), self.distinct)
        n_values = int(number.max(initial=0)) + 1
        return Histograms.of(row, number[self.value], self.count, self.n_rows, n_values)


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

"""Inverted lists: for every value of every part the buckets that hold it, ascending, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.kernels import inlined, kernel, paired

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ROOM = 1 << 24  # entries that are spread out
_SEARCHED = 4  # a list so short is searched as fast


class Postings(NamedTuple):
    """The lists of several parts, one after the other; value v of list i is number ``first[i] + v``."""

    first: IntArray  # (n_lists + 1,)
    start: IntArray  # (n_values + 1,) of all lists together
    bucket: CodeArray  # (n_entries,)
    times: IntArray  # (n_entries,)
    dense: IntArray  # (n_values,) where the row of a value begins in ``entry``; -1: its list is to be searched
    entry: CodeArray  # rows of n_buckets: the entry of a value in each bucket, or -1

    @classmethod
    def of(cls, counted: Sequence[tuple[KeyArray, IntArray]], n_values: Sequence[int]) -> Postings:
        """Build from the counts of keys value << 32 | bucket of each list; keys ascend.

        >>> keys = np.array([0 << 32 | 1, 1 << 32 | 0, 1 << 32 | 1], dtype=np.uint64)
        >>> lists = Postings.of([(keys, np.array([3, 2, 1]))], [2])
        >>> lists.start.tolist(), lists.bucket.tolist()
        ([0, 1, 3], [1, 0, 1])
        """
        first = np.cumsum([0, *n_values], dtype=np.int64)
        numbers = [
            (keys >> _SHIFT).astype(np.int64) + offset for (keys, _), offset in zip(counted, first[:-1], strict=True)
        ]
        values = np.concatenate(numbers)
        start = np.searchsorted(values, np.arange(first[-1] + 1)).astype(np.int64)
        buckets = np.concatenate([(keys & _LOW).astype(np.int32) for keys, _ in counted])
        dense, entry = _spread(start, values, buckets)
        return cls(first, start, buckets, np.concatenate([counts for _, counts in counted]), dense, entry)

    def totals(self, number: int) -> IntArray:
        """Return (n_values,) how often each value of a list occurs in the table."""
        sums = np.append(0, np.cumsum(self.times))[self.start]
        return np.diff(sums[self.first[number] : self.first[number + 1] + 1])

    def keys_of(self, number: int) -> KeyArray:
        """Return the keys value << 32 | bucket of one list's entries, ascending."""
        low, high = self.start[self.first[number]], self.start[self.first[number + 1]]
        value = np.repeat(np.arange(self.first[-1]), np.diff(self.start))[low:high] - self.first[number]
        return paired(value.astype(np.int32), self.bucket[low:high])

    def begin(self, number: int) -> int:
        """Return where the entries of a list begin."""
        return int(self.start[self.first[number]])


def _spread(start: IntArray, values: IntArray, buckets: CodeArray) -> tuple[IntArray, CodeArray]:
    """Return rows that tell the entries of values in many buckets at once, as far as there is room for them."""
    n_buckets = int(buckets.max(initial=-1)) + 1
    lengths = np.diff(start)
    often = np.argsort(-lengths, kind="stable")[: _ROOM // max(1, n_buckets)]
    often = often[lengths[often] > _SEARCHED]
    dense = np.full(len(lengths), -1, dtype=np.int64)
    dense[often] = np.arange(len(often)) * n_buckets
    entry = np.full(len(often) * n_buckets, -1, dtype=np.int32)
    listed = np.flatnonzero(dense[values] >= 0)
    entry[dense[values[listed]] + buckets[listed]] = listed
    return dense, entry


@inlined
def entry_of(start: IntArray, buckets: CodeArray, dense: IntArray, entry: CodeArray, value: int, bucket: int) -> int:
    """Return where the list of a value has this bucket, or -1.

    The fields of Postings come one by one: kernels are slow to take them from a tuple again and again.
    """
    row = dense[value]
    if row >= 0:
        found = int(entry[row + bucket])
    else:
        low, high = start[value], start[value + 1]
        while low < high:
            middle = (low + high) // 2
            if buckets[middle] < bucket:
                low = middle + 1
            else:
                high = middle
        found = -1
        if low < start[value + 1] and buckets[low] == bucket:
            found = int(low)
    return found


@inlined
def shortest_of(start: IntArray, values: CodeArray, row: int, n_parts: int) -> int:
    """Return the part whose value is in the fewest buckets, or -1 if a value is in none."""
    best, fewest = -1, np.int64(2**62)
    for part in range(n_parts):
        value = values[row, part]
        if value < 0:
            best = -1
            break
        length = start[value + 1] - start[value]
        if length < fewest:
            best, fewest = part, length
    return best


def numbered(lists: Postings, values: CodeArray) -> CodeArray:
    """Return (n, n_parts) numbers of values in the lists; values that a part does not have become -1."""
    out = np.empty(values.shape, dtype=np.int32)
    for part in range(values.shape[1]):
        column = values[:, part]
        known = (column >= 0) & (column < lists.first[part + 1] - lists.first[part])
        out[:, part] = np.where(known, column + lists.first[part], -1)
    return out


@kernel
def matched(lists: Postings, values: CodeArray) -> BoolArray:
    """Return (n,) whether some bucket is in the lists of all values of a row of (n, n_parts) numbers."""
    start, buckets, dense, entry = lists.start, lists.bucket, lists.dense, lists.entry
    n, n_parts = values.shape
    out = np.zeros(n, dtype=np.bool_)
    for row in range(n):
        shortest = shortest_of(start, values, row, n_parts)
        if shortest < 0:
            continue
        value = values[row, shortest]
        for e in range(start[value], start[value + 1]):
            inside = True
            for part in range(n_parts):
                if part != shortest and entry_of(start, buckets, dense, entry, values[row, part], buckets[e]) < 0:
                    inside = False
                    break
            if inside:
                out[row] = True
                break
    return out


@kernel
def count_bounds(
    lists: Postings, values: CodeArray, records: IntArray, forced: IntArray, available: IntArray
) -> tuple[int, int]:
    """Add to every entry the records that may be in it, and those that can be nowhere else.

    (n, n_parts) *values* are the contents of kinds of source rows, *records* how many rows there are of each. Returns
    how many rows no bucket can hold, and how many only one can.
    """
    start, buckets, dense, entry = lists.start, lists.bucket, lists.dense, lists.entry
    n, n_parts = values.shape
    entries = np.empty(n_parts, dtype=np.int64)
    only = np.empty(n_parts, dtype=np.int64)
    lost = settled = 0
    for row in range(n):
        shortest = shortest_of(start, values, row, n_parts)
        matches = 0
        if shortest >= 0:
            value = values[row, shortest]
            for e in range(start[value], start[value + 1]):
                bucket = buckets[e]
                inside = True
                for part in range(n_parts):
                    entries[part] = (
                        e if part == shortest else entry_of(start, buckets, dense, entry, values[row, part], bucket)
                    )
                    if entries[part] < 0:
                        inside = False
                        break
                if inside:
                    matches += 1
                    for part in range(n_parts):
                        available[entries[part]] += records[row]
                        only[part] = entries[part]
        if matches == 0:
            lost += records[row]
        elif matches == 1:
            settled += records[row]
            for part in range(n_parts):
                forced[only[part]] += records[row]
    return lost, settled

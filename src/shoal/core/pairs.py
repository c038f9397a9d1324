"""Pairs of codes counted, and found again: where the values of one kind stand among those of another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.compiled import compiled, inlined


class Pairs(NamedTuple):
    """Distinct pairs by their first code, then their second: those of first code v are ``start[v]:start[v + 1]``."""

    start: IntArray  # (n_first + 1,)
    second: CodeArray  # (n_pairs,)
    records: IntArray  # (n_pairs,)
    pair_of: IntArray  # (n_items,)


def counted_pairs(first: CodeArray, n_first: int, second: CodeArray, n_second: int, records: IntArray) -> Pairs:
    """Count the records of items by two codes; two counting sorts, so that time is linear in items and codes.

    >>> codes = np.array([0, 1, 0, 0], dtype=np.int32)
    >>> pairs = counted_pairs(codes, 2, np.array([0, 0, 1, 1], dtype=np.int32), 2, np.array([1, 2, 3, 4]))
    >>> pairs.start.tolist(), pairs.second.tolist(), pairs.records.tolist()
    ([0, 2, 3], [0, 1, 0], [1, 7, 2])
    """
    _, by_second = kernels.grouped(second, n_second)
    _, order = kernels.grouped(first[by_second], n_first)
    return Pairs(*_counted(by_second[order], first, n_first, second, records))


@compiled
def _counted(
    order: IntArray, first: CodeArray, n_first: int, second: CodeArray, records: IntArray
) -> tuple[IntArray, CodeArray, IntArray, IntArray]:
    n = len(order)
    start = np.zeros(n_first + 1, dtype=np.int64)
    codes = np.empty(n, dtype=np.int32)
    totals = np.zeros(n, dtype=np.int64)
    pair_of = np.empty(n, dtype=np.int64)
    pair = -1
    for position in range(n):
        item = order[position]
        before = order[position - 1]
        if position == 0 or first[item] != first[before] or second[item] != second[before]:
            pair += 1
            codes[pair] = second[item]
            start[first[item] + 1] += 1
        totals[pair] += records[item]
        pair_of[item] = pair
    for code in range(n_first):
        start[code + 1] += start[code]
    return start, codes[: pair + 1].copy(), totals[: pair + 1].copy(), pair_of


@inlined
def place_of(ascending: CodeArray, low: int, high: int, wanted: int) -> int:
    """Return where *wanted* is among ``ascending[low:high]``, or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and ascending[low] == wanted else -1

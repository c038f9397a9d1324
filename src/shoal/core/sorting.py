"""Sorting within compiled kernels, and keys that sort as several columns do.

Kernels do not call NumPy's sorts: Numba makes each of them from a function of the same name, tells them apart only by a
number that depends on what was compiled before, and takes one for another when several come from its cache on disk. The
process then crashes. One kernel of the whole package may still sort so: the verifier's, which shares no code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.core.compiled import compiled

_LARGEST_KEY = 2**62
_SHORT = 16  # runs that are sorted by insertion


@compiled
def places_ascending(keys: AnyIntArray | FloatArray) -> IntArray:
    """Return (n,) the places of numbers in ascending order, equal ones as they come."""
    n = len(keys)
    values, places = keys.copy(), np.arange(n)
    for begin in range(0, n, _SHORT):
        for at in range(begin + 1, min(begin + _SHORT, n)):
            value, place = values[at], places[at]
            to = at
            while to > begin and values[to - 1] > value:
                values[to], places[to] = values[to - 1], places[to - 1]
                to -= 1
            values[to], places[to] = value, place
    spare_values, spare_places = np.empty_like(values), np.empty_like(places)
    length = _SHORT
    while length < n:
        for begin in range(0, n, 2 * length):
            middle, end = min(begin + length, n), min(begin + 2 * length, n)
            left, right = begin, middle
            for to in range(begin, end):
                if left < middle and (right == end or values[left] <= values[right]):
                    spare_values[to], spare_places[to] = values[left], places[left]
                    left += 1
                else:
                    spare_values[to], spare_places[to] = values[right], places[right]
                    right += 1
        values, spare_values = spare_values, values
        places, spare_places = spare_places, places
        length *= 2
    return places


def pack(columns: Sequence[AnyIntArray], sizes: Sequence[int]) -> IntArray:
    """Return (n_rows,) one number per row that sorts as the columns do, the first column before the others."""
    key, size_so_far = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if size_so_far * size > _LARGEST_KEY:
            distinct, places = np.unique(key, return_inverse=True)
            key, size_so_far = places.astype(np.int64), len(distinct)
        key *= size
        key += column
        size_so_far *= size
    return key

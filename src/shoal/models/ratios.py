"""How much more, or less, frequent values are in a class than in the whole table.

With c of n records in a class and C of N in the whole table, the shares compare as c N to C n.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import FloatArray, IntArray
from shoal.models.exact import integers, peak, quotient, row_blocks

RATIO_ERROR = 2.0**-49  # relative: more than the few roundings of 2**-53 between a ratio and its true value


class Products(NamedTuple):
    """c N and C n: the share in the class is to that in the table as *inside* to *outside*."""

    inside: NDArray[Any]
    outside: NDArray[Any]

    def ratio(self) -> FloatArray:
        """Return p / q of one value of each class: exactly 1 for equal shares, infinite if q is 0."""
        return quotient(self.inside, self.outside, if_zero=math.inf)


def products(counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> Products:
    """Return c N and C n exactly, for arrays of shapes that fit each other."""
    largest = max(peak(counts) * whole_size, peak(whole_counts) * peak(sizes), whole_size)
    inside = integers(counts, largest) * whole_size
    return Products(inside, integers(sizes, largest) * integers(whole_counts, largest))


def least_frequent(counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> Products:
    """Return, for the value of each class whose share fell most, c N and C n; only values of the table count.

    >>> least_frequent(np.array([[3, 1]]), np.array([4]), np.array([4, 4]), 8).ratio()
    array([0.5])
    """
    occurring = np.flatnonzero(whole_counts > 0)
    everything = len(occurring) == len(whole_counts)
    weights = 1.0 / whole_counts[occurring]
    place = np.zeros(len(counts), dtype=np.int64)
    if len(occurring):
        for rows in row_blocks(counts):
            block = counts[rows] if everything else counts[rows][:, occurring]
            place[rows] = occurring[np.argmin(block * weights, axis=1)]
    return _at(place, counts, sizes, whole_counts, whole_size)


def most_frequent(counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> Products:
    """Return, for the value of each class whose share grew most, c N and C n.

    >>> most_frequent(np.array([[3, 1]]), np.array([4]), np.array([4, 4]), 8).ratio()
    array([1.5])
    """
    # a value that the class has and the table lacks outweighs everything
    weights = np.where(whole_counts > 0, 1.0 / np.maximum(whole_counts, 1), 1e300)
    place = np.zeros(len(counts), dtype=np.int64)
    if len(weights):
        for rows in row_blocks(counts):
            place[rows] = np.argmax(counts[rows] * weights, axis=1)
    return _at(place, counts, sizes, whole_counts, whole_size)


def _at(place: IntArray, counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> Products:
    if not len(whole_counts):
        nothing = np.zeros(len(sizes), dtype=np.int64)
        return Products(nothing, nothing)
    chosen = np.take_along_axis(counts, place[:, np.newaxis], axis=1)[:, 0]
    return products(chosen, sizes, whole_counts[place], whole_size)

"""Exact comparisons of counts and shares.

Shares are compared as products of integers; products that could exceed 64 bits use Python's integers. If a value has c
of n records in a class and C of N in the whole table, its shares compare as c N to C n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, FloatArray, IntArray

Products = tuple[NDArray[Any], NDArray[Any]]
RATIO_ERROR = 2.0**-49  # relative; above the sum of the few rounding errors of 2**-53 in a ratio
_INT64_LIMIT = 2**63 - 1
_BLOCK_ELEMENTS = 2**17  # 1 MiB of counts: the temporaries of a block stay in the processor's cache


@cache
def fraction(number: float) -> Fraction:
    """Return the exact decimal value that the number prints as, not the value of its binary representation.

    >>> fraction(0.1)
    Fraction(1, 10)
    """
    return Fraction(str(number))


def integers(array: NDArray[Any], largest: int) -> NDArray[Any]:
    """Return *array* in a type whose products and sums up to *largest* are exact.

    >>> integers(np.array([1, 2]), 2**62).dtype, integers(np.array([1, 2]), 2**63).dtype
    (dtype('int64'), dtype('O'))
    """
    return array.astype(np.int64 if largest <= _INT64_LIMIT else np.object_, copy=False)


def peak(array: NDArray[Any]) -> int:
    """Return the largest element of an array of counts, 0 if there is none."""
    return int(array.max()) if array.size else 0


def at_most(left: NDArray[Any], share: Fraction, right: NDArray[Any], *, strict: bool = False) -> BoolArray:
    """Return whether ``left <= share * right`` (or ``<`` if strict), element by element and exactly.

    >>> at_most(np.array([1, 2]), Fraction(1, 3), np.array([3, 5]))
    array([ True, False])
    """
    largest = max(peak(left) * share.denominator, peak(right) * share.numerator)
    # Python integers in an object array also keep a numerator that is itself too large for 64 bits
    scaled_left = integers(left, max(largest, share.denominator)) * share.denominator
    scaled_right = integers(right, max(largest, share.numerator)) * share.numerator
    verdict = scaled_left < scaled_right if strict else scaled_left <= scaled_right
    return np.asarray(verdict, dtype=np.bool_)


def quotient(numerator: NDArray[Any], denominator: NDArray[Any], *, if_zero: float) -> FloatArray:
    """Return ``numerator / denominator`` in floating point, *if_zero* where the denominator is 0.

    >>> quotient(np.array([1, 1]), np.array([2, 0]), if_zero=np.inf)
    array([0.5, inf])
    """
    result = np.full(len(numerator), if_zero, dtype=np.float64)
    there = np.asarray(denominator != 0, dtype=np.bool_)
    result[there] = (numerator[there] / denominator[there]).astype(np.float64)
    return result


def row_blocks(table: NDArray[Any]) -> Iterator[slice]:
    """Split the rows of a table into blocks whose temporaries stay small."""
    n_rows, n_columns = table.shape
    step = max(1, _BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def largest_sums(counts: IntArray, how_many: int) -> IntArray:
    """Return (n_classes, min(how_many, n_values)) total records of the 1, 2, 3, ... most frequent values.

    >>> largest_sums(np.array([[1, 5, 0, 3]]), 3)
    array([[5, 8, 9]])
    """
    n_classes, n_values = counts.shape
    width = min(how_many, n_values)
    if width == 1:
        return largest_counts(counts)[:, np.newaxis]
    result = np.zeros((width, n_classes), dtype=np.int64)  # transposed, because callers iterate over k
    if width == 0:
        return result.T
    narrow = np.int32 if peak(counts) < 2**31 else np.int64  # half the bytes sort in half the time
    for rows in row_blocks(counts):
        falling = np.negative(counts[rows], dtype=narrow, casting="same_kind")
        if width < n_values:
            falling = np.partition(falling, width - 1, axis=1)[:, :width]
        falling.sort(axis=1)
        np.cumsum(-falling.T.astype(np.int64), axis=0, out=result[:, rows])
    return result.T


def largest_counts(counts: IntArray) -> IntArray:
    """Return (n_classes,) records of the most frequent value.

    >>> largest_counts(np.array([[1, 5, 0, 3]]))
    array([5])
    """
    return np.asarray(counts.max(axis=1, initial=0), dtype=np.int64)


def distinct_values(counts: IntArray) -> IntArray:
    """Return (n_classes,) the number of values that occur.

    >>> distinct_values(np.array([[1, 5, 0, 3]]))
    array([3])
    """
    return np.asarray(np.count_nonzero(counts, axis=1), dtype=np.int64)


def products(counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> Products:
    """Return c N and C n exactly, for arrays that broadcast; the shares in class and table have their ratio."""
    largest = max(peak(counts) * whole_size, peak(whole_counts) * peak(sizes), whole_size)
    inside = integers(counts, largest) * whole_size
    return inside, integers(sizes, largest) * integers(whole_counts, largest)


def extreme_products(
    counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int, *, grown: bool
) -> Products:
    """Return c N and C n of each class for the value whose share grew most or, if not *grown*, fell most.

    >>> given = np.array([[3, 1]]), np.array([4]), np.array([4, 4]), 8
    >>> extreme_products(*given, grown=True), extreme_products(*given, grown=False)
    ((array([24]), array([16])), (array([8]), array([16])))
    """
    if not len(whole_counts):
        same = np.ones(len(sizes), dtype=np.int64)
        return same, same
    absent = np.flatnonzero(whole_counts == 0)
    # a value that occurs in the class but not in the table has grown most
    weights = np.where(whole_counts > 0, 1.0 / np.maximum(whole_counts, 1), 1e300)
    place = np.zeros(len(counts), dtype=np.int64)
    for rows in row_blocks(counts):
        relative = counts[rows] * weights
        if not grown:
            relative[:, absent] = math.inf
        place[rows] = relative.argmax(axis=1) if grown else relative.argmin(axis=1)
    chosen = np.take_along_axis(counts, place[:, np.newaxis], axis=1)[:, 0]
    return products(chosen, sizes, whole_counts[place], whole_size)

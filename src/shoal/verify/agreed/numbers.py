"""Reading the many numbers of a plan: whole ones within bounds, or a ManifestError."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from shoal.arrays import IntArray
from shoal.verify.fields import ManifestError, number, sequence


def demand(holds: bool, otherwise: str) -> None:
    """Raise a ManifestError with this sentence unless something holds."""
    if not holds:
        raise ManifestError(otherwise)


def decimal(raw: object, where: str) -> Fraction:
    """Return a finite number as the decimal that is written.

    >>> decimal(0.01, "delta")
    Fraction(1, 100)
    """
    found = number(raw, where)
    demand(abs(found) < float("inf"), f"{where} is not finite")
    return Fraction(str(raw))


def some_whole(raw: object, where: str, *, least: int, below: int = 2**31) -> IntArray:
    """Return a list of whole numbers as an array; it is not empty.

    >>> some_whole([3, 1], "points", least=0, below=4).tolist()
    [3, 1]
    """
    return _bounded(sequence(raw, where), where, least, below)


def several_whole(raw: object, width: int, where: str, *, least: int, below: int) -> IntArray:
    """Return (n, width) numbers of a list of lists of this length."""
    lists = sequence(raw, where)
    demand(all(isinstance(each, list | tuple) and len(each) == width for each in lists), f"{where} has other lists")
    return _bounded(list(chain.from_iterable(lists)), where, least, below).reshape(-1, width)


def _bounded(numbers: Sequence[object], where: str, least: int, below: int) -> IntArray:
    if set(map(type, numbers)) != {int}:  # a truth value would count as a number
        raise ManifestError(f"{where} has not just whole numbers")
    try:
        found = np.array(numbers, dtype=np.int64)
    except OverflowError:
        raise ManifestError(f"{where} has numbers that are too large") from None
    demand(least <= int(found.min()) and int(found.max()) < below, f"{where} has numbers out of bounds")
    return found

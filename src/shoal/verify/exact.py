"""The classes that promises are asked of, and comparisons of their counts with limits: exact, or refused in doubt.

Counts are whole numbers, compared without rounding, and entropies are settled by whole numbers. What is believed of a
tuple of a sliced release is a mixture of classes, in floating point: it holds only by more than rounding can hide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, FloatArray, IntArray

WIDEST = 2**62  # sums and products stay below this in 64 bits
ROUNDING = 1e-12  # of quotients and logarithms
_MARGIN = 1e-9  # relative, of mixtures
_CLEAR = 1e-9  # further from the limit than this (relatively), floating point decides rightly
_EXACT_WORK = 2_000_000  # bits of the largest power that is still worked out
_LAST_PLACES = 1e-13
_FIXED_POINT = 2.0**55  # entropies are below 2**8
_MOST_ENTRIES = 4_000_000  # that are worth counting by Python's integers


class CannotCheckError(Exception):
    """A promise that this verifier is not able to confirm; it is not believed then."""


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Sensitive values of every class, sparse: class i has entries ``start[i]:start[i + 1]``, by value.

    Of mixtures, sizes are 1.0 and counts are shares.
    """

    sizes: NDArray[Any]  # (n_classes,)
    start: IntArray  # (n_classes + 1,)
    value: IntArray  # (n_entries,)
    count: NDArray[Any]  # (n_entries,) all > 0: 64 bits, Python's integers or shares
    values: tuple[str | None, ...]  # (n_values,) what the codes stand for, None = missing; () for joint values
    n_values: int
    table: IntArray | None = None  # (n_values,) counts in the published table, if these are not all of its classes
    people: int | None = None  # of the published table, if they are counted; some may have several values

    @property
    def owner(self) -> IntArray:
        """(n_entries,) the class of each entry."""
        return np.repeat(np.arange(self.sizes.shape[0], dtype=np.int64), np.diff(self.start))

    @property
    def whole(self) -> IntArray:
        """(n_values,) counts in the published table."""
        if self.table is not None:
            return self.table.astype(self.count.dtype)
        out = np.zeros(self.n_values, dtype=self.count.dtype)
        np.add.at(out, self.value, self.count)
        return out

    @property
    def total(self) -> int:
        """Rows of the published table, or its people."""
        if self.people is not None:
            return self.people
        return int(self.sizes.sum() if self.table is None else self.table.sum())

    @property
    def mixed(self) -> bool:
        """Whether these are beliefs in floating point."""
        return self.count.dtype.kind == "f"

    @property
    def largest(self) -> NDArray[Any]:
        """(n_classes,) the count of the most frequent value."""
        return np.asarray(np.maximum.reduceat(self.count, self.start[:-1]))

    def rank(self) -> tuple[NDArray[Any], IntArray]:
        """Return (n_entries,) the counts of each class, largest first, and the rank of each from 0 on."""
        owner = self.owner
        order = np.lexsort((-self.count, owner))
        return self.count[order], np.arange(owner.shape[0]) - self.start[owner]


def check_size(n_entries: int) -> None:
    """Raise if there is too much to be counted by Python's integers, which are slow and never too narrow."""
    if n_entries > _MOST_ENTRIES:
        raise CannotCheckError("the table is too large for the exact comparison")


def widen(histograms: Histograms, largest: int) -> Histograms:
    """Return the same counts, as Python's integers if *largest*, which they will be worked up to, needs these."""
    if largest < WIDEST or histograms.count.dtype.kind in "Of":
        return histograms
    check_size(histograms.count.shape[0])
    return replace(histograms, sizes=histograms.sizes.astype(object), count=histograms.count.astype(object))


def divide(numerator: NDArray[Any], denominator: NDArray[Any] | int) -> FloatArray:
    """Return quotients of numbers, of whatever width, in floating point."""
    return np.asarray(numerator / denominator, dtype=np.float64)


def at_most(
    numerator: NDArray[Any], denominator: NDArray[Any], limit: Fraction, *, strict: bool = False, share: bool = False
) -> BoolArray:
    """Return whether numerator / denominator <= limit (strict: <), exactly; denominators are positive.

    Shares are never above 1, however they are rounded. Quotients of floats are refused unless they are clearly below.

    >>> at_most(np.array([1, 2]), np.array([3, 3]), Fraction(1, 3)).tolist()
    [True, False]
    >>> at_most(np.array([0.5, 0.25]), np.ones(2), Fraction(1, 2)).tolist()
    [False, True]
    """
    found, bound = divide(numerator, denominator), float(limit)
    if numerator.dtype.kind == "f":
        return np.asarray((found + ROUNDING <= bound * (1 - _MARGIN)) | (share and limit >= 1), dtype=np.bool_)
    holds: BoolArray = found <= bound
    near = np.flatnonzero(np.abs(found - bound) <= _CLEAR * max(abs(bound), 1.0))
    if near.size:
        pairs = list(zip(numerator[near].tolist(), denominator[near].tolist(), strict=True))
        settled = {}
        for top, bottom in set(pairs):
            left, right = top * limit.denominator, bottom * limit.numerator
            settled[top, bottom] = left < right if strict else left <= right
        holds[near] = [settled[pair] for pair in pairs]
    return holds


def clearly_below(found: FloatArray, limit: FloatArray | float, histograms: Histograms) -> BoolArray:
    """Return whether logarithms of counts, which no whole numbers settle, are below a limit by more than rounding."""
    margin = _MARGIN if histograms.mixed else ROUNDING
    return np.asarray(found * (1 + margin) + ROUNDING < limit, dtype=np.bool_)


def entropies(histograms: Histograms) -> FloatArray:
    """Return (n_classes,) the entropy of each class in nats."""
    shares = divide(histograms.count, histograms.sizes[histograms.owner])
    # Sums of whole numbers do not depend on the order of values, which may be any.
    terms = np.rint(shares * np.log(shares) * _FIXED_POINT).astype(np.int64)
    return np.asarray(-np.add.reduceat(terms, histograms.start[:-1]) / _FIXED_POINT, dtype=np.float64)


def entropy_at_least(histograms: Histograms, l: Fraction) -> BoolArray:
    """Return whether exp(entropy) >= l; ties of counts are settled by n**n >= l**n * product of c**c."""
    found, limit = entropies(histograms), math.log(l)
    if histograms.mixed:
        return np.asarray((np.exp(found) >= float(l) * (1 + _MARGIN)) | (l <= 1), dtype=np.bool_)
    # Each term p ln p is off by a few units in the last place of p ln n, and so is their sum.
    terms = 1.0 + np.sqrt(np.diff(histograms.start))
    doubt = _LAST_PLACES * (1.0 + np.log(histograms.sizes.astype(np.float64))) * terms
    holds: BoolArray = found > limit + doubt
    known: dict[tuple[int, ...], bool] = {}
    for place in np.flatnonzero(np.abs(found - limit) <= doubt):
        counts = np.sort(histograms.count[histograms.start[place] : histograms.start[place + 1]])
        reduced = tuple((counts // math.gcd(*counts.tolist())).tolist())
        if reduced not in known:
            known[reduced] = _settle_entropy(reduced, l)
        holds[place] = known[reduced]
    return holds


def _settle_entropy(counts: tuple[int, ...], l: Fraction) -> bool:
    n = sum(counts)
    widest = max(n, l.numerator, l.denominator)
    if n * widest.bit_length() > _EXACT_WORK:
        return False  # too large to settle: refused
    product = math.prod(count**count for count in counts)
    return bool(n**n * l.denominator**n >= l.numerator**n * product)

"""Comparisons without rounding: counts against decimal limits, and entropies settled by whole numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.verify.counting import Histograms

_CLEAR = 1e-9  # further from the limit than this (relatively), floating point decides rightly
_EXACT_WORK = 2_000_000  # bits of the largest power that is still worked out
_ROUNDING = 1e-13
WIDEST = 2**62  # sums and products stay below this in 64 bits
_MOST_ENTRIES = 4_000_000  # that are worth counting by Python's integers


class CannotCheckError(Exception):
    """A promise that this verifier is not able to confirm; it is not believed then."""


def check_size(n_entries: int) -> None:
    """Raise if there is too much to be counted by Python's integers, which are slow and never too narrow."""
    if n_entries > _MOST_ENTRIES:
        raise CannotCheckError("the table is too large for the exact comparison")


def roomy(histograms: Histograms, largest: int) -> Histograms:
    """Return the same counts, as Python's integers if *largest*, which they will be worked up to, needs these."""
    if largest < WIDEST or histograms.count.dtype == object:
        return histograms
    check_size(histograms.count.shape[0])
    return replace(histograms, sizes=histograms.sizes.astype(object), count=histograms.count.astype(object))


def ratio(numerator: IntArray, denominator: IntArray | int) -> FloatArray:
    """Return quotients of whole numbers, of whatever width, in floating point."""
    return np.asarray(numerator / denominator, dtype=np.float64)


def at_most(numerator: IntArray, denominator: IntArray, limit: Fraction, *, strict: bool = False) -> BoolArray:
    """Return whether numerator / denominator <= limit (strict: <), exactly; denominators are positive.

    >>> at_most(np.array([1, 2]), np.array([3, 3]), Fraction(1, 3)).tolist()
    [True, False]
    """
    bound = float(limit)
    found = ratio(numerator, denominator)
    holds: BoolArray = found <= bound
    near = np.flatnonzero(np.abs(found - bound) <= _CLEAR * max(abs(bound), 1.0))
    if near.size:
        pairs = list(zip(numerator[near].tolist(), denominator[near].tolist(), strict=True))
        settled = {pair: _below(*pair, limit, strict) for pair in set(pairs)}
        holds[near] = [settled[pair] for pair in pairs]
    return holds


def _below(top: int, bottom: int, limit: Fraction, strict: bool) -> bool:
    left, right = top * limit.denominator, bottom * limit.numerator
    return left < right if strict else left <= right


def entropies(histograms: Histograms) -> FloatArray:
    """Return (n_classes,) the entropy of each class in nats."""
    shares = ratio(histograms.count, histograms.sizes[histograms.owner])
    return np.asarray(-np.add.reduceat(shares * np.log(shares), histograms.start[:-1]), dtype=np.float64)


def entropy_at_least(histograms: Histograms, l: Fraction) -> BoolArray:
    """Return whether exp(entropy) >= l; ties are settled by n**n >= l**n * product of c**c."""
    found, limit = entropies(histograms), math.log(l)
    # Each term p ln p is off by a few units in the last place of p ln n, and so is their sum.
    doubt = _ROUNDING * (1.0 + np.log(histograms.sizes.astype(np.float64))) * (1.0 + np.sqrt(np.diff(histograms.start)))
    holds: BoolArray = found > limit + doubt
    known: dict[tuple[int, ...], bool] = {}
    for place in np.flatnonzero(np.abs(found - limit) <= doubt):
        counts = np.sort(histograms.count[histograms.start[place] : histograms.start[place + 1]])
        reduced = tuple((counts // math.gcd(*counts.tolist())).tolist())
        if reduced not in known:
            known[reduced] = _entropy_tie(reduced, l)
        holds[place] = known[reduced]
    return holds


def _entropy_tie(counts: tuple[int, ...], l: Fraction) -> bool:
    n = sum(counts)
    widest = max(n, l.numerator, l.denominator)
    if n * widest.bit_length() > _EXACT_WORK:
        return False  # too large to settle: refused
    product = math.prod(count**count for count in counts)
    return bool(n**n * l.denominator**n >= l.numerator**n * product)

"""Comparisons without rounding: counts against decimal limits, and entropies settled by whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shoal.arrays import BoolArray, FloatArray, IntArray
from shoal.verify.counting import Histograms

_CLEAR = 1e-9  # further from the limit than this (relatively), floating point decides rightly
_EXACT_WORK = 2_000_000  # bits of the largest power that is still worked out
_ROUNDING = 1e-13


class CannotCheckError(Exception):
    """A promise that this verifier is not able to confirm; it is not believed then."""


def at_most(numerator: IntArray, denominator: IntArray, limit: Fraction, *, strict: bool = False) -> BoolArray:
    """Return whether numerator / denominator <= limit (strict: <), exactly; denominators are positive.

    >>> at_most(np.array([1, 2]), np.array([3, 3]), Fraction(1, 3)).tolist()
    [True, False]
    """
    bound = float(limit)
    ratio = numerator / denominator
    holds: BoolArray = ratio <= bound
    near = np.flatnonzero(np.abs(ratio - bound) <= _CLEAR * max(abs(bound), 1.0))
    if near.size:
        pairs, back = np.unique(np.stack([numerator[near], denominator[near]], axis=1), axis=0, return_inverse=True)
        settled = np.fromiter(
            (_below(int(top), int(bottom), limit, strict) for top, bottom in pairs), np.bool_, pairs.shape[0]
        )
        holds[near] = settled[back.reshape(-1)]
    return holds


def _below(top: int, bottom: int, limit: Fraction, strict: bool) -> bool:
    left, right = top * limit.denominator, bottom * limit.numerator
    return left < right if strict else left <= right


def entropies(histograms: Histograms) -> FloatArray:
    """Return (n_classes,) the entropy of each class in nats."""
    terms = histograms.count * np.log(histograms.count)
    sums = np.add.reduceat(terms, histograms.start[:-1])
    return np.asarray(np.log(histograms.sizes) - sums / histograms.sizes, dtype=np.float64)


def entropy_at_least(histograms: Histograms, l: Fraction) -> BoolArray:
    """Return whether exp(entropy) >= l; ties are settled by n**n >= l**n * product of c**c."""
    found, limit = entropies(histograms), math.log(l)
    # Each term c ln c / n is off by a few units in the last place of ln n, and so is their sum.
    doubt = _ROUNDING * (1.0 + np.log(histograms.sizes)) * (1.0 + np.sqrt(np.diff(histograms.start)))
    holds: BoolArray = found > limit + doubt
    known: dict[tuple[int, ...], bool] = {}
    for place in np.flatnonzero(np.abs(found - limit) <= doubt):
        counts = np.sort(histograms.count[histograms.start[place] : histograms.start[place + 1]])
        reduced = tuple((counts // np.gcd.reduce(counts)).tolist())
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

"""Entropy l-diversity: the sensitive values of a class are as uncertain as l equally frequent ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.models.base import SKEWNESS, ClassHistograms, ValueModel, Whole, number, round_down
from shoal.models.exact import at_most, distinct_values, fraction, largest_counts, row_blocks

LARGEST_SETTLED = 5000  # records of a class, after division by the common divisor of its counts


class EntropyLDiversity(ValueModel):
    """The entropy of every class's sensitive values is at least that of l equally frequent values.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007, Definition 4.1.

    Floating point decides only where its error bound permits. Other classes are settled by integers, and
    refused where these would be too large.

    >>> classes = ClassHistograms.of([[2, 2, 2], [4, 1, 1]])
    >>> EntropyLDiversity(l=3).holds(classes, Whole.of([6, 3, 3]))
    array([ True, False])
    """

    name = "entropy-l-diversity"
    title = "the sensitive values of every class are as uncertain as l equally frequent ones"
    explanation = "The sensitive values of a class are, taken together, as uncertain as l equally frequent ones."
    example = "With l = 3, the class reveals no more than if three diagnoses were equally likely."
    usual: ClassVar = {"l": 2}
    weaknesses = f"It bounds uncertainty as a whole, not the share of each value. {SKEWNESS}"
    achieved_is = "at least"
    judges_beliefs = True

    l: float = Field(ge=1, allow_inf_nan=False, description="exp(entropy) of a class's values is at least this")

    @property
    def smallest_class(self) -> int:
        """Records of n have at most n different values, and these an exp(entropy) of n at most."""
        return math.ceil(fraction(self.l))

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether n ln n - sum c ln c >= n ln l."""
        counts, sizes = self.values_of(classes), classes.sizes
        n_values = counts.shape[1]
        size = np.maximum(sizes, 1).astype(np.float64)
        log_size, log_l = np.log(size), math.log(self.l)
        margin = size * log_size - _sum_of_logs(counts) - size * log_l
        # A logarithm is off by at most 4 units in the last place, and a sum of m terms loses at most m more.
        bound = (n_values + 16) * 2.0**-52 * size * (log_size + log_l + 1)
        verdict = margin > bound
        uniform, distinct = _uniform(counts, sizes)
        verdict[uniform] = at_most(np.ones_like(distinct), 1 / fraction(self.l), distinct)[uniform]
        in_doubt = np.flatnonzero((np.abs(margin) <= bound) & ~uniform)
        verdict[in_doubt] = _settle(counts[in_doubt], fraction(self.l))
        return np.asarray(verdict & (sizes > 0), dtype=np.bool_)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) exp(entropy)."""
        counts, sizes = self.values_of(classes), classes.sizes
        size = np.maximum(sizes, 1).astype(np.float64)
        uniform, distinct = _uniform(counts, sizes)
        reached = np.where(uniform, distinct, np.exp(np.log(size) - _sum_of_logs(counts) / size))
        return np.where(sizes > 0, reached, 0.0)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Say which l the whole table has."""
        return f"l = {number(self.l)} but the whole table reaches {round_down(reached, 2)}; ask for at most that"


def _sum_of_logs(counts: IntArray) -> FloatArray:
    """Return (n_classes,) sum of c ln c, where 0 ln 0 = 0."""
    result = np.zeros(len(counts), dtype=np.float64)
    for rows in row_blocks(counts):
        block = counts[rows].astype(np.float64)
        result[rows] = np.einsum("ij,ij->i", block, np.log(np.maximum(block, 1.0)))
    return result


def _uniform(counts: IntArray, sizes: IntArray) -> tuple[BoolArray, IntArray]:
    """Return (n_classes,) whether all values that occur are equally frequent, and how many they are."""
    distinct = distinct_values(counts)
    return largest_counts(counts) * distinct == sizes, distinct


def _settle(counts: IntArray, l: Fraction) -> BoolArray:
    """Return (n_classes,) whether n^n >= l^n prod c^c, in integers; False where they would be too large.

    Entropy depends on shares only, so counts are divided by their common divisor, and classes with the same
    shares are settled once.
    """
    if not len(counts):
        return np.zeros(0, dtype=np.bool_)
    divisor = np.maximum(np.gcd.reduce(counts, axis=1), 1)
    shares, place = np.unique(np.sort(counts // divisor[:, np.newaxis], axis=1), axis=0, return_inverse=True)
    verdicts = np.array([_as_diverse(row[row > 0].tolist(), l) for row in shares], dtype=np.bool_)
    return verdicts[place.reshape(-1)]


def _as_diverse(counts: list[int], l: Fraction) -> bool:
    n = sum(counts)
    if not 0 < n <= LARGEST_SETTLED:
        return False
    product = math.prod(count**count for count in counts)
    return bool((n * l.denominator) ** n >= l.numerator**n * product)

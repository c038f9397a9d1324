"""Entropy l-diversity: the sensitive values of a class are as uncertain as l equally frequent ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.models.base import (
    SHARE_UNITS,
    SKEWNESS,
    ClassHistograms,
    DisclosureModel,
    Whole,
    margin_of,
    number,
    round_down,
)
from shoal.models.exact import at_most, distinct_values, fraction, largest_counts, quotient, row_blocks

LARGEST_EXACT = 5000  # records of a class after dividing its counts by their common divisor


class EntropyLDiversity(DisclosureModel):
    """Every class's sensitive values have at least the entropy of l equally frequent values.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007, Definition 4.1.
    With harmless values, it bounds the mean of -ln p over the records with harmful ones (docs/models.md).

    Floating point decides only outside its error bound. Other classes are decided by integers, and refused if these
    would be too large.

    >>> classes = ClassHistograms.of([[2, 2, 2], [4, 1, 1]])
    >>> EntropyLDiversity(l=3).holds(classes, Whole.of([6, 3, 3]))
    array([ True, False])
    """

    name = "entropy-l-diversity"
    title = "the sensitive values of every class are as uncertain as l equally frequent ones"
    explanation = "The sensitive values of a class are, taken together, as uncertain as l equally frequent values."
    example = "With l = 3, the class reveals no more than if three diagnoses were equally likely."
    usual: ClassVar = {"l": 2}
    weaknesses = f"It bounds uncertainty as a whole, not the share of each value. {SKEWNESS}"
    achieved_is = "at least"
    judges_beliefs = True

    l: float = Field(ge=1, allow_inf_nan=False, description="exp(entropy) of a class's values is at least this")

    @property
    def smallest_class(self) -> int:
        """n records have at most n different values, whose exp(entropy) is at most n."""
        return 1 if self.harmless else math.ceil(fraction(self.l))

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether exp(entropy) is at least l."""
        return self._judge(self._count_harmful(classes, whole), classes.sizes)

    def _judge(self, counts: IntArray, sizes: IntArray) -> BoolArray:
        """Return (n_classes,) whether the sum of c (ln (n / c) - ln l) over harmful values is at least 0."""
        n_values, harmful = counts.shape[1], counts.sum(axis=1)
        size = np.maximum(sizes, 1).astype(np.float64)
        log_size, log_l = np.log(size), math.log(self.l)
        margin = harmful * (log_size - log_l) - _sum_of_logs(counts)
        # A logarithm has an error of at most 4 units in the last place, and a sum of m terms adds at most m.
        bound = (n_values + 16) * 2.0**-52 * harmful * (log_size + log_l + 1)
        verdict = margin > bound
        largest = largest_counts(counts)
        uniform = largest * distinct_values(counts) == harmful
        verdict[uniform] = at_most(largest, 1 / fraction(self.l), sizes)[uniform]
        in_doubt = np.flatnonzero((np.abs(margin) <= bound) & ~uniform)
        verdict[in_doubt] = _decide_exactly(counts[in_doubt], sizes[in_doubt], fraction(self.l))
        return np.asarray(verdict & (sizes > 0), dtype=np.bool_)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) exp(entropy); the number of records of the table if all values are harmless."""
        counts, sizes = self._count_harmful(classes, whole), classes.sizes
        largest, harmful = largest_counts(counts), counts.sum(axis=1)
        mean = np.exp(np.log(np.maximum(sizes, 1)) - _sum_of_logs(counts) / np.maximum(harmful, 1))
        uniform = largest * distinct_values(counts) == harmful
        reached = np.where(uniform, quotient(sizes, largest, if_zero=whole.size), mean)
        return np.where(sizes > 0, reached, 0.0)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether rounded distributions surely hold, with harmful shares at the worse end."""
        if not self.harmless:
            return super().holds_surely(shares, whole)
        classes, margin = ClassHistograms.of_shares(shares[:, self.find_harmful(whole)]), margin_of(shares)
        counts, sizes = self.values_of(classes), np.full(len(shares), SHARE_UNITS)
        rare = counts < SHARE_UNITS / (math.e * self.l)  # up to there, p ln (1 / p l) rises
        worse = np.where(rare, np.maximum(counts - margin, 0), np.where(counts, counts + margin, 0))
        return self._judge(worse, sizes)

    def _count_harmful(self, classes: ClassHistograms, whole: Whole) -> IntArray:
        """Return (n_classes, n_harmful) counts; if people have several values, only the largest count of each class."""
        counts = self.values_of(self.harmful_of(classes, whole))
        several = self.values_of(classes).sum(axis=1) > classes.sizes
        return np.where(several[:, np.newaxis] & (counts < largest_counts(counts)[:, np.newaxis]), 0, counts)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"l = {number(self.l)} but the whole table reaches {round_down(reached, 2)}; ask for at most that"


def _sum_of_logs(counts: IntArray) -> FloatArray:
    """Return (n_classes,) sum of c ln c, where 0 ln 0 = 0."""
    result = np.zeros(len(counts), dtype=np.float64)
    for rows in row_blocks(counts):
        block = counts[rows].astype(np.float64)
        result[rows] = np.einsum("ij,ij->i", block, np.log(np.maximum(block, 1.0)))
    return result


def _decide_exactly(counts: IntArray, sizes: IntArray, l: Fraction) -> BoolArray:
    """Return (n_classes,) whether n^h >= l^h prod c^c with h = sum c, in integers; False if they would be too large.

    Entropy depends on shares only: counts are divided by their common divisor, and classes with equal shares are
    decided once.
    """
    if not len(counts):
        return np.zeros(0, dtype=np.bool_)
    table = np.column_stack([np.sort(counts, axis=1), sizes])
    divisor = np.maximum(np.gcd.reduce(table, axis=1), 1)
    shares, place = np.unique(table // divisor[:, np.newaxis], axis=0, return_inverse=True)
    verdicts = np.array([_as_diverse(row[:-1].tolist(), int(row[-1]), l) for row in shares], dtype=np.bool_)
    return verdicts[place.reshape(-1)]


def _as_diverse(counts: list[int], n: int, l: Fraction) -> bool:
    harmful = sum(counts)
    if not 0 < n <= LARGEST_EXACT:
        return False
    product = math.prod(count**count for count in counts)
    return bool((n * l.denominator) ** harmful >= l.numerator**harmful * product)

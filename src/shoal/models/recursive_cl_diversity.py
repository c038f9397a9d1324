"""Recursive (c,l)-diversity: the most frequent value is not too frequent, the rare ones not too rare."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.models.base import SIMILARITY, SKEWNESS, ClassHistograms, ValueModel, Whole, number, round_up
from shoal.models.exact import at_most, fraction, largest_counts, largest_sums, quotient


class RecursiveCLDiversity(ValueModel):
    """The most frequent value of a class has fewer than c times the records of all but the l - 1 first.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007, Definition 4.2: with
    counts r1 >= r2 >= ... >= rm, r1 < c (r_l + ... + r_m), strictly; l = 1 always holds.

    >>> classes = ClassHistograms.of([[3, 2, 2], [4, 2, 2]])
    >>> RecursiveCLDiversity(c=2, l=3).holds(classes, Whole.of([7, 4, 4]))
    array([ True, False])
    """

    name = "recursive-cl-diversity"
    title = "no sensitive value has c times the records of the l-th and rarer values of its class"
    explanation = (
        "The most frequent value is not too frequent beside the rare ones, also once somebody ruled a few out."
    )
    example = (
        "With c = 2 and l = 3 the most frequent value has less than twice the records of the third and rarer ones."
    )
    usual: ClassVar = {"c": 2, "l": 2}
    weaknesses = f"{SIMILARITY} {SKEWNESS}"
    achieved_is = "at most"
    judges_beliefs = True

    c: float = Field(gt=0, allow_inf_nan=False, description="r1 < c (r_l + ... + r_m)")
    l: int = Field(ge=1, description="rank from which on the rarer values count")

    @property
    def smallest_class(self) -> int:
        """All n values different is best: then 1 < c (n - l + 1)."""
        return 1 if self.l == 1 else self.l + math.floor(1 / fraction(self.c))

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether r1 < c (r_l + ... + r_m), exactly."""
        occupied = classes.sizes > 0
        if self.l == 1:
            return occupied
        most = largest_counts(self.values_of(classes))
        return at_most(most, fraction(self.c), self._tail(classes), strict=True) & occupied

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) r1 / (r_l + ... + r_m): every larger c holds."""
        return quotient(largest_counts(self.values_of(classes)), self._tail(classes), if_zero=math.inf)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:
        """Say that there are too few values, or which c the most frequent one allows."""
        if math.isinf(reached):
            return f"l = {self.l} but only {np.count_nonzero(self.values_of(whole))} values occur"
        return (
            f"c = {number(self.c)} with l = {self.l} but the whole table reaches "
            f"{round_up(reached, 4)}; ask for a c above that"
        )

    def _tail(self, classes: ClassHistograms) -> IntArray:
        if self.l == 1:
            return classes.sizes
        sums = largest_sums(self.values_of(classes), self.l - 1)
        return classes.sizes - sums[:, -1] if sums.shape[1] else classes.sizes

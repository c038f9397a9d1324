"""Recursive (c,l)-diversity: the most frequent value is not too frequent, the rare ones not too rare."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.wording import count_noun
from shoal.models.base import SIMILARITY, SKEWNESS, ClassHistograms, DisclosureModel, Whole, number, round_up
from shoal.models.exact import at_most, fraction, largest_counts, largest_sums, quotient


class RecursiveCLDiversity(DisclosureModel):
    """The most frequent value has fewer than c times the records of all values but the l - 1 most frequent.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007, Definition 4.2: with
    counts r1 >= r2 >= ... >= rm, r1 < c (r_l + ... + r_m), strictly; l = 1 always holds. With harmless values,
    Definition 4.3: r1 is the most frequent harmful value, and the l - 2 most frequent others are ruled out.

    >>> classes = ClassHistograms.of([[3, 2, 2], [4, 2, 2]])
    >>> RecursiveCLDiversity(c=2, l=3).holds(classes, Whole.of([7, 4, 4]))
    array([ True, False])
    """

    name = "recursive-cl-diversity"
    title = "no sensitive value has c times the records of the l-th and rarer values of its class"
    explanation = (
        "The most frequent value is not too frequent compared with the rare ones, even if a few are ruled out."
    )
    example = (
        "With c = 2 and l = 3, the most frequent value has fewer than twice the records of the third and rarer ones."
    )
    usual: ClassVar = {"c": 2, "l": 2}
    weaknesses = f"{SIMILARITY} {SKEWNESS}"
    achieved_is = "at most"
    judges_beliefs = True

    c: float = Field(gt=0, allow_inf_nan=False, description="r1 < c (r_l + ... + r_m)")
    l: int = Field(ge=1, description="rank of the most frequent value that is counted as rare")

    @property
    def smallest_class(self) -> int:
        """The best class has n different values: then 1 < c (n - l + 1)."""
        return 1 if self.l == 1 or self.harmless else self.l + math.floor(1 / fraction(self.c))

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether r1 < c (r_l + ... + r_m), in exact arithmetic."""
        occupied = classes.sizes > 0
        if self.l == 1:
            return occupied
        most, tail = self._compare(classes, whole)
        return np.asarray((at_most(most, fraction(self.c), tail, strict=True) | (most == 0)) & occupied)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) r1 / (r_l + ... + r_m): every larger c holds."""
        most, tail = self._compare(classes, whole)
        return np.where((most == 0) & (classes.sizes > 0), 0.0, quotient(most, tail, if_zero=math.inf))

    def explain_shortfall(self, whole: Whole, reached: float) -> str:
        if math.isinf(reached):
            n_values = np.count_nonzero(self.values_of(whole))
            return f"l = {self.l}, but there are only {count_noun(int(n_values), 'value')}; ask for at most {n_values}"
        return (
            f"c = {number(self.c)} with l = {self.l} but the whole table reaches "
            f"{round_up(reached, 4)}; ask for a c above that"
        )

    def _compare(self, classes: ClassHistograms, whole: Whole) -> tuple[IntArray, IntArray]:
        """Return (n_classes,) records of the most frequent harmful value, and of the tail r_l + ... + r_m."""
        most = largest_counts(self.values_of(self.harmful_of(classes, whole)))
        # (n_classes, up to l) records of the 0, 1, ..., l - 1 most frequent values
        top = np.pad(largest_sums(self.values_of(classes), self.l - 1), ((0, 0), (1, 0)))
        ruled_out = np.minimum(top[:, -1], top[:, min(self.l - 2, top.shape[1] - 1)] + most)
        return most, classes.sizes - ruled_out

"""Distinct l-diversity: a class has at least l different sensitive values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.core.wording import count_noun
from shoal.models.base import RULED_OUT, ClassHistograms, Curve, DisclosureModel, Whole
from shoal.models.exact import distinct_values, largest_sums


class DistinctLDiversity(DisclosureModel):
    """Every class has at least l different sensitive values.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007, as the simplest
    interpretation of "well represented".

    >>> DistinctLDiversity(l=2).holds(ClassHistograms.of([[9, 1], [3, 0]]), Whole.of([12, 1]))
    array([ True, False])
    """

    name = "distinct-l-diversity"
    title = "every class has at least l different sensitive values"
    explanation = "Every class has at least l different sensitive values: a class alone discloses no value."
    example = "With l = 3, every person may have one of three diagnoses, however unlikely two of them are."
    usual: ClassVar = {"l": 3}
    weaknesses = (
        "It counts values, not their frequencies: one value may have nearly all records of a class. " + RULED_OUT
    )
    achieved_is = "at least"
    judges_beliefs = True

    l: int = Field(ge=1, description="minimum number of different sensitive values per class")

    @property
    def bounds(self) -> Curve:
        return Curve(distinct=self.l)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether l values have a positive share, which rounding cannot create."""
        return self.holds(ClassHistograms.of_shares(shares), whole)

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether l values occur, or only harmless ones."""
        return np.asarray(self.reach(classes, whole) >= self.l)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the number of values; the number of records of the table if all are harmless."""
        counts = self.values_of(classes)
        if not self.harmless:
            return distinct_values(counts).astype(float)
        # people may have several values: the smallest number of values that can give each person one
        sure = 1.0 + (largest_sums(counts, counts.shape[1]) < classes.sizes[:, np.newaxis]).sum(axis=1)
        some = counts[:, self.find_harmful(whole)].any(axis=1)
        return np.where(classes.sizes > 0, np.where(some, sure, whole.size), 0.0)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"l = {self.l}, but there are only {count_noun(int(reached), 'value')}; ask for at most {reached:.0f}"

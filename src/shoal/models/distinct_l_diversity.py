"""Distinct l-diversity: a class has at least l different sensitive values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import RULED_OUT, ClassHistograms, Curve, ValueModel, Whole
from shoal.models.exact import distinct_values


class DistinctLDiversity(ValueModel):
    """Every class has at least l different sensitive values.

    Machanavajjhala et al., "l-diversity: privacy beyond k-anonymity", TKDD 1(1), 2007; named there as the
    simplest reading of "well represented".

    >>> DistinctLDiversity(l=2).holds(ClassHistograms.of([[9, 1], [3, 0]]), Whole.of([12, 1]))
    array([ True, False])
    """

    name = "distinct-l-diversity"
    title = "every class has at least l different sensitive values"
    explanation = "Every class has at least l different sensitive values, so that none is given away outright."
    example = "With l = 3 three diagnoses are possible for everybody, however unlikely two of them are."
    usual: ClassVar = {"l": 3}
    weaknesses = (
        "It counts values, not how often they occur: one of them may have nearly all records of a class. " + RULED_OUT
    )
    achieved_is = "at least"
    judges_beliefs = True

    l: int = Field(ge=1, description="minimum number of different sensitive values per class")

    @property
    def smallest_class(self) -> int:
        """The records of a class have l different values only if there are l of them."""
        return self.l

    @property
    def curve(self) -> Curve:
        """Only the number of different values counts."""
        return Curve(distinct=self.l)

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether l values occur."""
        verdict: BoolArray = distinct_values(self.values_of(classes)) >= self.l
        return verdict

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether l values have a share: however small it is, rounding does not make one."""
        return self.holds(ClassHistograms.of_shares(shares), whole)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) how many values occur."""
        return distinct_values(self.values_of(classes)).astype(float)

    def why_unreachable(self, whole: Whole) -> str | None:
        """Say so if fewer than l values occur in the table."""
        occurring = int(np.count_nonzero(self.values_of(whole)))
        if occurring >= self.l:
            return None
        return f"{self.subject}: l = {self.l} but only {occurring} values occur"

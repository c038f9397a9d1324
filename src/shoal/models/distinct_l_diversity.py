"""Distinct l-diversity: a class has at least l different sensitive values."""

from __future__ import annotations

from typing import ClassVar

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
    def curve(self) -> Curve:
        """Only the number of different values counts."""
        return Curve(distinct=self.l)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether l values have a share: however small it is, rounding does not make one."""
        return self.holds(ClassHistograms.of_shares(shares), whole)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) how many values occur."""
        return distinct_values(self.values_of(classes)).astype(float)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Say how many values there are."""
        return f"l = {self.l} but only {reached:.0f} values occur"

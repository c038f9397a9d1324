"""Simple l-diversity: no sensitive value has more than 1/l of a class."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.models.base import RULED_OUT, SKEWNESS, ClassHistograms, Curve, ValueModel, Whole, number, round_down
from shoal.models.exact import fraction, largest_counts, quotient


class SimpleLDiversity(ValueModel):
    """No sensitive value has more than 1/l of a class: a guess is right with probability 1/l at most.

    Tian and Zhang, "Extending l-diversity for better data anonymization", Definition 1.

    >>> SimpleLDiversity(l=2).holds(ClassHistograms.of([[2, 2], [3, 1]]), Whole.of([5, 3]))
    array([ True, False])
    """

    name = "simple-l-diversity"
    title = "no sensitive value has more than 1/l of a class"
    explanation = "Whoever guesses somebody's sensitive value is right with a probability of 1/l at most."
    example = "With l = 4 no diagnosis has more than a quarter of a class."
    usual: ClassVar = {"l": 2}
    weaknesses = f"{RULED_OUT} {SKEWNESS}"
    achieved_is = "at least"
    judges_beliefs = True

    l: float = Field(ge=1, allow_inf_nan=False, description="the most frequent value has at most 1/l of a class")

    @property
    def curve(self) -> Curve:
        """One limit, on the most frequent value."""
        return Curve((1 / fraction(self.l),))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) n / r1."""
        return quotient(classes.sizes, largest_counts(self.values_of(classes)), if_zero=0.0)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Say which l the most frequent value allows."""
        return (
            f"l = {number(self.l)} but the most frequent value alone lets the whole table "
            f"reach only {round_down(reached, 2)}; ask for at most that"
        )

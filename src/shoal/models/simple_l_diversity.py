"""Simple l-diversity: no sensitive value has more than 1/l of a class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.models.base import RULED_OUT, SKEWNESS, ClassHistograms, Curve, DisclosureModel, Whole, number, round_down
from shoal.models.exact import fraction, largest_counts, quotient


class SimpleLDiversity(DisclosureModel):
    """No sensitive value has more than 1/l of a class: a guess is right with probability at most 1/l.

    Tian and Zhang, "Extending l-diversity for better data anonymization", Definition 1.

    >>> SimpleLDiversity(l=2).holds(ClassHistograms.of([[2, 2], [3, 1]]), Whole.of([5, 3]))
    array([ True, False])
    """

    name = "simple-l-diversity"
    title = "no sensitive value has more than 1/l of a class"
    explanation = "A guess at a person's sensitive value is right with a probability of at most 1/l."
    example = "With l = 4, no diagnosis has more than a quarter of a class."
    usual: ClassVar = {"l": 2}
    weaknesses = f"{RULED_OUT} {SKEWNESS}"
    achieved_is = "at least"
    judges_beliefs = True

    l: float = Field(ge=1, allow_inf_nan=False, description="the most frequent value has at most 1/l of a class")

    @property
    def bounds(self) -> Curve:
        return Curve((1 / fraction(self.l),))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) n / r1; the number of records of the table if all values are harmless."""
        largest = largest_counts(self.values_of(self.harmful_of(classes, whole)))
        return np.where(classes.sizes > 0, quotient(classes.sizes, largest, if_zero=whole.size), 0.0)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return (
            f"l = {number(self.l)} but the most frequent value alone lets the whole table "
            f"reach only {round_down(reached, 2)}; ask for at most that"
        )

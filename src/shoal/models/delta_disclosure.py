"""delta-disclosure privacy: looking up a person changes no value's probability much."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import PRESENCE, ClassHistograms, DisclosureModel, Whole
from shoal.models.exact import RATIO_ERROR, extreme_products, quotient


class DeltaDisclosure(DisclosureModel):
    """Every value's share in a class is within a factor of exp(delta) of its share in the table.

    Brickell and Shmatikov, "The cost of privacy", KDD 2008: |ln(p / q)| < delta, strictly, for every value
    of the table; so each occurs in every class. For a rational delta other than 0 equality is impossible, because
    exp(delta) is irrational; ratios too close to compare in floating point do not hold.

    >>> classes = ClassHistograms.of([[3, 1], [4, 0]])
    >>> DeltaDisclosure(delta=1).holds(classes, Whole.of([5, 3]))
    array([ True, False])
    """

    name = "delta-disclosure"
    title = "every sensitive value is as frequent in a class as in the table, to a factor of exp(delta)"
    explanation = "Looking up a person makes no value much more or much less likely."
    example = "With delta = 1, a value is at most 2.7 times as frequent in a class as in the table, and the reverse."
    usual: ClassVar = {"delta": 2}
    weaknesses = f"It bounds ratios to the whole table, whose frequencies are themselves published. {PRESENCE}"
    achieved_is = "at most"
    bounded_by = "delta"
    relative_to_whole = True

    delta: float = Field(gt=0, allow_inf_nan=False, description="|ln(p / q)| of every value is below this")

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether |ln(p / q)| < delta for every value of the table."""
        return np.asarray(self.reach(classes, whole) < self.delta - RATIO_ERROR * (1.0 + self.delta))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the largest |ln(p / q)|, infinity if a value of the table is absent."""
        harmful = self.find_harmful(whole)
        given = self.values_of(classes)[:, harmful], classes.sizes, self.values_of(whole)[harmful], whole.size
        low, high = (quotient(*extreme_products(*given, grown=one), if_zero=math.inf) for one in (False, True))
        with np.errstate(divide="ignore"):  # ln 0 is minus infinity, as intended
            reached = np.maximum(np.log(high), -np.log(low))
        return np.where(classes.sizes > 0, reached, math.inf)

"""beta-likeness: looking up a person makes no value much more likely."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import PRESENCE, ClassHistograms, DisclosureModel, Whole
from shoal.models.exact import RATIO_ERROR, at_most, extreme_products, fraction, products, quotient, row_blocks


class BetaLikeness(DisclosureModel):
    """No value's share in a class exceeds its share in the table by more than beta times the latter.

    Cao and Karras, "Publishing microdata with a robust privacy guarantee", PVLDB 5(11), 2012. With p the
    share in a class and q in the table, (p - q) / q <= beta for every value with p > q; in the enhanced form
    (p - q) / q <= min(beta, -ln q), which keeps common values from becoming certain. Only the logarithm is
    compared in floating point, with a tolerance that refuses.

    >>> classes = ClassHistograms.of([[3, 1], [1, 3]])
    >>> BetaLikeness(beta=1).holds(classes, Whole.of([6, 2]))
    array([ True, False])
    """

    name = "beta-likeness"
    title = "no sensitive value is more than 1 + beta times as frequent in a class as in the table"
    explanation = "Looking up a person makes no value, not even a rare one, more than 1 + beta times as likely."
    example = "With beta = 1, a disease with a prevalence of 1% has a probability of at most 2% for every person."
    usual: ClassVar = {"beta": 2}
    weaknesses = f"It bounds how much more likely a value becomes, not how much less likely. {PRESENCE}"
    achieved_is = "at most"
    bounded_by = "beta"
    relative_to_whole = True

    beta: float = Field(gt=0, allow_inf_nan=False, description="largest relative gain of a value's share")
    enhanced: bool = Field(default=False, description="also bound the gain of a value of share q by -ln q")

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether c N <= (1 + beta) C n for every value, in exact arithmetic."""
        harmful = self.find_harmful(whole)
        counts, whole_counts = self.values_of(classes)[:, harmful], self.values_of(whole)[harmful]
        limit = 1 + fraction(self.beta)
        # (n_values,) the limit of p / q by the logarithm, reduced by more than the rounding error
        surely = (1.0 + np.log(whole.size / np.maximum(whole_counts, 1))) * (1.0 - RATIO_ERROR)
        verdict = classes.sizes > 0
        for rows in row_blocks(counts):
            inside, outside = products(counts[rows], classes.sizes[rows, np.newaxis], whole_counts, whole.size)
            fits = at_most(inside, limit, outside)
            if self.enhanced:
                fits &= (inside <= outside) | (inside.astype(float) <= outside.astype(float) * surely)
            verdict[rows] &= fits.all(axis=1)
        return verdict

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the largest (p - q) / q, 0 if no share grows, enhanced or not."""
        harmful = self.find_harmful(whole)
        given = self.values_of(classes)[:, harmful], classes.sizes, self.values_of(whole)[harmful], whole.size
        inside, outside = extreme_products(*given, grown=True)
        gained = quotient(inside - outside, outside, if_zero=math.inf)
        return np.where(classes.sizes > 0, np.maximum(gained, 0.0), math.inf)

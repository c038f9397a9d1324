"""(alpha,k)-anonymity: classes of k records in which no sensitive value has more than the share alpha."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.models.base import SIMILARITY, ClassHistograms, Curve, DisclosureModel, Whole, number, round_up
from shoal.models.exact import fraction, largest_counts, quotient


class AlphaKAnonymity(DisclosureModel):
    """Every class has k records, and no sensitive value has more than the share alpha of them.

    Wong, Li, Fu and Wang, "(alpha, k)-anonymity", KDD 2006; in its general form, for every sensitive value.

    >>> classes = ClassHistograms.of([[2, 2], [3, 1], [1, 1]])
    >>> AlphaKAnonymity(alpha=0.5, k=3).holds(classes, Whole.of([6, 4]))
    array([ True, False, False])
    """

    name = "alpha-k-anonymity"
    title = "every class has k records, and no sensitive value more than the share alpha of them"
    explanation = "k-anonymity, and no sensitive value has more than the share alpha of a class."
    example = "With alpha = 0.5 and k = 10, ten records fit every person, and at most half of them share a diagnosis."
    usual: ClassVar = {"alpha": 0.5, "k": 5}
    weaknesses = f"It bounds the most frequent value only. {SIMILARITY}"
    achieved_is = "at most"
    bounded_by = "alpha"

    alpha: float = Field(gt=0, le=1, description="largest share of a sensitive value in a class")
    k: int = Field(ge=1, description="minimum number of records per class")

    @property
    def bounds(self) -> Curve:
        return Curve((fraction(self.alpha),), records=self.k)

    @property
    def smallest_class(self) -> int:
        return self.k if self.harmless else super().smallest_class

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the share of the most frequent value."""
        return quotient(
            largest_counts(self.values_of(self.harmful_of(classes, whole))), classes.sizes, if_zero=math.inf
        )

    def explain_shortfall(self, whole: Whole, reached: float) -> str:
        if whole.size < self.k:
            return f"k = {self.k} but the number of records is {whole.size}; ask for at most that"
        return (
            f"alpha = {number(self.alpha)} but the most frequent value has a share of "
            f"{round_up(reached, 4)} of the whole table; ask for at least that"
        )

"""(alpha,k)-anonymity: k records a class, and no sensitive value on more than a share alpha of them."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import SIMILARITY, ClassHistograms, Curve, ValueModel, Whole, number, round_up
from shoal.models.exact import at_most, fraction, largest_counts, quotient


class AlphaKAnonymity(ValueModel):
    """Every class has k records, and no sensitive value has more than the share alpha of them.

    Wong, Li, Fu and Wang, "(alpha, k)-anonymity", KDD 2006; in its general form, for every sensitive value.

    >>> classes = ClassHistograms.of([[2, 2], [3, 1], [1, 1]])
    >>> AlphaKAnonymity(alpha=0.5, k=3).holds(classes, Whole.of([6, 4]))
    array([ True, False, False])
    """

    name = "alpha-k-anonymity"
    title = "every class has k records, and no sensitive value more than the share alpha of them"
    explanation = "k-anonymity, and no sensitive value has more than the share alpha of a class."
    example = "With alpha = 0.5 and k = 10 ten records fit everybody, and at most half of them share a diagnosis."
    usual: ClassVar = {"alpha": 0.5, "k": 5}
    weaknesses = f"It bounds the most frequent value only. {SIMILARITY}"
    achieved_is = "at most"

    alpha: float = Field(gt=0, le=1, description="largest share of a sensitive value in a class")
    k: int = Field(ge=1, description="minimum number of records per class")

    @property
    def smallest_class(self) -> int:
        """One record of n is 1/n of the class, so that n must reach 1/alpha, and k."""
        return max(self.k, math.ceil(1 / fraction(self.alpha)))

    @property
    def curve(self) -> Curve:
        """A limit on the most frequent value, and k records."""
        return Curve((fraction(self.alpha),), records=self.k)

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether n >= k and r1 <= alpha n, exactly."""
        most = largest_counts(self.values_of(classes))
        return at_most(most, fraction(self.alpha), classes.sizes) & (classes.sizes >= self.k * classes.unit)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) the share of the most frequent value, whatever the size."""
        return quotient(largest_counts(self.values_of(classes)), classes.sizes, if_zero=math.inf)

    def why_unreachable(self, whole: Whole) -> str | None:
        """Say so if the table has fewer than k records, or a value on more than alpha of them."""
        if whole.size < self.k:
            return f"{self.subject}: k = {self.k} but the table has only {whole.size} records"
        alone = whole.as_class()
        if bool(self.holds(alone, whole)[0]):
            return None
        return (
            f"{self.subject}: alpha = {number(self.alpha)} but the most frequent value has a share of "
            f"{round_up(self.worst(alone, whole), 4)} of the whole table; ask for at least that"
        )

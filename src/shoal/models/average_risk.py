"""Average risk: the mean chance of re-identification over all records."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import FloatArray, IntArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, TableModel, Whole, number
from shoal.models.exact import fraction, quotient


class AverageRisk(TableModel):
    """The average chance of re-identification, classes over records, is at most *risk*.

    El Emam, "Guide to the de-identification of personal health information", 2013. A record of a class of n is matched
    rightly with a chance of 1/n; summed over the class that is 1, so the mean over the table is classes / records.

    >>> import numpy as np
    >>> model = AverageRisk(risk=0.5)
    >>> model.holds_together(np.array([1, 3])), model.holds_together(np.array([1, 2]))
    (True, False)
    """

    name = "average-risk"
    title = "records are re-identified with an average chance of at most risk"
    explanation = (
        "Whoever looks people up by their quasi values finds the right record with at most this average chance."
    )
    example = "With risk = 0.05 the classes have 20 records on average; a few may be small."
    usual: ClassVar = {"risk": 0.05}
    weaknesses = (
        "It is about the average: single records may be unique, so add k-anonymity with a small k. "
        f"{SAYS_NOTHING_OF_VALUES}"
    )

    risk: float = Field(gt=0, le=1, description="largest average chance of re-identification")

    @property
    def enough(self) -> int:
        """A class of n records has a risk of 1/n, and an average is no higher than the highest."""
        return math.ceil(1 / fraction(self.risk))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) 1/n."""
        return quotient((classes.sizes > 0).astype(float), classes.sizes, if_zero=math.inf)

    def holds_together(self, sizes: IntArray) -> bool:
        """Whether classes / records <= risk, exactly."""
        return len(sizes) <= fraction(self.risk) * int(sizes.sum())

    def reach_together(self, sizes: IntArray) -> float:
        """Return classes / records."""
        return len(sizes) / int(sizes.sum())

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"risk = {number(self.risk)} takes at least {self.enough} records; the table has only {whole.size}"

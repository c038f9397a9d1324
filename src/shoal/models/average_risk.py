"""Average risk: the mean probability of re-identification over all records."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import FloatArray, IntArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, TableModel, Whole, number
from shoal.models.exact import fraction, quotient


class AverageRisk(TableModel):
    """The average probability of re-identification, classes / records, is at most *risk*.

    El Emam, "Guide to the de-identification of personal health information", 2013. A record in a class of n is matched
    correctly with probability 1/n. These sum to 1 for each class, so the mean over the table is classes / records.

    >>> import numpy as np
    >>> model = AverageRisk(risk=0.5)
    >>> model.holds_together(np.array([1, 3])), model.holds_together(np.array([1, 2]))
    (True, False)
    """

    name = "average-risk"
    title = "records are re-identified with an average probability of at most risk"
    explanation = (
        "An attacker who looks people up by their quasi values finds the right record with at most this probability, "
        "on average."
    )
    example = "With risk = 0.05, the classes have 20 records on average; a few may be small."
    usual: ClassVar = {"risk": 0.05}
    weaknesses = (
        "It bounds an average: single records may be unique, so add k-anonymity with a small k. "
        f"{SAYS_NOTHING_OF_VALUES}"
    )

    risk: float = Field(gt=0, le=1, description="largest average probability of re-identification")

    @property
    def enough(self) -> int:
        """A class of n records has the risk 1/n, and the average is at most the maximum."""
        return math.ceil(1 / fraction(self.risk))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        return quotient((classes.sizes > 0).astype(float), classes.sizes, if_zero=math.inf)

    def holds_together(self, sizes: IntArray) -> bool:
        """Whether classes / records <= risk, in exact arithmetic."""
        return len(sizes) <= fraction(self.risk) * int(sizes.sum())

    def reach_together(self, sizes: IntArray) -> float:
        return len(sizes) / int(sizes.sum())

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"risk = {number(self.risk)} takes at least {self.enough} records; the table has only {whole.size}"

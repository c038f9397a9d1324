"""Sample uniqueness: the share of records whose quasi values no other record of the table has."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import IntArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, TableModel
from shoal.models.exact import fraction


class SampleUniqueness(TableModel):
    """At most the share *fraction* of the published records is unique on its quasi values.

    Skinner and Elliot, "A measure of disclosure risk for microdata", J. Royal Statistical Society B 64, 2002.

    >>> model = SampleUniqueness(fraction=0.1)
    >>> model.holds_together(np.array([1, 9])), model.holds_together(np.array([1, 8]))
    (True, False)
    """

    name = "sample-uniqueness"
    title = "at most the share fraction of the records is unique on its quasi values"
    explanation = "Few published records, or none, have a combination of quasi values that no other record has."
    example = "With fraction = 0.01, at most one record in a hundred is unique on its quasi values."
    usual: ClassVar = {"fraction": 0.01}
    weaknesses = (
        "The unique records that it allows can be singled out, and classes of two are not counted. "
        f"{SAYS_NOTHING_OF_VALUES}"
    )

    fraction: float = Field(ge=0, lt=1, description="largest share of records that are unique")

    def holds_together(self, sizes: IntArray) -> bool:
        """Whether unique records / records <= fraction, in exact arithmetic."""
        return int(np.count_nonzero(sizes == 1)) <= fraction(self.fraction) * int(sizes.sum())

    def reach_together(self, sizes: IntArray) -> float:
        return int(np.count_nonzero(sizes == 1)) / int(sizes.sum())

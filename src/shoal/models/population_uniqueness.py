"""Population uniqueness: the estimated share of the population that is unique on the published quasi values."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import IntArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, TableModel
from shoal.models.population import Rule, estimate_share

_DOUBT = 1e-9  # relative: an estimate so near to the limit does not hold


class PopulationUniquenessModel(TableModel):
    """An estimated share of at most *fraction* of the population is unique on the published quasi values.

    The table is a simple random sample of the population. The estimates are those of Zayatz, of Hoshino by Pitman's
    formula and of Chen and Keller-McNulty (``snb``); ``dankar`` is the rule of Dankar and others that chooses between
    them, and always has an answer. Where a model has no estimate the requirement does not hold.

    >>> import numpy as np
    >>> model = PopulationUniquenessModel(fraction=0.23, sample_fraction=0.2, model="zayatz")
    >>> model.holds_together(np.repeat([1, 2, 3, 4], [60, 20, 8, 4]))
    True
    """

    name = "population-uniqueness"
    merges_together = False  # estimates depend on classes of all sizes, and may rise when some are merged
    title = "an estimated share of at most fraction of the population is unique on the published quasi values"
    explanation = (
        "If the table is a sample of a larger population, at most this share of the population is estimated to be "
        "alone with its quasi values; only such people can be found for certain."
    )
    example = "With fraction = 0.01 and sample_fraction = 0.1 one in a hundred of ten times as many people is unique."
    usual: ClassVar = {"fraction": 0.01, "sample_fraction": 0.1}
    weaknesses = (
        "It is an estimate: it rests on the table being a random sample of the stated share, and models differ. "
        f"{SAYS_NOTHING_OF_VALUES}"
    )

    fraction: float = Field(ge=0, lt=1, description="largest estimated share of the population that is unique")
    sample_fraction: float = Field(gt=0, le=1, description="share of the population that the table is")
    model: Rule = Field(default="dankar", description="the estimate: dankar (a rule that chooses), pitman, snb, zayatz")

    def holds_together(self, sizes: IntArray) -> bool:
        """Whether the estimate is clearly at most the limit."""
        return self.reach_together(sizes) * (1 + _DOUBT) <= self.fraction

    def reach_together(self, sizes: IntArray) -> float:
        """Return the estimate; infinity where there is none."""
        found = estimate_share(sizes, self.sample_fraction, self.model)
        return math.inf if found is None else found

"""k-map: every label fits at least k people of the population."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, PopulationModel, Whole


class KMap(PopulationModel):
    """Every published label fits at least k people of the population table.

    Sweeney, "Computational disclosure control", thesis, MIT, 2001. An adversary who knows somebody of the
    population, but not whether this table has a record of them, finds k candidates.

    >>> classes = ClassHistograms.of([[1], [1]], population=[7, 4])
    >>> KMap(k=5, population="people.csv").holds(classes, Whole.of([2], population=11))
    array([ True, False])
    """

    name = "k-map"
    title = "every label fits at least k people of the population"
    explanation = "Every published combination fits at least k people of a population table that you add."
    example = "With k = 10 a combination may be of one record, as long as ten people of the population share it."
    usual: ClassVar = {"k": 5, "population": ""}
    weaknesses = f"{SAYS_NOTHING_OF_VALUES} It also rests on the population table being complete and of the same time."
    achieved_is = "at least"

    k: int = Field(ge=1, description="minimum number of people of the population whom a label fits")

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether the label covers k people."""
        return (self.people_of(classes) >= self.k) & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) the people that each label covers."""
        return np.where(classes.sizes > 0, self.people_of(classes), 0).astype(float)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"k = {self.k} but the population has only {self.people_in_all(whole)} records"

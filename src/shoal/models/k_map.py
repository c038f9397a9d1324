"""k-map: every label fits at least k people of the population."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, PopulationModel, Whole


class KMap(PopulationModel):
    """Every published label fits at least k people of the population table.

    Sweeney, "Computational disclosure control", thesis, MIT, 2001. An adversary who looks for a member of
    the population, but is not sure that the table has their record, finds k candidates.

    >>> classes = ClassHistograms.of([[1], [1]], population=[7, 4])
    >>> KMap(k=5, population="people.csv").holds(classes, Whole.of([2], population=11))
    array([ True, False])
    """

    name = "k-map"
    title = "every label fits at least k people of the population"
    explanation = "Every published combination fits at least k people of a population table that you provide."
    example = "With k = 10, a combination may have a single record if ten people of the population share it."
    usual: ClassVar = {"k": 5, "population": ""}
    weaknesses = f"{SAYS_NOTHING_OF_VALUES} It also assumes that the population table is complete and up to date."
    achieved_is = "at least"

    k: int = Field(ge=1, description="minimum number of people of the population whom a label fits")

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        return (self.people_of(classes) >= self.k) & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        return np.where(classes.sizes > 0, self.people_of(classes), 0).astype(float)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"k = {self.k} but the population has only {self.people_in_all(whole)} records"

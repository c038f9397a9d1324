"""delta-presence: the probability that a member of the population is in the table lies between two bounds."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import ClassHistograms, PopulationModel, Whole, number, round_down, round_up
from shoal.models.exact import at_most, fraction, quotient


class DeltaPresence(PopulationModel):
    """Each member of the population is in the table with a probability from min to max.

    Nergiz, Atzori and Clifton, "Hiding the presence of individuals from shared databases", SIGMOD 2007. The
    probability is the share of a label's people who are in the table. People whom no label covers are certainly
    absent. No class shows them; with min > 0, code that sees all labels has to check for them.

    >>> classes = ClassHistograms.of([[2], [9]], population=[10, 10])
    >>> DeltaPresence(min=0.1, max=0.5, population="people.csv").holds(classes, Whole.of([11], population=20))
    array([ True, False])
    """

    name = "delta-presence"
    title = "of the people whom a label fits, a share between min and max is in the table"
    explanation = "An attacker cannot be sure whether a member of the population is in the table."
    example = "With min = 0 and max = 0.5, at most half of the people who fit a combination are in the table."
    usual: ClassVar = {"min": 0, "max": 0.5, "population": ""}
    weaknesses = (
        "It protects membership in the table, not sensitive values, and assumes that the population table is what "
        "attackers know."
    )
    achieved_is = "at most"

    min: float = Field(ge=0, le=1, description="smallest share of a label's people who are in the table")
    max: float = Field(gt=0, le=1, description="largest share of a label's people who are in the table")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min = {number(self.min)} is above max = {number(self.max)}; exchange them")
        return self

    @property
    def merge_monotone(self) -> bool:
        """Only the upper bound is monotone: the label of a union may cover more people than both labels.

        They lower the share, which can violate the lower bound. Labels are assumed not to overlap; the union of
        overlapping labels covers fewer people than their sum.
        """
        return self.min == 0

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether min <= n / population <= max, in exact arithmetic."""
        people = self.people_of(classes)
        below = at_most(classes.sizes, fraction(self.min), people, strict=True)
        return at_most(classes.sizes, fraction(self.max), people) & ~below & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) n / population, infinity if no one is covered or published."""
        shares = quotient(classes.sizes, self.people_of(classes), if_zero=math.inf)
        shares[classes.sizes == 0] = math.inf
        return shares

    def why_unreachable(self, whole: Whole) -> str | None:
        """Explain that the table's share of the population lies outside the bounds.

        Classes that cover the population without overlap have that share on average, so one of them violates the bounds
        as well.
        """
        if bool(self.holds(whole.as_class(), whole)[0]):
            return None
        share = self.worst(whole.as_class(), whole)
        found = f"the table has {whole.size} of {self.people_in_all(whole)} people of the population"
        if share > 1:
            return f"{self.subject}: {found}; the population must contain all people of the table"
        if share > self.max:
            return f"{self.subject}: max = {number(self.max)} but {found}; ask for at least {round_up(share, 4)}"
        return f"{self.subject}: min = {number(self.min)} but {found}; ask for at most {round_down(share, 4)}"

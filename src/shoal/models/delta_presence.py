"""delta-presence: how surely somebody of the population is in the table lies between two bounds."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import ClassHistograms, PopulationModel, Whole, number, round_down, round_up
from shoal.models.exact import at_most, fraction, quotient


class DeltaPresence(PopulationModel):
    """Nobody of the population is in the table with a probability below min or above max.

    Nergiz, Atzori and Clifton, "Hiding the presence of individuals from shared databases", SIGMOD 2007. The
    probability is the share of a label's people who are in the table. People whom no label covers are surely
    absent; no class shows them, so with min > 0 whoever looks at all labels together has to check for them.

    >>> classes = ClassHistograms.of([[2], [9]], population=[10, 10])
    >>> DeltaPresence(min=0.1, max=0.5, population="people.csv").holds(classes, Whole.of([11], population=20))
    array([ True, False])
    """

    name = "delta-presence"
    title = "of the people whom a label fits, a share between min and max is in the table"
    explanation = "Nobody can be sure that a person of the population is in the table, or that they are not."
    example = "With min = 0 and max = 0.5 at most every second person who fits a combination is in the table."
    usual: ClassVar = {"min": 0, "max": 0.5, "population": ""}
    weaknesses = (
        "It is about who is in the table, not about what they have, and rests on the population table being what "
        "others know."
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
        """Only the upper bound survives: the label of a union may cover people under neither label.

        More people for the same records lower the share, which a bound from below does not forgive. Labels
        are taken not to overlap; where they do, a union covers fewer people than the two together.
        """
        return self.min == 0

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether min <= n / population <= max, exactly."""
        people = self.people_of(classes)
        below = at_most(classes.sizes, fraction(self.min), people, strict=True)
        return at_most(classes.sizes, fraction(self.max), people) & ~below & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) n / population, infinity where nobody is covered or published."""
        shares = quotient(classes.sizes, self.people_of(classes), if_zero=math.inf)
        shares[classes.sizes == 0] = math.inf
        return shares

    def why_unreachable(self, whole: Whole) -> str | None:
        """Say so if the table's share of the population lies outside the bounds.

        Classes that cover the population without overlap have that share on average, so that one of them
        lies outside as well.
        """
        if bool(self.holds(whole.as_class(), whole)[0]):
            return None
        share = self.worst(whole.as_class(), whole)
        found = f"the table has {whole.size} of {self.people_in_all(whole)} people of the population"
        if share > 1:
            return f"{self.subject}: {found}: a population contains everybody of the table"
        if share > self.max:
            return f"{self.subject}: max = {number(self.max)} but {found}; ask for at least {round_up(share, 4)}"
        return f"{self.subject}: min = {number(self.min)} but {found}; ask for at most {round_down(share, 4)}"

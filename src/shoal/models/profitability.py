"""Profitability: re-identifying a record does not pay."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, Curve, PrivacyModel, Whole, number
from shoal.models.exact import fraction, quotient


class Profitability(PrivacyModel):
    """An attack on a record costs at least its average gain, which deters a rational attacker.

    Wan et al., "A game theoretic framework for analyzing re-identification risk", PLoS ONE 10(3), 2015: an
    attacker who looks for a person in the table picks the right one of n records of a class with probability 1/n.

    >>> classes = ClassHistograms.of([[3, 1], [2, 1]])
    >>> Profitability(gain=1, cost=0.25).holds(classes, Whole.of([5, 2]))
    array([ True, False])
    """

    name = "profitability"
    title = "an attack on a record gains at most its cost on average"
    explanation = "An attempt to re-identify a record gains no more on average than it costs."
    example = "With gain = 300 and cost = 20, every class has at least 15 records."
    usual: ClassVar = {"gain": 300, "cost": 20}
    weaknesses = (
        "It deters rational attackers only: curiosity, malice, and attacks that are cheaper or more valuable than "
        f"stated are not covered. {SAYS_NOTHING_OF_VALUES}"
    )
    sees = "sizes"
    achieved_is = "at most"

    gain: float = Field(gt=0, allow_inf_nan=False, description="what a re-identified record is worth to an attacker")
    cost: float = Field(gt=0, allow_inf_nan=False, description="what one attempt costs an attacker, in the same unit")

    @property
    def curve(self) -> Curve:
        """gain / n <= cost: a class of at least gain / cost records."""
        return Curve(records=math.ceil(fraction(self.gain) / fraction(self.cost)))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) gain / n, the smallest cost that deters attacks."""
        return quotient(np.full(len(classes.sizes), self.gain * classes.unit), classes.sizes, if_zero=math.inf)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        asked = f"gain = {number(self.gain)} and cost = {number(self.cost)}"
        return f"{asked} take at least {self.smallest_class} records; the table has only {whole.size}"

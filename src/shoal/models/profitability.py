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
    """An attack on any record costs at least what it gains on average, so that a rational attacker makes none.

    Wan et al., "A game theoretic framework for analyzing re-identification risk", PLoS ONE 10(3), 2015: whoever knows
    that somebody is in the table matches the right one of the n records of a class with a chance of 1/n.

    >>> classes = ClassHistograms.of([[3, 1], [2, 1]])
    >>> Profitability(gain=1, cost=0.25).holds(classes, Whole.of([5, 2]))
    array([ True, False])
    """

    name = "profitability"
    title = "an attack on a record gains at most its cost on average"
    explanation = "Whoever tries to re-identify a record gains no more on average than the attempt costs."
    example = "With gain = 300 and cost = 20 every class has at least 15 records."
    usual: ClassVar = {"gain": 300, "cost": 20}
    weaknesses = (
        "It is about attackers who reckon: curiosity, malice and cheaper or more valuable attacks than stated are not "
        f"covered. {SAYS_NOTHING_OF_VALUES}"
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
        """Return (n_classes,) gain / n: the cost from which on attacks do not pay."""
        return quotient(np.full(len(classes.sizes), self.gain * classes.unit), classes.sizes, if_zero=math.inf)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Say how many records it takes, and how many there are."""
        asked = f"gain = {number(self.gain)} and cost = {number(self.cost)}"
        return f"{asked} take at least {self.smallest_class} records; the table has only {whole.size}"

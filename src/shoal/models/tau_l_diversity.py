"""(tau,l)-diversity: the k most frequent values of a class stay under a curve, for every k."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import SIMILARITY, SKEWNESS, ClassHistograms, Curve, DisclosureModel, Whole, number, round_up
from shoal.models.exact import at_most, fraction, largest_sums

_ROUNDING = 1e-14


class TauLDiversity(DisclosureModel):
    """The k most frequent values of a class have at most the share psi(k) of it, for every k.

    Tian and Zhang, "Extending l-diversity for better data anonymization", Definition 4. The curve psi runs
    straight from psi(1) = tau to psi(l) = 1 unless another increasing one is given.

    >>> classes = ClassHistograms.of([[2, 1, 1, 0], [2, 2, 0, 0]])
    >>> TauLDiversity(tau=0.5, l=3).holds(classes, Whole.of([4, 3, 1, 0]))
    array([ True, False])
    """

    name = "tau-l-diversity"
    title = "the k most frequent sensitive values of every class stay under a curve from tau to 1 at l"
    explanation = "For one or several guesses at a sensitive value, the probability of being right stays under a curve."
    example = "With tau = 0.5 and l = 3, one value has at most half of a class, and two have at most three quarters."
    usual: ClassVar = {"tau": 0.5, "l": 3}
    weaknesses = f"{SIMILARITY} {SKEWNESS}"
    achieved_is = "at most"
    judges_beliefs = True
    judges_induced = True

    tau: float = Field(gt=0, le=1, description="largest share of the most frequent value in a class")
    l: int = Field(ge=2, le=100_000, description="number of values at which the curve reaches 1")
    psi: tuple[float, ...] | None = Field(
        default=None, description="the curve's l non-decreasing points from tau to 1; by default a straight line"
    )

    weights: dict[str, float] | None = Field(
        default=None,
        description="an adversary's prior probability of each sensitive value of a generalized record, by value; "
        "by default all values of the table are equally likely",
    )

    @field_validator("weights", mode="before")
    @classmethod
    def _texts(cls, raw: object) -> object:
        return {str(value): weight for value, weight in raw.items()} if isinstance(raw, dict) else raw

    @field_validator("weights")
    @classmethod
    def _finite(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        if weights is not None and not all(math.isfinite(weight) and weight >= 0 for weight in weights.values()):
            raise ValueError("weights must be finite numbers of at least 0")
        return weights

    @model_validator(mode="after")
    def _curve(self) -> Self:
        if self.psi is None:
            return self
        if len(self.psi) != self.l:
            raise ValueError(f"psi has {len(self.psi)} points; give l = {self.l} of them")
        if self.psi[0] != self.tau or self.psi[-1] != 1:
            raise ValueError(f"psi must begin with tau = {number(self.tau)} and end with 1")
        rises = all(first <= second for first, second in zip(self.psi, self.psi[1:], strict=False))
        if not rises:
            raise ValueError("psi must never fall from one point to the next")
        return self

    @property
    def limits(self) -> tuple[Fraction, ...]:
        """psi(1), ..., psi(l) as exact numbers.

        >>> TauLDiversity(tau=0.5, l=3).limits
        (Fraction(1, 2), Fraction(3, 4), Fraction(1, 1))
        """
        if self.psi is not None:
            return tuple(fraction(point) for point in self.psi)
        tau = fraction(self.tau)
        return tuple(tau + (1 - tau) * Fraction(k, self.l - 1) for k in range(self.l))

    @property
    def values_needed(self) -> int:
        """The number of different values that a class must have: the first k with psi(k) = 1."""
        return self.limits.index(1) + 1

    @property
    def bounds(self) -> Curve:
        """The limits below 1."""
        needed = self.values_needed
        return Curve(self.limits[: needed - 1], needed)

    def holds_true(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether every value has at most max(tau, its share in the whole table).

        Labels hide values from the curve, but not from a reader who uses the method and the base rates.

        >>> classes = ClassHistograms.of([[3, 1, 0], [2, 2, 0], [7, 2, 1]])
        >>> TauLDiversity(tau=0.5, l=2).holds_true(classes, Whole.of([7, 2, 1]))
        array([False,  True,  True])
        """
        harmful = self.find_harmful(whole)
        counts, usual = self.values_of(classes)[:, harmful], self.values_of(whole)[harmful]
        capped = at_most(counts, fraction(self.tau), classes.sizes[:, np.newaxis])
        return np.asarray((capped | (counts * whole.size <= usual * classes.sizes[:, np.newaxis])).all(axis=1))

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the smallest tau that holds with this l.

        All 1 - psi(k) are scaled by one factor. A straight line thus becomes the straight line from the other tau.
        """
        weights = self._weights()
        sums = largest_sums(self.values_of(self.harmful_of(classes, whole)), len(weights))
        size = np.maximum(classes.sizes, 1)
        # F(k) <= 1 - (1 - tau) w(k), so 1 - tau <= (1 - F(k)) / w(k)
        room = np.ones(len(size), dtype=np.float64)
        for column in range(sums.shape[1]):
            rest = (classes.sizes - sums[:, column]) / size
            room = np.minimum(room, rest / float(weights[column]))
        reached = np.where(classes.sizes > 0, 1.0 - room, math.inf)
        # a class that just satisfies tau reaches tau, not a neighbouring float
        return np.where(np.abs(reached - self.tau) < _ROUNDING, self.tau, reached)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:
        occurring = int(np.count_nonzero(self.values_of(whole)))
        if self.harmless or occurring >= self.values_needed:
            return (
                f"tau = {number(self.tau)} with l = {self.l} but the most frequent values have too large a share of "
                f"the whole table; with this l, ask for a tau of at least {round_up(reached, 4)}"
            )
        found = f"l = {self.l} but the number of values is only {occurring}; ask for at most that"
        if self.psi is not None or occurring < 2:
            return found
        smallest = self.model_copy(update={"l": occurring}).worst(whole.as_class(), whole)
        tau = number(max(self.tau, float(round_up(smallest, 4))))
        return f"{found}: the nearest that can be reached is tau = {tau} with l = {occurring}"

    def _weights(self) -> list[Fraction]:
        """Return the non-zero (1 - psi(k)) / (1 - tau); for tau = 1 use the straight line."""
        if self.tau == 1:
            return [1 - Fraction(k, self.l - 1) for k in range(self.l - 1)]
        scale = 1 - self.limits[0]
        return [(1 - limit) / scale for limit in self.limits[: self.values_needed - 1]]

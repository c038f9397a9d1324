"""Noise and choices of OpenDP, and an exact account of what they cost.

Two tables are neighbours if one has a record more. A record counts once in every table of counts, so the counts of
two neighbours differ by 1 in one cell: their distance is 1 in every norm, and 1 is what all mechanisms are given.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.plan.synthetic import Spent

_LAST_DIGITS = Fraction(1, 10**9)  # of a budget of rho: its epsilon is found in steps of 10**-12


@dataclass(slots=True)
class Mechanisms:
    """Draws noise from OpenDP until the budget is used up; asking for more is an error.

    Without a delta losses are epsilons and counts get discrete Laplace noise; with one they are rhos of
    zero-concentrated privacy and noise is discrete Gaussian. Both add up.
    """

    budget: Fraction  # in units of the measure: epsilon, or rho
    delta: float = 0.0
    ledger: list[Spent] = field(default_factory=list)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Mechanisms:
        """Return mechanisms that together lose at most this much."""
        if delta == 0.0:
            return cls(Fraction(epsilon))
        return cls(Fraction(_largest_rho(epsilon, delta)) * (1 - _LAST_DIGITS), delta)

    @property
    def spent(self) -> Fraction:
        """The sum of all losses so far, exactly."""
        return sum((Fraction(entry.loss) for entry in self.ledger), Fraction(0))

    @property
    def left(self) -> Fraction:
        """The share of the budget that is not spent yet, exactly."""
        return 1 - self.spent / self.budget

    def noisy_counts(self, counts: IntArray, share: Fraction, purpose: str) -> tuple[IntArray, float]:
        """Return counts with noise that costs a share of the budget, and the variance of the noise of each."""
        measurement, scale = self._within(self._noise, share)
        self._book(purpose, scale, measurement)
        noisy = np.array(measurement(counts.ravel().tolist()), dtype=np.int64)
        return noisy.reshape(counts.shape), (scale * scale if self.delta else 2.0 * scale * scale)

    def largest(self, scores: list[int], share: Fraction, purpose: str) -> int:
        """Return the place of a score that is probably the largest; one record more changes no score by more than 1."""
        measurement, scale = self._within(self._choice, share)
        self._book(purpose, scale, measurement)
        return int(measurement(scores))

    def mean_noise(self, share: float) -> float:
        """Return about how far, on average, a count is moved by noise that costs this share."""
        loss = share * float(self.budget)
        return 1.0 / math.sqrt(math.pi * loss) if self.delta else 1.0 / loss

    def state_loss(self) -> dict[str, float]:
        """Return epsilon and delta of everything together, rounded up; of a sum of rhos what OpenDP makes of it."""
        loss = round_up(self.spent)
        if not self.delta:
            return {"epsilon": loss, "delta": 0.0}
        return {"epsilon": epsilon_of(loss, self.delta), "delta": self.delta, "rho": loss}

    def _book(self, purpose: str, scale: float, measurement: Any) -> None:
        loss = float(measurement.map(1))
        if self.spent + Fraction(loss) > self.budget:
            raise UsageError("the privacy budget is used up; nothing was published")
        self.ledger.append(Spent(purpose, scale, loss))

    def _within(self, make: Callable[[float], Any], share: Fraction) -> tuple[Any, float]:
        """Return the mechanism with the least noise whose stated loss is within a share of the budget."""
        allowed = self.budget * share
        ratio = float(make(1.0).map(1)) / float(allowed)
        scale = math.sqrt(ratio) if self.delta else ratio
        measurement = make(scale)
        while Fraction(float(measurement.map(1))) > allowed:  # by the last digits, which OpenDP rounds against us
            scale *= 1.0 + 2.0**-40
            measurement = make(scale)
        return measurement, scale

    def _noise(self, scale: float) -> Any:
        """Return the measurement that adds noise to counts."""
        dp = opendp()
        make, distance = (dp.m.make_gaussian, dp.l2_distance) if self.delta else (dp.m.make_laplace, dp.l1_distance)
        return make(dp.vector_domain(dp.atom_domain(T="i64")), distance(T="i64"), scale)

    def _choice(self, scale: float) -> Any:
        """Return the measurement that chooses among scores."""
        dp = opendp()
        measure = dp.zero_concentrated_divergence() if self.delta else dp.max_divergence()
        scores = dp.vector_domain(dp.atom_domain(T="i64"))
        return dp.m.make_noisy_max(scores, dp.linf_distance(T="i64"), measure, scale)


@cache
def epsilon_of(rho: float, delta: float) -> float:
    """Return the epsilon that OpenDP states, at this delta, for a loss of *rho* or a little more; perhaps infinite."""
    dp = opendp()
    scale = math.sqrt(0.5 / rho)
    while True:
        noise = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale)
        if float(noise.map(1)) >= rho:
            try:
                return float(dp.c.make_zCDP_to_approxDP(noise).map(1).epsilon(delta))
            except dp.OpenDPException:  # more than its arithmetic can hold
                return math.inf
        scale *= 1.0 - 2.0**-40


@cache
def _largest_rho(epsilon: float, delta: float) -> float:
    """Return nearly the largest rho that is epsilon, delta: from below, by halving."""
    low, high = 0.0, epsilon  # rho = epsilon would be far too much for any delta below 1 / 10
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def round_up(number: Fraction) -> float:
    """Return the smallest float that is not below.

    >>> round_up(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def measure_distance(counts: IntArray, estimate: FloatArray) -> int:
    """Return the summed distance between counts and a fixed estimate; one record more changes it by 1 at most."""
    return int(np.abs(counts - np.rint(estimate).astype(np.int64)).sum())


@cache
def opendp() -> Any:
    """Return OpenDP, with the parts that are proven in papers but not yet by its own reviewers."""
    try:
        library = importlib.import_module("opendp.prelude")
    except ImportError:
        raise UsageError("differentially private tables need OpenDP: pip install 'shoal[synthetic]'") from None
    library.enable_features("contrib")
    return library

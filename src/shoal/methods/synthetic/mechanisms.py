"""Noise and choices of OpenDP, and an exact account of what they cost.

Two tables are neighbours if one has a record more. A record counts once in every table of counts, so the counts of
two neighbours differ by 1 in one cell: their distance is 1 in every norm, and 1 is what all mechanisms are told.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
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
class Mechanisms(ABC):
    """Draws noise from OpenDP until the budget is used up; asking for more is an error."""

    budget: Fraction  # in units of the measure: epsilon, or rho
    ledger: list[Spent] = field(default_factory=list)

    @property
    def spent(self) -> Fraction:
        """The sum of all losses so far, exactly."""
        return sum((Fraction(entry.loss) for entry in self.ledger), Fraction(0))

    def noisy_counts(self, counts: IntArray, share: Fraction, purpose: str) -> tuple[IntArray, float]:
        """Return counts with noise that costs a share of the budget, and the variance of the noise of each."""
        measurement, scale = self._within(self._noise, share)
        self._book(purpose, scale, self._loss(measurement))
        noisy = np.array(measurement(counts.ravel().tolist()), dtype=np.int64)
        return noisy.reshape(counts.shape), self._variance(scale)

    def largest(self, scores: list[int], share: Fraction, purpose: str) -> int:
        """Return the place of a score that is probably the largest; one record more changes no score by more than 1."""
        measurement, scale = self._within(self._choice, share)
        self._book(purpose, scale, float(measurement.map(1)))
        return int(measurement(scores))

    def mean_noise(self, share: Fraction) -> float:
        """Return how far, on average, a count is moved by noise that costs this share."""
        return self._mean_size(self._within(self._noise, share)[1])

    def _book(self, purpose: str, scale: float, loss: float) -> None:
        if self.spent + Fraction(loss) > self.budget:
            raise UsageError("the privacy budget is used up; nothing was published")
        self.ledger.append(Spent(purpose, scale, loss))

    def _within(self, make: Any, share: Fraction) -> tuple[Any, float]:
        """Return the mechanism with the least noise whose stated loss is within a share of the budget."""
        allowed = self.budget * share
        scale = self._guess(make, float(allowed))
        measurement = make(scale)
        while Fraction(self._loss(measurement)) > allowed:  # by the last digits, which OpenDP rounds against us
            scale *= 1.0 + 2.0**-40
            measurement = make(scale)
        return measurement, scale

    def _loss(self, measurement: Any) -> float:
        return float(measurement.map(1))

    @abstractmethod
    def _guess(self, make: Any, loss: float) -> float:
        """Return about the scale at which a mechanism loses this much."""

    @abstractmethod
    def _noise(self, scale: float) -> Any:
        """Return the measurement that adds noise to counts."""

    @abstractmethod
    def _choice(self, scale: float) -> Any:
        """Return the measurement that chooses among scores."""

    @abstractmethod
    def _variance(self, scale: float) -> float:
        """Return the variance of the noise."""

    @abstractmethod
    def _mean_size(self, scale: float) -> float:
        """Return the mean size of the noise."""

    @abstractmethod
    def state_loss(self) -> dict[str, float]:
        """Return epsilon and delta of everything together, rounded up."""


@dataclass(slots=True)
class PureMechanisms(Mechanisms):
    """Losses are epsilons, which add up; counts get discrete Laplace noise."""

    def _guess(self, make: Any, loss: float) -> float:
        return float(make(1.0).map(1)) / loss

    def _noise(self, scale: float) -> Any:
        dp = opendp()
        return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale)

    def _choice(self, scale: float) -> Any:
        dp = opendp()
        return dp.m.make_noisy_max(*_scores(), dp.max_divergence(), scale)

    def _variance(self, scale: float) -> float:
        return 2.0 * scale * scale

    def _mean_size(self, scale: float) -> float:
        return scale

    def state_loss(self) -> dict[str, float]:
        """Return the sum of the epsilons."""
        return {"epsilon": round_up(self.spent), "delta": 0.0}


@dataclass(slots=True)
class ConcentratedMechanisms(Mechanisms):
    """Losses are rhos of zero-concentrated privacy, which add up; counts get discrete Gaussian noise."""

    delta: float = 0.0

    def _guess(self, make: Any, loss: float) -> float:
        return math.sqrt(self._loss(make(1.0)) / loss)

    def _noise(self, scale: float) -> Any:
        dp = opendp()
        return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64"), scale)

    def _choice(self, scale: float) -> Any:
        dp = opendp()
        return dp.m.make_noisy_max(*_scores(), dp.zero_concentrated_divergence(), scale)

    def _variance(self, scale: float) -> float:
        return scale * scale

    def _mean_size(self, scale: float) -> float:
        return scale * math.sqrt(2.0 / math.pi)

    def state_loss(self) -> dict[str, float]:
        """Return what OpenDP makes of the sum of the rhos."""
        rho = round_up(self.spent)
        return {"epsilon": epsilon_of(rho, self.delta), "delta": self.delta, "rho": rho}


def mechanisms_of(epsilon: float, delta: float) -> Mechanisms:
    """Return mechanisms that together lose at most this much."""
    if delta == 0.0:
        return PureMechanisms(Fraction(epsilon))
    return ConcentratedMechanisms(Fraction(_largest_rho(epsilon, delta)) * (1 - _LAST_DIGITS), delta=delta)


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


def _scores() -> tuple[Any, Any]:
    dp = opendp()
    return dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")


@cache
def opendp() -> Any:
    """Return OpenDP, with the parts that are proven in papers but not yet by its own reviewers."""
    try:
        library = importlib.import_module("opendp.prelude")
    except ImportError:
        raise UsageError("differentially private tables need OpenDP: pip install 'shoal[synthetic]'") from None
    library.enable_features("contrib")
    return library

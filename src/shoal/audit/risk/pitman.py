"""Pitman's sampling formula: classes as tables of a restaurant where new guests also open new tables."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np

from shoal.audit.risk.gamma import digamma, digammas, log_gamma_ratio
from shoal.audit.risk.slide import crossing
from shoal.audit.risk.spectrum import NoEstimateError, Spectrum

_LOWEST, _HIGHEST = 1e-3, 1 - 1e-6  # of alpha: at its edges there is no solution
_LARGEST_THETA = 1e10
_GRID = 48


def pitman(sample: Spectrum) -> float:
    """Return the people expected to be unique in the population under the parameters that make the sample likeliest.

    Hoshino, "Applying Pitman's sampling formula to microdata disclosure risk assessment", J. Official Statistics 17,
    2001. The expectation is exact, N (theta + alpha)...(theta + alpha + N - 2) / ((theta + 1)...(theta + N - 1)), where
    he and others take its limit for large populations.
    """
    found = parameters(sample)
    theta, alpha, population = found.theta, found.alpha, sample.population
    # Gamma ratios at theta + 1 and theta + N, each by alpha - 1, written with positive shifts.
    small = log_gamma_ratio(theta + alpha, 1 - alpha)
    large = log_gamma_ratio(theta + alpha + population - 1, 1 - alpha)
    return population * exp(small - large)


@dataclass(frozen=True, slots=True)
class PitmanParameters:
    """The likeliest parameters, 0 < alpha < 1 and theta > -alpha."""

    alpha: float
    theta: float


def parameters(sample: Spectrum) -> PitmanParameters:
    """Return the parameters that make the sample likeliest; raise if none within the model's limits do.

    For every alpha there is one likeliest theta, found by halving; along these, alpha is where the likelihood stops
    rising. Should it stop at several places, no answer is better than one of them.
    """
    if sample.n_classes < 2 or sample.n_classes == sample.n:
        raise NoEstimateError("Pitman's model needs at least two classes, and one of at least two people")
    slope = _Slopes(sample)
    alphas = np.concatenate([[_LOWEST], np.linspace(0, 1, _GRID + 2)[1:-1], [_HIGHEST]])
    slopes = [slope.by_alpha(float(alpha)) for alpha in alphas]
    tops = [place for place in range(len(alphas) - 1) if slopes[place] > 0 >= slopes[place + 1]]
    if not tops:
        raise NoEstimateError("Pitman's model has no likeliest parameters with alpha between 0 and 1")
    if len(tops) > 1:
        raise NoEstimateError("the likelihood of Pitman's model has several tops for this sample")
    alpha = crossing(slope.by_alpha, float(alphas[tops[0]]), float(alphas[tops[0] + 1]))
    return PitmanParameters(alpha, slope.theta(alpha))


class _Slopes:
    """Derivatives of the logarithm of the likelihood."""

    def __init__(self, sample: Spectrum) -> None:
        self._n, self._classes = sample.n, sample.n_classes
        larger = sample.sizes > 1
        self._sizes, self._times = sample.sizes[larger].astype(np.float64), sample.classes[larger]

    def by_theta(self, theta: float, alpha: float) -> float:
        """Return the sum of 1 / (theta + i alpha) over classes less that of 1 / (theta + i) over people, i from 1."""
        return self._opened(theta, alpha) - digamma(theta + self._n) + digamma(theta + 1)

    def _opened(self, theta: float, alpha: float) -> float:
        return (digamma(theta / alpha + self._classes) - digamma(theta / alpha + 1)) / alpha

    def theta(self, alpha: float) -> float:
        """Return the likeliest theta for one alpha: just above -alpha the likelihood rises, far out it falls."""

        def slope(logarithm: float) -> float:
            return self.by_theta(exp(logarithm) - alpha, alpha)

        low, high = log(1e-12), log(_LARGEST_THETA)
        if slope(low) <= 0 or slope(high) >= 0:
            raise NoEstimateError("Pitman's model has no likeliest theta for this sample")
        return exp(crossing(slope, low, high)) - alpha

    def by_alpha(self, alpha: float) -> float:
        """Return the derivative along the likeliest thetas, where that by theta is zero."""
        theta = self.theta(alpha)
        opened = (self._classes - 1 - theta * self._opened(theta, alpha)) / alpha
        joined = digammas(self._sizes - alpha) - digamma(1 - alpha)
        return opened - float(self._times @ joined)

"""The slide negative binomial model: a class has one person, and a negative binomial number of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, log1p, sqrt

import numpy as np

from shoal.audit.risk.spectrum import NoEstimateError, Spectrum

_HALVINGS = 200
_GRID = 400  # values of beta between which a solution is looked for
_TOLERANCE = 1e-6  # of both equations, relative


def slide_negative_binomial(sample: Spectrum) -> float:
    """Return the people who are unique in the population: K beta ** alpha, K being the population's classes.

    Chen and Keller-McNulty, "Estimation of identification disclosure risk in microdata", J. Official Statistics 14,
    1998. K is estimated as Haas and Stokes modified Shlosser's estimator (JASA 93, 1998); alpha and beta are such that
    the sample is expected to have the classes of one and of two people that it has.
    """
    found = parameters(sample)
    return found.classes * exp(found.alpha * log(found.beta))


@dataclass(frozen=True, slots=True)
class SlideParameters:
    """The population's classes, and alpha > 0 and 0 < beta < 1 of the number of others in a class."""

    classes: float
    alpha: float
    beta: float


def population_classes(sample: Spectrum) -> float:
    """Return the modified Shlosser estimate of the population's classes."""
    f, i, times = sample.fraction, sample.sizes.astype(np.float64), sample.classes
    squared = float(times @ (i * f**2 * (1 - f**2) ** (i - 1)))
    shown = float(times @ ((1 - f) ** i * ((1 + f) ** i - 1)))
    unseen, once = float(times @ (1 - f) ** i), float(times @ (i * f * (1 - f) ** (i - 1)))
    return sample.n_classes + sample.times(1) * squared / shown * (unseen / once) ** 2


def parameters(sample: Spectrum) -> SlideParameters:
    """Solve for alpha and beta; raise if there is no solution.

    The expected classes of two people over those of one rise with alpha, so for every beta one alpha gives the observed
    ratio; along these the classes of one are compared. Of several solutions the one is taken that makes the population
    most nearly as large as it is.
    """
    if not sample.times(2):
        raise NoEstimateError("the slide negative binomial model needs classes of two people")
    equations = _Equations(sample, population_classes(sample))
    betas = 1 / (1 + np.exp(-np.linspace(-25, 25, _GRID)))
    surplus = [equations.surplus(float(beta)) for beta in betas]
    found = []
    for place in np.flatnonzero(np.diff(np.sign(surplus))):
        beta = crossing(equations.surplus, float(betas[place]), float(betas[place + 1]))
        one = SlideParameters(equations.classes, equations.alpha(beta), beta)
        if equations.hold(one):
            found.append(one)
    if not found:
        raise NoEstimateError("the slide negative binomial model has no solution for this sample")

    def misfit(one: SlideParameters) -> float:
        people = one.classes * (1 + one.alpha * (1 - one.beta) / one.beta)
        return abs(log(people / sample.population))

    return min(found, key=misfit)


class _Equations:
    """The expected classes of one and of two people in a sample to which everybody comes with the same chance."""

    def __init__(self, sample: Spectrum, classes: float) -> None:
        self.classes = classes
        self._fraction, self._ones, self._twos = sample.fraction, sample.times(1), sample.times(2)

    def alpha(self, beta: float) -> float:
        """Return the alpha with the observed ratio: the positive zero of q a a + (2 - q - r q) a - r (1 - q)."""
        q = (1 - self._fraction) * (1 - beta)
        r = 2 * self._twos / self._ones * (1 - q) / (self._fraction * (1 - beta))
        linear = 2 - q - r * q
        root = sqrt(linear * linear + 4 * q * r * (1 - q))
        return 2 * r * (1 - q) / (linear + root) if linear > 0 else (root - linear) / (2 * q)

    def ones(self, alpha: float, beta: float) -> float:
        """Return the expected classes of one person."""
        q = (1 - self._fraction) * (1 - beta)
        unmet = exp(alpha * (log(beta) - log1p(-q)))
        return self.classes * self._fraction * unmet * (1 + alpha * q / (1 - q))

    def twos(self, alpha: float, beta: float) -> float:
        """Return the expected classes of two people."""
        q = (1 - self._fraction) * (1 - beta)
        unmet = exp(alpha * (log(beta) - log1p(-q))) / (1 - q) ** 2
        return self.classes * self._fraction**2 * alpha * (1 - beta) * unmet * (2 - (1 - alpha) * q) / 2

    def surplus(self, beta: float) -> float:
        """Return expected less observed classes of one person where the ratio is as observed."""
        return self.ones(self.alpha(beta), beta) - self._ones

    def hold(self, found: SlideParameters) -> bool:
        """Whether both equations hold."""
        ones, twos = self.ones(found.alpha, found.beta), self.twos(found.alpha, found.beta)
        return abs(ones - self._ones) <= _TOLERANCE * self._ones and abs(twos - self._twos) <= _TOLERANCE * self._twos


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function whose signs at *low* and *high* differ crosses zero, to the last bits.

    >>> round(crossing(lambda x: 2 - x * x, 0.0, 2.0), 12)
    1.414213562373
    """
    above = function(low) > 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if (function(middle) > 0) == above:
            low = middle
        else:
            high = middle
    return (low + high) / 2

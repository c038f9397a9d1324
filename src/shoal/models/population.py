"""Estimates, by three models, of how many people are unique in a population of which the table is a sample.

The choice among them follows Dankar, El Emam, Neisa and Roffey, "Estimating the re-identification risk of clinical data
sets", BMC Medical Informatics and Decision Making 12:66, 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, log1p, sqrt
from typing import Literal, NamedTuple

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.errors import ShoalError, UsageError
from shoal.core.results import Figures

Estimator = Literal["zayatz", "pitman", "snb"]
SMALL_FRACTION = 0.1  # up to this sampling fraction the rule uses Pitman's model
_LOWEST, _HIGHEST = 1e-3, 1 - 1e-6  # bounds of Pitman's alpha, which must be between 0 and 1
_LARGEST_THETA = 1e10
_ALPHAS = 48  # grid of alphas on which maxima of the likelihood are bracketed
_BETAS = 400  # grid of betas on which solutions are bracketed
_TOLERANCE = 1e-6  # of both equations of the slide model, relative


class NoEstimateError(ShoalError):
    """A model has no solution for this sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The distinct class sizes of a sample, ascending, and the number of classes of each size."""

    sizes: IntArray
    classes: IntArray
    fraction: float

    @classmethod
    def of(cls, sizes: IntArray, fraction: float) -> Spectrum:
        distinct, classes = np.unique(sizes, return_counts=True)
        return cls(distinct.astype(np.int64), classes.astype(np.int64), fraction)

    @property
    def n(self) -> int:
        return int(self.sizes @ self.classes)

    @property
    def n_classes(self) -> int:
        return int(self.classes.sum())

    @property
    def population(self) -> int:
        return round(self.n / self.fraction)

    def times(self, size: int) -> int:
        return int(self.classes[self.sizes == size].sum())


@dataclass(frozen=True, slots=True)
class Estimate(Figures):
    """One model's estimate, or the reason why there is not one."""

    model: Estimator
    population_uniques: float | None  # people who are unique in the population
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class PopulationUniqueness(Figures):
    """Estimates of how many people are unique in the population, and the one chosen by the rule of Dankar et al."""

    sample_fraction: float
    sample: int  # people of the table
    population: int
    sample_uniques: int
    estimates: tuple[Estimate, ...]
    chosen: Estimator
    reason: str

    @property
    def uniques(self) -> float:
        return next(float(one.population_uniques or 0.0) for one in self.estimates if one.model == self.chosen)

    @property
    def share(self) -> float:
        return self.uniques / self.population

    @property
    def expected_in_sample(self) -> float:
        """The expected number of records that are unique in the population: an attacker's match of them is correct."""
        return min(self.uniques * self.sample_fraction, float(self.sample_uniques))

    @property
    def spread(self) -> float | None:
        """The ratio of the largest to the smallest estimate; None if there are fewer than two or one is 0."""
        found = [one.population_uniques for one in self.estimates if one.population_uniques is not None]
        return max(found) / min(found) if len(found) > 1 and min(found) > 0 else None

    def as_dict(self) -> dict[str, object]:
        return {
            **Figures.as_dict(self),
            "population_uniques": self.uniques,
            "population_unique_share": self.share,
            "expected_in_sample": self.expected_in_sample,
            "spread": self.spread,
        }


def estimate_uniqueness(sizes: IntArray, fraction: float) -> PopulationUniqueness:
    """Estimate from the sizes of the sample's classes how many people are unique in the population.

    The sample is assumed to be a simple random one, *fraction* of the population. A model without a solution is not
    chosen; Zayatz's always has one.

    >>> sizes = np.repeat([1, 2, 3, 4], [60, 20, 8, 4])
    >>> found = estimate_uniqueness(sizes, 0.2)
    >>> found.chosen, round(found.uniques), round(found.expected_in_sample)
    ('snb', 98, 20)
    """
    check_fraction(fraction)
    if not len(sizes) or int(sizes.min()) < 1:
        raise UsageError("estimates need the sizes of classes, each of at least one record")
    spectrum = Spectrum.of(sizes, fraction)
    estimates = {name: _estimate(name, model, spectrum) for name, model in _ESTIMATORS.items()}
    chosen, reason = _choose(fraction, estimates)
    return PopulationUniqueness(
        fraction, spectrum.n, spectrum.population, spectrum.times(1), tuple(estimates.values()), chosen, reason
    )


def check_fraction(fraction: float) -> None:
    if not 0 < fraction <= 1:
        raise UsageError(f"the sample's fraction of the population must be above 0 and at most 1; received {fraction}")


def _estimate(name: Estimator, model: Callable[[Spectrum], float], spectrum: Spectrum) -> Estimate:
    if spectrum.fraction == 1:
        return Estimate(name, float(spectrum.times(1)))  # the sample is the population
    if not spectrum.times(1):
        return Estimate(name, 0.0)
    try:
        uniques = model(spectrum)
    except NoEstimateError as refusal:
        return Estimate(name, None, str(refusal))
    if not np.isfinite(uniques) or not 0 <= uniques <= spectrum.population:
        return Estimate(name, None, "its solution is not a possible number of people in the population")
    return Estimate(name, uniques)


def _choose(fraction: float, estimates: dict[Estimator, Estimate]) -> tuple[Estimator, str]:
    """Return the model to use, and why."""
    pitmans, slide, plain = (estimates[name].population_uniques for name in ("pitman", "snb", "zayatz"))
    if fraction <= SMALL_FRACTION:
        if pitmans is not None:
            return "pitman", f"the sample is at most {SMALL_FRACTION:.0%} of the population"
        return "zayatz", "Pitman's model, which suits such small samples, has no solution"
    if slide is None or plain is None:
        return "zayatz", "the slide negative binomial model has no solution"
    if plain < slide:
        return "zayatz", "it is below the slide negative binomial estimate"
    return "snb", "it is not above Zayatz's estimate"


def estimate_zayatz(sample: Spectrum) -> float:
    """Return the people who are unique in the population, if its class sizes are distributed as the sample's.

    Zayatz, "Estimation of the percent of unique population elements on a microdata file using the sample", US Bureau
    of the Census, 1991: by Bayes' rule the probability that a class of one in the sample is a class of one in
    the population. Under sampling without replacement, exactly one of a class of j people is drawn with probability
    (n / N) j (N - n)(N - n - 1)...(N - n - j + 2) / ((N - 1)(N - 2)...(N - j + 1)).
    """
    n, population = sample.n, sample.population
    steps = np.arange(int(sample.sizes[-1]) - 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        missed = np.log(np.maximum(population - n - steps, 0) / (population - 1 - steps))
    others_missed = np.exp(np.concatenate([[0.0], np.cumsum(missed)]))[sample.sizes - 1]
    shows_one = sample.sizes * others_missed * n / population
    weight = sample.classes * shows_one
    right = float(weight[0] / weight.sum())  # the first size is 1: the caller has checked
    return sample.times(1) * right * population / n


def estimate_pitman(sample: Spectrum) -> float:
    """Return the expected number of people who are unique in the population, by maximum likelihood.

    Hoshino, "Applying Pitman's sampling formula to microdata disclosure risk assessment", J. Official Statistics 17,
    2001. The expectation N (theta + alpha)...(theta + alpha + N - 2) / ((theta + 1)...(theta + N - 1)) is exact; he
    and others use its limit for large populations.
    """
    from scipy.special import poch

    found = fit_pitman(sample)
    theta, alpha, population = found.theta, found.alpha, sample.population
    # Gamma ratios at theta + 1 and theta + N, each by alpha - 1, written with positive shifts.
    small = poch(theta + alpha, 1 - alpha)
    return float(population * small / poch(theta + alpha + population - 1, 1 - alpha))


class PitmanParameters(NamedTuple):
    """0 < alpha < 1 and theta > -alpha."""

    alpha: float
    theta: float


def fit_pitman(sample: Spectrum) -> PitmanParameters:
    """Return the maximum-likelihood parameters; raise if there are none within the model's limits.

    Every alpha has one likeliest theta. The profile likelihood is maximized over alpha; several maxima are refused,
    because the choice among them would be arbitrary.
    """
    from scipy.special import digamma

    if sample.n_classes < 2 or sample.n_classes == sample.n:
        raise NoEstimateError("Pitman's model needs at least two classes, and one of at least two people")
    larger = sample.sizes > 1
    sizes, times = sample.sizes[larger].astype(np.float64), sample.classes[larger]

    def open_classes(theta: float, alpha: float) -> float:  # the sum of 1 / (theta + i alpha) over classes, i from 1
        return float(digamma(theta / alpha + sample.n_classes) - digamma(theta / alpha + 1)) / alpha

    def find_theta(alpha: float) -> float:  # the likelihood rises just above -alpha and falls for large thetas
        def slope(logarithm: float) -> float:
            theta = exp(logarithm) - alpha
            return open_classes(theta, alpha) - float(digamma(theta + sample.n) - digamma(theta + 1))

        low, high = log(1e-12), log(_LARGEST_THETA)
        if slope(low) <= 0 or slope(high) >= 0:
            raise NoEstimateError("Pitman's model has no likeliest theta for this sample")
        return exp(_find_root(slope, low, high)) - alpha

    def slope_along(alpha: float) -> float:  # along the likeliest thetas, where the derivative by theta is zero
        theta = find_theta(alpha)
        opened = (sample.n_classes - 1 - theta * open_classes(theta, alpha)) / alpha
        return opened - float(times @ (digamma(sizes - alpha) - digamma(1 - alpha)))

    alphas = np.concatenate([[_LOWEST], np.linspace(0, 1, _ALPHAS + 2)[1:-1], [_HIGHEST]]).tolist()
    slopes = [slope_along(alpha) for alpha in alphas]
    tops = [place for place in range(len(alphas) - 1) if slopes[place] > 0 >= slopes[place + 1]]
    if not tops:
        raise NoEstimateError("Pitman's model has no likeliest parameters with alpha between 0 and 1")
    if len(tops) > 1:
        raise NoEstimateError("the likelihood of Pitman's model has several maxima for this sample")
    alpha = _find_root(slope_along, alphas[tops[0]], alphas[tops[0] + 1])
    return PitmanParameters(alpha, find_theta(alpha))


def estimate_slide(sample: Spectrum) -> float:
    """Return the people who are unique in the population: K beta ** alpha, K being the population's classes.

    Chen and Keller-McNulty, "Estimation of identification disclosure risk in microdata", J. Official Statistics 14,
    1998, the slide negative binomial model: a class has one person and a negative binomial number of others. K is
    estimated by Shlosser's estimator as modified by Haas and Stokes (JASA 93, 1998). With alpha and beta, the expected
    numbers of classes of one and of two people equal the observed ones.
    """
    found = fit_slide(sample)
    return found.classes * exp(found.alpha * log(found.beta))


class SlideParameters(NamedTuple):
    """The population's classes, and alpha > 0 and 0 < beta < 1 of the negative binomial distribution."""

    classes: float
    alpha: float
    beta: float


def count_population_classes(sample: Spectrum) -> float:
    """Return the modified Shlosser estimate of the population's classes."""
    f, i, times = sample.fraction, sample.sizes.astype(np.float64), sample.classes
    squared = float(times @ (i * f**2 * (1 - f**2) ** (i - 1)))
    shown = float(times @ ((1 - f**2) ** i - (1 - f) ** i))
    unseen, once = float(times @ (1 - f) ** i), float(times @ (i * f * (1 - f) ** (i - 1)))
    return sample.n_classes + sample.times(1) * squared / shown * (unseen / once) ** 2


def fit_slide(sample: Spectrum) -> SlideParameters:
    """Solve for alpha and beta; raise if they do not exist.

    The ratio of the expected classes of two people and of one rises with alpha, so every beta has one alpha with the
    observed ratio. Betas are sought at which the classes of one match, too. Of several solutions the one is used whose
    expected population is closest to the actual one.
    """
    if not sample.times(2):
        raise NoEstimateError("the slide negative binomial model needs classes of two people")
    equations = _Equations(sample, count_population_classes(sample))
    betas = 1 / (1 + np.exp(-np.linspace(-25, 25, _BETAS)))
    surplus = [equations.surplus(float(beta)) for beta in betas]
    found = []
    for place in np.flatnonzero(np.diff(np.sign(surplus))):
        beta = _find_root(equations.surplus, float(betas[place]), float(betas[place + 1]))
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
    """The expected classes of one and of two people in a sample for which all people are equally likely."""

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
        q = (1 - self._fraction) * (1 - beta)
        unmet = exp(alpha * (log(beta) - log1p(-q)))
        return self.classes * self._fraction * unmet * (1 + alpha * q / (1 - q))

    def twos(self, alpha: float, beta: float) -> float:
        q = (1 - self._fraction) * (1 - beta)
        unmet = exp(alpha * (log(beta) - log1p(-q))) / (1 - q) ** 2
        return self.classes * self._fraction**2 * alpha * (1 - beta) * unmet * (2 - (1 - alpha) * q) / 2

    def surplus(self, beta: float) -> float:
        """Return expected minus observed classes of one person for the alpha with the observed ratio."""
        return self.ones(self.alpha(beta), beta) - self._ones

    def hold(self, found: SlideParameters) -> bool:
        ones, twos = self.ones(found.alpha, found.beta), self.twos(found.alpha, found.beta)
        return abs(ones - self._ones) <= _TOLERANCE * self._ones and abs(twos - self._twos) <= _TOLERANCE * self._twos


def _find_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root between *low* and *high*, at which the signs differ, to the last bits."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-300, rtol=1e-15, maxiter=500))


_ESTIMATORS: dict[Estimator, Callable[[Spectrum], float]] = {
    "zayatz": estimate_zayatz,
    "pitman": estimate_pitman,
    "snb": estimate_slide,
}

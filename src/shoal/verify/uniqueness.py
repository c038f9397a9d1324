"""How many people of a population are unique, estimated from the sizes of a sample's classes: the verifier's own way.

Written a second time, without the estimators of the models. An equation's root is looked for on a grid of its own and
halved down to the last bits; a sample for which a model has no root, or no single one where it needs that, has no
estimate, and its promise is not believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import FloatArray, IntArray

_HALVINGS = 200
_SMALL = 0.1  # the largest fraction for which the rule of Dankar and others takes Pitman's model


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """The different sizes of classes, ascending, and how many classes have each."""

    sizes: FloatArray
    classes: FloatArray
    fraction: float

    @property
    def people(self) -> int:
        return round(float(self.sizes @ self.classes))

    @property
    def population(self) -> int:
        return round(self.people / self.fraction)

    def of_size(self, size: int) -> float:
        return float(self.classes[self.sizes == size].sum())


def estimate_share(sizes: IntArray, fraction: float, model: str) -> float | None:
    """Return the share of the population that is unique by a model, ``dankar`` being a rule; None: no estimate."""
    different, classes = np.unique(sizes, return_counts=True)
    sample = _Sample(different.astype(np.float64), classes.astype(np.float64), fraction)
    if fraction == 1 or not sample.of_size(1):
        return sample.of_size(1) / sample.population
    if model != "dankar":
        return _ask(sample, model)
    if fraction <= _SMALL:
        found = _ask(sample, "pitman")
        return _ask(sample, "zayatz") if found is None else found
    plain, slide = _ask(sample, "zayatz"), _ask(sample, "snb")
    return plain if slide is None or plain is None else min(plain, slide)


def _ask(sample: _Sample, model: str) -> float | None:
    uniques = {"zayatz": _zayatz, "pitman": _pitman, "snb": _slide}[model](sample)
    if uniques is None or not 0 <= uniques <= sample.population:
        return None
    return uniques / sample.population


def _zayatz(sample: _Sample) -> float | None:
    """Weigh each size by the hypergeometric chance that a class of so many people shows exactly one of them."""
    n, population = sample.people, sample.population
    # one more person of the class is missed: a factor (N - n - i) / (N - 1 - i), never below 0
    i = np.arange(int(sample.sizes[-1]) - 1)
    with np.errstate(divide="ignore"):
        log = np.log1p(-np.minimum((n - 1) / (population - 1.0 - i), 1.0))
    missed = np.exp(np.append(0.0, np.cumsum(log)))[sample.sizes.astype(np.int64) - 1]
    weight = sample.classes * sample.sizes * missed
    return float(sample.of_size(1) * weight[0] / weight.sum() * population / n)


def _pitman(sample: _Sample) -> float | None:
    """Solve the likelihood equations of Pitman's formula: theta for each alpha, and alpha along these."""
    from scipy.special import psi

    n, u, j, s = sample.people, float(sample.classes.sum()), sample.sizes, sample.classes
    if u < 2 or u == n:
        return None

    def solve_theta(alpha: float) -> float:
        def slope(power: float) -> float:
            theta = math.exp(power) - alpha
            opened = (psi(theta / alpha + u) - psi(theta / alpha + 1)) / alpha
            return float(opened - psi(theta + n) + psi(theta + 1))

        low, high = math.log(1e-12), math.log(1e10)
        return math.exp(_halve(slope, low, high)) - alpha if slope(low) > 0 > slope(high) else math.nan

    def slope(alpha: float) -> float:
        theta = solve_theta(alpha)
        opened = (psi(theta / alpha + u) - psi(theta / alpha + 1)) / alpha
        return float((u - 1 - theta * opened) / alpha - s @ (psi(j - alpha) - psi(1 - alpha)))

    grid = [1e-3, *np.linspace(0.02, 0.98, 33).tolist(), 1 - 1e-6]
    signs = [slope(alpha) for alpha in grid]
    tops = [i for i in range(len(grid) - 1) if signs[i] > 0 >= signs[i + 1]]
    if len(tops) != 1 or any(map(math.isnan, signs)):
        return None
    alpha = _halve(slope, grid[tops[0]], grid[tops[0] + 1])
    theta, people = solve_theta(alpha), sample.population
    # N (theta + alpha) ... (theta + alpha + N - 2) / ((theta + 1) ... (theta + N - 1)), a million factors one by one
    first = min(people - 1, 1_000_000)
    log = float(np.log1p((alpha - 1) / (theta + np.arange(1, first + 1))).sum())
    return people * math.exp(log + _rest(theta + people, alpha - 1) - _rest(theta + first + 1, alpha - 1))


def _rest(x: float, a: float) -> float:
    """Return the logarithm of gamma(x + a) / gamma(x) for a large x, up to a / x^2."""
    return a * math.log(x) + a * (a - 1) / (2 * x)


def _slide(sample: _Sample) -> float | None:
    """Solve the two equations of the slide negative binomial model, for a number of classes by Shlosser, modified."""
    f, j, s, ones, twos = sample.fraction, sample.sizes, sample.classes, sample.of_size(1), sample.of_size(2)
    if not twos:
        return None
    shown = s @ (((1 - f) * (1 + f)) ** j - (1 - f) ** j)
    missed = (s @ (1 - f) ** j) / (s @ (j * f * (1 - f) ** (j - 1)))
    classes = float(s.sum() + ones * (s @ (j * f**2 * (1 - f**2) ** (j - 1))) / shown * missed**2)

    def solve_alpha(beta: float) -> float:  # where classes of two over classes of one are as observed
        q = (1 - f) * (1 - beta)
        r = 2 * twos * (1 - q) / (ones * f * (1 - beta))
        half = (2 - q - r * q) / 2
        root = math.sqrt(half**2 + q * r * (1 - q))
        return r * (1 - q) / (half + root) if half > 0 else (root - half) / q

    def surplus(logit: float) -> float:
        beta = 1 / (1 + math.exp(-logit))
        alpha, q = solve_alpha(beta), (1 - f) * (1 - beta)
        expected = classes * f * math.exp(alpha * (math.log(beta) - math.log1p(-q))) * (1 + alpha * q / (1 - q))
        return expected - ones

    grid = np.linspace(-25, 25, 1001).tolist()
    signs = [surplus(logit) for logit in grid]
    found = []
    for i in range(len(grid) - 1):
        if signs[i] * signs[i + 1] < 0:
            root = _halve(surplus, grid[i], grid[i + 1])
            beta = 1 / (1 + math.exp(-root))
            alpha = solve_alpha(beta)
            people = classes * (1 + alpha * (1 - beta) / beta)
            if abs(surplus(root)) <= 1e-6 * ones:
                found.append((abs(math.log(people / sample.population)), classes * beta**alpha))
    return min(found)[1] if found else None  # of several, that whose population is most nearly as large as it is


def _halve(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where the function changes its sign between two places."""
    below = function(low) > 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (function(middle) > 0) == below else (low, middle)
    return (low + high) / 2

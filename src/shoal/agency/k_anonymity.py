"""How many records give every class at least k of them: (k,delta)-anonymity; proofs in ``docs/l-delta-proofs.md``."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shoal.agency.distribution import JointDistribution
from shoal.agency.kernels import close_classes, lower_tails
from shoal.agency.samples import MARGIN, chances_of, check_delta, smallest, surely
from shoal.agency.searching import most_classes
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError

_ROUNDING = 1e-7  # logarithms of up to a million terms are added up


def classes_of_weight(distribution: JointDistribution, p: Fraction) -> CodeArray:
    """Return (n_points,) classes that each have a probability of at least p: the most that runs can make."""
    if not 0 < p <= 1:
        raise UsageError(f"p must be above 0 and at most 1, got {float(p):g}")
    threshold = distribution.threshold(p)
    if threshold > int(distribution.weights.sum()):
        raise UnreachableError(f"all points together have no probability of {float(p):g}; take a smaller p")
    return _closed(distribution.point_weights(), threshold)


def _closed(weights: IntArray, threshold: int) -> CodeArray:
    each = np.arange(len(weights) + 1, dtype=np.int64)
    return close_classes(each, np.zeros(len(weights), dtype=np.int32), weights, 1, 1, threshold)


def class_weights(distribution: JointDistribution, number: CodeArray) -> IntArray:
    """Return (n_classes,) the weight of each class."""
    return summed(distribution.point_weights(), number)


def summed(weights: IntArray, number: CodeArray) -> IntArray:
    """Return (n_classes,) the sum of the weights of each class's points."""
    sums = np.zeros(int(number.max()) + 1, dtype=np.int64)
    np.add.at(sums, number, weights)
    return sums


def k_samples(
    distribution: JointDistribution, number: CodeArray, k: int, delta: Fraction, eta: Fraction = Fraction(0)
) -> int:
    """Return the smallest N with sum over classes of Pr[Binomial(N, P(class)) < k] <= delta."""
    check_delta(delta)
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}")
    chances, times = class_chances(distribution, class_weights(distribution, number), eta)
    return smallest(lambda n: _missed(k, n, chances, times), delta)


def k_failure_bound(
    distribution: JointDistribution, number: CodeArray, k: int, n: int, eta: Fraction = Fraction(0)
) -> float:
    """Return what the probability is at most that a release of n records has a class with fewer than k of them."""
    if n < 0:
        raise UsageError(f"the number of samples must be at least 0, got {n}")
    chances, times = class_chances(distribution, class_weights(distribution, number), eta)
    return min(1.0, _missed(k, n, chances, times))


def k_classes(
    distribution: JointDistribution, k: int, delta: Fraction, n: int, eta: Fraction = Fraction(0)
) -> CodeArray:
    """Return the classes of at least some probability, as small a one as n records are enough for."""
    check_delta(delta)
    limit = float(delta) * (1 - MARGIN)
    weights = distribution.point_weights()

    def enough(number: CodeArray) -> bool:
        chances, times = class_chances(distribution, summed(weights, number), eta)
        return _missed(k, n, chances, times) <= limit

    low, high = lightest(distribution, k, limit, n, eta), int(distribution.weights.sum())
    made = None
    if low <= high:
        made = most_classes(
            lambda threshold: _closed(weights, threshold),
            lambda number: int(summed(weights, number).min()),
            enough,
            low,
            high,
            distribution.n_points,
        )
    if made is None:
        raise UnreachableError(
            f"{n:,} samples are too few for k = {k} and delta = {float(delta):g}, even with everybody in one class; "
            "collect more, or ask for a smaller k or a larger delta"
        )
    return made


def lightest(distribution: JointDistribution, k: int, limit: float, n: int, eta: Fraction) -> int:
    """Return the smallest weight of a class that has fewer than k of n records no more probably than the limit."""
    low, high = math.floor(eta * distribution.total) + 1, distribution.total + 1
    while low < high:
        middle = (low + high) // 2
        chances = chances_of(np.array([middle]), distribution.total, eta)
        if float(fewer_than(k, n, chances)[0]) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


def class_chances(distribution: JointDistribution, sums: IntArray, eta: Fraction) -> tuple[FloatArray, FloatArray]:
    """Return the distinct probabilities of classes, less eta and rounded down, and how often each occurs."""
    weights, times = np.unique(sums, return_counts=True)
    surely(distribution.probability(int(weights[0])), eta)
    return chances_of(weights, distribution.total, eta), times.astype(np.float64)


def _missed(k: int, n: int, chances: FloatArray, times: FloatArray) -> float:
    """Return the sum over classes of the probability that they have fewer than k of n records."""
    return float((times * fewer_than(k, n, chances)).sum())


def fewer_than(k: int, n: int, chances: FloatArray) -> FloatArray:
    """Return Pr[Binomial(n, chance) < k] for each chance, rounded up; 1 where k - 1 is above the mean.

    >>> fewer_than(2, 3, np.array([0.5])).round(6)  # (1 + 3) / 8
    array([0.5])
    """
    if n < k:
        return np.ones(len(chances))
    before = np.arange(k - 1, dtype=np.float64)
    ways = float(np.log((n - before) / (before + 1)).sum())  # ln of n over k - 1
    return np.minimum(lower_tails(k, n, ways, chances) * (1 + _ROUNDING), 1.0)

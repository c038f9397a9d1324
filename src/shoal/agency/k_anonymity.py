"""How many records give every class at least k of them: (k,delta)-anonymity; proofs in ``docs/l-delta-proofs.md``."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shoal.agency.distribution import JointDistribution
from shoal.agency.kernels import close_classes, lower_tails
from shoal.agency.samples import check_delta, smallest, surely
from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.errors import UnreachableError, UsageError

_ROUNDING = 1e-7  # logarithms of up to a million terms are added up


def classes_of_weight(distribution: JointDistribution, p: Fraction) -> CodeArray:
    """Return (n_points,) classes that each have a probability of at least p: the most that runs can make."""
    if not 0 < p <= 1:
        raise UsageError(f"p must be above 0 and at most 1, got {float(p):g}")
    threshold = distribution.threshold(p)
    if threshold > int(distribution.weights.sum()):
        raise UnreachableError(f"all points together have no probability of {float(p):g}; take a smaller p")
    weights = distribution.point_weights()
    each = np.arange(distribution.n_points + 1, dtype=np.int64)
    return close_classes(each, np.zeros(distribution.n_points, dtype=np.int32), weights, 1, 1, threshold)


def class_weights(distribution: JointDistribution, number: CodeArray) -> IntArray:
    """Return (n_classes,) the weight of each class."""
    sums = np.zeros(int(number.max()) + 1, dtype=np.int64)
    np.add.at(sums, number, distribution.point_weights())
    return sums


def k_samples(
    distribution: JointDistribution, number: CodeArray, k: int, delta: Fraction, eta: Fraction = Fraction(0)
) -> int:
    """Return the smallest N with sum over classes of Pr[Binomial(N, P(class)) < k] <= delta."""
    check_delta(delta)
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}")
    chances, times = class_chances(distribution, number, eta)
    return smallest(lambda n: float((times * fewer_than(k, n, chances)).sum()), delta)


def class_chances(distribution: JointDistribution, number: CodeArray, eta: Fraction) -> tuple[FloatArray, FloatArray]:
    """Return the distinct probabilities of classes, less eta and rounded down, and how often each occurs."""
    weights, times = np.unique(class_weights(distribution, number), return_counts=True)
    surely(distribution.probability(int(weights[0])), eta)
    chances = weights / distribution.total * (1 - 1e-15) - float(eta) * (1 + 1e-15)
    return np.clip(chances, 0.0, 1.0), times.astype(np.float64)


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

"""How many records make classes safe: Rameshwar and Tandon, Algorithm 1 and Theorems 4.4 and 4.5.

With N independent records, every class shows at least l sensitive values, or has at least k records, with probability
at least 1 - delta (proofs in ``docs/l-delta-proofs.md``). Rounding is conservative: N up, probabilities of failure up.
"""

from __future__ import annotations

import decimal
import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from shoal.agency.classes import check_l, close_classes, sum_values
from shoal.agency.distribution import Entries, JointDistribution
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.kernels import kernel

MARGIN = 1e-9  # a floating-point sum must be below its limit by this share
MOST_SAMPLES = 2**62
FEWEST_TRIES = 12
MOST_TRIES = 200
WORK = 10**8  # entries that a search for more classes may read: a few seconds
_ROUNDING = 1e-7  # error of a sum of up to a million logarithms
_PRECISION = 60
_NEAR = Decimal(10) ** -40
_EXACT_BITS = 10**7
_SMALLEST = Fraction(1, 2**62)  # a smaller p would need more than 2^62 records


def class_bound(n_points: int, rest: Fraction, l: int, p: Fraction) -> Fraction:
    """Return m = min(|Q|, 1/(l p), (p_l + p_{l+1} + ...)/p), an upper bound on the number of classes (Lemma 4.3).

    *rest* is the sum p_l + p_{l+1} + ... of the probabilities of all but the l - 1 most frequent sensitive values.

    >>> class_bound(3000, Fraction(41, 50), l=10, p=Fraction(2, 10000))
    Fraction(500, 1)
    """
    return min(Fraction(n_points), 1 / (l * p), rest / p)


def check_delta(delta: Fraction) -> None:
    if not 0 < delta < 1:
        raise UsageError(f"delta must be above 0 and below 1, got {float(delta):g}")


def subtract_eta(p: Fraction, eta: Fraction) -> Fraction:
    """Return p - eta, a lower bound on p if the distribution is off by at most eta in total variation."""
    if not 0 <= eta < 1:
        raise UsageError(f"eta must be at least 0 and below 1, got {float(eta):g}")
    if p <= eta:
        raise UnreachableError(
            f"p = {float(p):.6g} is not above eta = {float(eta):.6g}: such a rare value may never occur; choose a "
            "larger p or a better known distribution"
        )
    return p - eta


def paper_samples(m: Fraction, l: int, p: Fraction, delta: Fraction, eta: Fraction = Fraction(0)) -> int:
    """Return N of Algorithm 1: the smallest N with m l (1 - (p - eta))^N <= delta.

    >>> paper_samples(Fraction(500), 10, Fraction("0.0002"), Fraction("0.01"))
    65606
    """
    check_delta(delta)
    sure = subtract_eta(p, eta)
    ratio = m * l / delta
    if ratio <= 1 or sure >= 1:
        return 1
    if sure < _SMALLEST:
        raise UnreachableError(f"p = {float(p):.6g} would need more records than can be counted; choose a larger p")
    with decimal.localcontext(prec=_PRECISION):
        over, under = ((Decimal(one.numerator) / Decimal(one.denominator)).ln() for one in (ratio, 1 - sure))
        quotient = over / -under
        nearest = int(quotient.to_integral_value(decimal.ROUND_HALF_EVEN))
        if abs(quotient - nearest) >= _NEAR:
            return int(quotient.to_integral_value(decimal.ROUND_CEILING))
    short = nearest * (1 - sure).denominator.bit_length() < _EXACT_BITS
    return nearest if short and ratio * (1 - sure) ** nearest <= 1 else nearest + 1


def enough_samples(
    distribution: JointDistribution, weights: IntArray, k: int, delta: Fraction, eta: Fraction = Fraction(0)
) -> int:
    """Return the smallest N for which the sum over weights of Pr[Binomial(N, weight) < k] is at most delta.

    For k records per class, *weights* are the weights of the classes. For l values, k is 1 and they are the weights of
    each class's l most frequent values: the union bound of Theorem 4.4 without replacing each probability by p.
    """
    check_delta(delta)
    chances, times = _distinct_chances(distribution, weights, eta)
    return smallest(lambda n: _sum_tails(k, n, chances, times), delta)


def failure_bound(
    distribution: JointDistribution, weights: IntArray, k: int, n: int, eta: Fraction = Fraction(0)
) -> float:
    """Return an upper bound on the probability that fewer than k of n records have some of these weights."""
    if n < 0:
        raise UsageError(f"the number of samples must be at least 0, got {n}")
    return min(1.0, _sum_tails(k, n, *_distinct_chances(distribution, weights, eta)))


def compose_delta(delta: Fraction, releases: int) -> Fraction:
    """Return t delta, an upper bound on the probability that t linked releases, or any of them, fail (Theorem 4.5).

    >>> compose_delta(Fraction("0.01"), 3)
    Fraction(3, 100)
    """
    check_delta(delta)
    if releases < 1:
        raise UsageError(f"the number of releases must be at least 1, got {releases}")
    return min(Fraction(1), delta * releases)


def p_for_samples(
    distribution: JointDistribution,
    l: int,
    delta: Fraction,
    n: int,
    eta: Fraction = Fraction(0),
    tight: Callable[[Fraction], IntArray] | None = None,
) -> Fraction:
    """Return the smallest p for which n records suffice; N(p) falls with p, and a smaller p makes no fewer classes.

    The search is a bisection over multiples of 1/total, the only probabilities that sums of entries can have. N is the
    paper's number or, if *tight* returns the classes' weights for a p, the smallest number that these classes need.
    """
    check_delta(delta)
    check_l(distribution, l)
    subtract_eta(Fraction(1), eta)
    highest, rest = int(distribution.marginal()[l - 1]), distribution.tail(l)
    lowest = math.floor(eta * distribution.total) + 1
    if lowest > highest:
        subtract_eta(distribution.probability(highest), eta)

    def count_needed(weight: int) -> int:
        p = distribution.probability(weight)
        if tight is not None:
            return enough_samples(distribution, tight(p), 1, delta, eta)
        return paper_samples(class_bound(distribution.n_points, rest, l, p), l, p, delta, eta)

    least = count_needed(highest)
    if least > n:
        raise UnreachableError(
            f"{n:,} samples are too few for l = {l} and delta = {float(delta):g}, even with all records in one class: "
            f"at least {least:,} are needed; collect more, or choose a smaller l or a larger delta"
        )
    weights = range(lowest, highest)
    return distribution.probability(lowest + bisect_left(weights, True, key=lambda weight: count_needed(weight) <= n))


def smallest(failing: Callable[[int], float], delta: Fraction) -> int:
    """Return the smallest N at which a falling floating-point bound is below delta by a margin."""
    limit = float(delta) * (1 - MARGIN)
    high = 1
    while failing(high) > limit:
        high *= 2
        if high > MOST_SAMPLES:
            raise UnreachableError("no number of samples that could be collected suffices; choose larger classes")
    untried = range(high // 2 + 1, high)  # half of it fails, or is 0
    return untried.start + bisect_left(untried, True, key=lambda n: failing(n) <= limit)


def chances_of(weights: IntArray, total: int, eta: Fraction) -> FloatArray:
    """Return weights as probabilities minus eta, rounded down."""
    return np.clip(weights / total * (1 - 1e-15) - float(eta) * (1 + 1e-15), 0.0, 1.0)


@kernel
def _lower_tails(k: int, n: int, ways: float, chances: FloatArray) -> FloatArray:
    """Return Pr[Binomial(n, chance) < k]: the terms from k - 1 down, until the rest is negligible."""
    tails = np.ones(len(chances), dtype=np.float64)
    for at in range(len(chances)):
        chance = chances[at]
        if chance >= 1.0:
            chance = 1.0 - 2.0**-53
        if chance <= 0.0 or k - 1 > n * chance:
            continue
        term = np.exp(ways + (k - 1) * np.log(chance) + (n - k + 1) * np.log1p(-chance))
        total = term
        for i in range(k - 1, 0, -1):
            term *= i / (n - i + 1) * ((1 - chance) / chance)
            total += term
            if term * i < total * 1e-16:  # terms fall, so this bounds the sum of the rest
                total += term * i
                break
        tails[at] = total
    return tails


def classes_of_weight(distribution: JointDistribution, p: Fraction) -> CodeArray:
    """Return (n_points,) the most classes that runs of points can make, each with a probability of at least p."""
    if not 0 < p <= 1:
        raise UsageError(f"p must be above 0 and at most 1, got {float(p):g}")
    threshold = distribution.threshold(p)
    if threshold > int(distribution.weights.sum()):
        raise UnreachableError(f"the probability of all points together is below {float(p):g}; choose a smaller p")
    return _close(distribution.point_weights(), threshold)


def _close(weights: IntArray, threshold: int) -> CodeArray:
    each = np.arange(len(weights) + 1, dtype=np.int64)
    return close_classes(Entries(each, np.zeros(len(weights), dtype=np.int32), weights, 1), 1, threshold)


def sum_classes(weights: IntArray, number: CodeArray) -> IntArray:
    sums = np.zeros(int(number.max()) + 1, dtype=np.int64)
    np.add.at(sums, number, weights)
    return sums


def least_linked(
    distribution: JointDistribution, number: CodeArray, n: int, delta: Fraction, eta: Fraction = Fraction(0)
) -> int:
    """Return how many records every class keeps if t releases of n or more are linked, except with probability t delta.

    Each count of a class and a value falls below its binomial quantile with at most an equal share of delta, and
    linking leaves the smallest count (``docs/l-delta-beyond.md``).
    """
    from scipy.stats import binom

    summed = sum_values(distribution, number)
    chances, place = np.unique(chances_of(summed.counts, distribution.total, eta), return_inverse=True)
    low = binom.ppf(float(delta) * (1 - _ROUNDING) / len(summed.counts), n, chances)
    return int(np.add.reduceat(low[place], summed.start[:-1]).min())


def k_classes(
    distribution: JointDistribution, k: int, delta: Fraction, n: int, eta: Fraction = Fraction(0), linked: bool = False
) -> CodeArray:
    """Return classes of the smallest weight found for which n records suffice; if *linked*, also after linking."""
    check_delta(delta)
    limit = float(delta) * (1 - MARGIN)
    weights = distribution.point_weights()

    def enough(number: CodeArray) -> bool:
        if linked:
            return least_linked(distribution, number, n, delta, eta) >= k
        chances, times = _distinct_chances(distribution, sum_classes(weights, number), eta)
        return _sum_tails(k, n, chances, times) <= limit

    low, high = lightest(distribution, k, limit, n, eta), int(distribution.weights.sum())
    made = most_classes(lambda threshold: _close(weights, threshold), enough, weights, low, high, distribution.n_points)
    if made is None:
        raise UnreachableError(
            f"{n:,} samples are too few for k = {k} and delta = {float(delta):g}, even with all records in one class; "
            "collect more, or choose a smaller k or a larger delta"
        )
    return made


def lightest(distribution: JointDistribution, k: int, limit: float, n: int, eta: Fraction) -> int:
    """Return the smallest weight whose class has fewer than k of n records with a probability of at most *limit*."""

    def rare(weight: int) -> bool:
        return float(fewer_than(k, n, chances_of(np.array([weight]), distribution.total, eta))[0]) <= limit

    weights = range(math.floor(eta * distribution.total) + 1, distribution.total + 1)
    return weights.start + bisect_left(weights, True, key=rare)


def _distinct_chances(distribution: JointDistribution, sums: IntArray, eta: Fraction) -> tuple[FloatArray, FloatArray]:
    """Return the distinct probabilities of weights, minus eta and rounded down, and how often each occurs."""
    weights, times = np.unique(sums, return_counts=True)
    subtract_eta(distribution.probability(int(weights[0])), eta)
    return chances_of(weights, distribution.total, eta), times.astype(np.float64)


def _sum_tails(k: int, n: int, chances: FloatArray, times: FloatArray) -> float:
    return float((times * fewer_than(k, n, chances)).sum())


def fewer_than(k: int, n: int, chances: FloatArray) -> FloatArray:
    """Return Pr[Binomial(n, chance) < k] for each chance, rounded up; 1 if k - 1 is above the mean.

    >>> fewer_than(2, 3, np.array([0.5])).round(6)  # (1 + 3) / 8
    array([0.5])
    """
    if n < k:
        return np.ones(len(chances))
    before = np.arange(k - 1, dtype=np.float64)
    ways = float(np.log((n - before) / (before + 1)).sum())  # ln of n over k - 1
    rounding = _ROUNDING if k > 1 else MARGIN
    return np.minimum(_lower_tails(k, n, ways, chances) * (1 + rounding), 1.0)


def most_classes(
    make: Callable[[int], CodeArray],
    enough: Callable[[CodeArray], bool],
    weights: IntArray,
    low: int,
    high: int,
    work: int,
) -> CodeArray | None:
    """Return classes for the lowest threshold found at which the samples suffice; None if they never do.

    ``make`` must return the same classes for every threshold up to the weight of its lightest class; *weights* are the
    weights of all points. A larger threshold need not suffice whenever a smaller one does, so an upward search from
    *low*, below which nothing suffices, follows the bisection. The more *work* one try is, the fewer tries there are.
    """
    tries = max(FEWEST_TRIES, min(MOST_TRIES, WORK // work))
    best = make(high)
    if low > high or not enough(best):
        return None
    floor, found = low, high  # the threshold of the best classes
    while low < found and tries > 0:
        middle = max(low, min(math.isqrt(low * found), found - 1))
        classes = make(middle)
        tries -= 1
        if enough(classes):
            best, found = classes, middle
        else:
            low = int(sum_classes(weights, classes).min()) + 1
    while floor < found and tries > 0:
        classes = make(floor)
        tries -= 1
        if enough(classes):
            return classes
        floor = int(sum_classes(weights, classes).min()) + 1
    return best

"""How many records make classes safe: Rameshwar and Tandon, Algorithm 1 and Theorems 4.4 and 4.5.

With N independent records, every class shows at least l sensitive values with probability at least 1 - delta. Nothing
is rounded so that a promise could fail: N up, probabilities of failure up.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from shoal.agency.classes import Classes, check_l
from shoal.agency.distribution import JointDistribution
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError

MARGIN = 1e-9  # by which a sum in floating point must stay below its limit
MOST_SAMPLES = 2**62
_PRECISION = 60
_NEAR = Decimal(10) ** -40
_EXACT_BITS = 10**7
_SMALLEST = Fraction(1, 2**62)  # smaller ones need more than 2^62 records


def class_bound(n_points: int, marginal: Sequence[Fraction], l: int, p: Fraction) -> Fraction:
    """Return m, which no number of classes exceeds: min(|Q|, 1/(l p), (p_l + p_{l+1} + ...)/p), Lemma 4.3.

    *marginal* holds the probabilities of the sensitive values, in any order.

    >>> class_bound(3000, [Fraction(1, 50)] * 50, l=10, p=Fraction(2, 10000))
    Fraction(500, 1)
    """
    ordered = sorted(marginal, reverse=True)
    return _bound(n_points, sum(ordered[l - 1 :], Fraction(0)), l, p)


def bound_of(distribution: JointDistribution, l: int, p: Fraction) -> Fraction:
    """Return m of a distribution; from the estimate itself, for the classes are made from it."""
    rest = distribution.probability(int(distribution.marginal()[l - 1 :].sum()))
    return _bound(distribution.n_points, rest, l, p)


def _bound(n_points: int, rest: Fraction, l: int, p: Fraction) -> Fraction:
    return min(Fraction(n_points), 1 / (l * p), rest / p)


def check_delta(delta: Fraction) -> None:
    """Raise unless delta is in (0, 1)."""
    if not 0 < delta < 1:
        raise UsageError(f"delta must be above 0 and below 1, got {float(delta):g}")


def surely(p: Fraction, eta: Fraction) -> Fraction:
    """Return p - eta, which p certainly is if the distribution is off by at most eta in total variation."""
    if not 0 <= eta < 1:
        raise UsageError(f"eta must be at least 0 and below 1, got {float(eta):g}")
    if p <= eta:
        raise UnreachableError(
            f"p = {float(p):.6g} is not above eta = {float(eta):.6g}: what is this rare could as well never occur; "
            "take a larger p or a better known distribution"
        )
    return p - eta


def paper_samples(m: Fraction, l: int, p: Fraction, delta: Fraction, eta: Fraction = Fraction(0)) -> int:
    """Return N of Algorithm 1, rounded up: the smallest with m l (1 - p)^N <= delta, for p - eta in place of p.

    >>> paper_samples(Fraction(500), 10, Fraction("0.0002"), Fraction("0.01"))
    65606
    """
    check_delta(delta)
    sure = surely(p, eta)
    ratio = m * l / delta
    if ratio <= 1 or sure >= 1:
        return 1
    if sure < _SMALLEST:
        raise UnreachableError(f"p = {float(p):.6g} would need more records than can be counted; take a larger p")
    with decimal.localcontext(prec=_PRECISION):
        quotient = _ln(ratio) / -_ln(1 - sure)
        nearest = int(quotient.to_integral_value(decimal.ROUND_HALF_EVEN))
        if abs(quotient - nearest) >= _NEAR:
            return int(quotient.to_integral_value(decimal.ROUND_CEILING))
    short = nearest * (1 - sure).denominator.bit_length() < _EXACT_BITS
    return nearest if short and ratio * (1 - sure) ** nearest <= 1 else nearest + 1


def tight_samples(distribution: JointDistribution, classes: Classes, delta: Fraction, eta: Fraction) -> int:
    """Return the smallest N with sum over classes, over their l likeliest s, of (1 - P(class,s))^N <= delta.

    It rests on the classes that were made, not on a bound of their number: the same union bound as in Theorem 4.4,
    without replacing each P by p.
    """
    check_delta(delta)
    chances, times = _chances(distribution, classes, eta)
    return smallest(lambda n: _missing(chances, times, n), delta)


def failure_bound(distribution: JointDistribution, classes: Classes, n: int, eta: Fraction = Fraction(0)) -> float:
    """Return what the probability is at most that a release of n records has a class with fewer than l values."""
    if n < 0:
        raise UsageError(f"the number of samples must be at least 0, got {n}")
    chances, times = _chances(distribution, classes, eta)
    return min(1.0, _missing(chances, times, n))


def composed_delta(delta: Fraction, releases: int) -> Fraction:
    """Return t delta: so probably may t linked releases, or any of them, fall below l (Theorem 4.5).

    >>> composed_delta(Fraction("0.01"), 3)
    Fraction(3, 100)
    """
    check_delta(delta)
    if releases < 1:
        raise UsageError(f"the number of releases must be at least 1, got {releases}")
    return min(Fraction(1), delta * releases)


def p_for_samples(
    distribution: JointDistribution, l: int, delta: Fraction, n: int, eta: Fraction = Fraction(0)
) -> Fraction:
    """Return the smallest p for which n records suffice: N(p) falls with p, and smaller p make no fewer classes.

    Useful are only probabilities that sums of entries can have, whole numbers of 1/total, so that bisection ends.
    """
    check_delta(delta)
    check_l(distribution, l)
    surely(Fraction(1), eta)
    marginal = distribution.marginal()
    highest, rest = int(marginal[l - 1]), distribution.probability(int(marginal[l - 1 :].sum()))
    lowest = math.floor(eta * distribution.total) + 1
    if lowest > highest:
        surely(distribution.probability(highest), eta)

    def needed(weight: int) -> int:
        p = distribution.probability(weight)
        return paper_samples(_bound(distribution.n_points, rest, l, p), l, p, delta, eta)

    least = needed(highest)
    if least > n:
        raise UnreachableError(
            f"{n:,} samples are too few for l = {l} and delta = {float(delta):g}, even with everybody in one class: "
            f"at least {least:,} are needed; collect more, or ask for a smaller l or a larger delta"
        )
    low, high = lowest, highest  # needed(high) <= n
    while low < high:
        middle = (low + high) // 2
        if needed(middle) <= n:
            high = middle
        else:
            low = middle + 1
    return distribution.probability(high)


def smallest(failing: Callable[[int], float], delta: Fraction) -> int:
    """Return the smallest N at which a falling bound, computed in floating point, is below delta with a margin."""
    limit = float(delta) * (1 - MARGIN)
    high = 1
    while failing(high) > limit:
        high *= 2
        if high > MOST_SAMPLES:
            raise UnreachableError("no number of samples that could ever be collected is enough; take larger classes")
    low = high // 2  # fails, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        if failing(middle) > limit:
            low = middle
        else:
            high = middle
    return high


def _chances(distribution: JointDistribution, classes: Classes, eta: Fraction) -> tuple[FloatArray, FloatArray]:
    """Return the distinct probabilities that the promise rests on, rounded down, and how often each occurs."""
    weights, times = np.unique(classes.weights, return_counts=True)
    surely(distribution.probability(int(weights[0])), eta)
    return chances_of(weights, distribution.total, eta), times.astype(np.float64)


def chances_of(weights: IntArray, total: int, eta: Fraction) -> FloatArray:
    """Return weights as probabilities, less eta, rounded down."""
    return np.clip(weights / total * (1 - 1e-15) - float(eta) * (1 + 1e-15), 0.0, 1.0)


def _missing(chances: FloatArray, times: FloatArray, n: int) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(chances < 1, np.log1p(-chances), -np.inf) * n if n else np.zeros(len(chances))
    return float((times * np.exp(logs)).sum()) * (1 + MARGIN)


def _ln(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).ln()

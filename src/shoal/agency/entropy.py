"""How many records give every class entropy l-diversity; proofs in ``docs/l-delta-proofs.md``."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shoal.agency.classes import sum_values
from shoal.agency.distribution import Entries, JointDistribution
from shoal.agency.samples import (
    MARGIN,
    chances_of,
    check_delta,
    class_weights,
    fewer_than,
    lightest,
    most_classes,
    smallest,
    sum_classes,
)
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.kernels import inline_kernel, kernel

FEWEST = 3  # records of a class, from which on more records make a low entropy less probable
SHARES = tuple(Fraction(eighths, 8) for eighths in (2, 3, 4, 5, 6, 7))
USUAL_SHARE = Fraction(1, 2)
WORK_FOR_ENTRY = 200  # one try takes so much longer than reading entries, about
_NONE = Fraction(0)


def close_by_entropy(
    distribution: JointDistribution, l: float, p: Fraction, share: Fraction = USUAL_SHARE
) -> CodeArray:
    """Return (n_points,) runs of points, each with a probability of at least p and an entropy well above ln l.

    Above it by a share of what the entropy of all records together is above it. An entropy just above ln l would need
    records without end.
    """
    if not 0 < p <= 1:
        raise UsageError(f"p must be above 0 and at most 1, got {float(p):g}")
    least = math.log(l) + float(share) * _spare_entropy(distribution, l)
    return _close_varied(distribution.entries, distribution.threshold(p), least)


def _spare_entropy(distribution: JointDistribution, l: float) -> float:
    """Return by how much the entropy of all records together is above ln l, rounded down."""
    whole = float(class_entropies(distribution, np.zeros(distribution.n_points, dtype=np.int32))[0][0])
    spare = whole - math.log(l)
    if spare <= 2 * MARGIN * whole:
        raise UnreachableError(
            f"all records together have values of {distribution.sensitive!r} as varied as {math.exp(whole):.6g} "
            f"equally frequent ones, so that no class can be sure of l = {l:g}; ask for a smaller l"
        )
    return spare * (1 - MARGIN)


def class_entropies(distribution: JointDistribution, number: CodeArray) -> tuple[FloatArray, IntArray]:
    """Return (n_classes,) the entropy of the sensitive values of each class, and how many values it has."""
    summed = sum_values(distribution, number)
    owner = np.repeat(np.arange(len(summed.start) - 1), summed.distinct)
    shares = summed.counts / np.bincount(owner, weights=summed.counts)[owner]
    information = -shares * np.log(shares)
    return np.bincount(owner, weights=information, minlength=len(summed.start) - 1).astype(np.float64), summed.distinct


def entropy_samples(distribution: JointDistribution, number: CodeArray, l: float, delta: Fraction) -> int:
    """Return N so that all classes have entropy >= ln l among N records with probability at least 1 - delta.

    Half of delta pays for classes with too few records, half for entropies that come out too low. Every class must
    have an entropy above ln l in the distribution itself, which must be exact.
    """
    records = records_wanted(distribution, number, l, delta)
    chances = chances_of(class_weights(distribution, number), distribution.total, _NONE)
    wanted, group = np.unique(records, return_inverse=True)

    def failing(n: int) -> float:
        return sum(float(fewer_than(int(k), n, chances[group == i]).sum()) for i, k in enumerate(wanted))

    return smallest(failing, delta / 2)


def entropy_classes(distribution: JointDistribution, l: float, delta: Fraction, n: int) -> CodeArray:
    """Return as many classes as are found for which n records are enough, trying several shares of the entropy."""
    check_delta(delta)
    limit = float(delta / 2) * (1 - MARGIN)
    weights, spare = distribution.point_weights(), _spare_entropy(distribution, l)

    def enough(number: CodeArray) -> bool:
        try:
            wanted = records_wanted(distribution, number, l, delta)
        except UnreachableError:
            return False
        chances = chances_of(sum_classes(weights, number), distribution.total, _NONE)
        return float(fewer_bound(wanted, n, chances).sum()) <= limit

    def best(share: Fraction) -> CodeArray | None:
        least = math.log(l) + float(share) * spare
        return most_classes(
            lambda threshold: _close_varied(distribution.entries, threshold, least),
            enough,
            weights,
            min(low, high),
            high,
            WORK_FOR_ENTRY * len(distribution.codes),
        )

    low, high = lightest(distribution, FEWEST, limit, n, _NONE), int(distribution.weights.sum())
    made = [number for number in map(best, SHARES) if number is not None]
    if not made:
        raise UnreachableError(
            f"{n:,} samples are too few for an entropy of ln {l:g} and delta = {float(delta):g}, even with everybody "
            "in one class; collect more, or ask for a smaller l or a larger delta"
        )
    return max(made, key=lambda number: int(number.max()))


def records_wanted(distribution: JointDistribution, number: CodeArray, l: float, delta: Fraction) -> IntArray:
    """Return (n_classes,) with how many records each class misses ln l no more probably than its part of delta / 2."""
    check_delta(delta)
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l:g}")
    entropy, values = class_entropies(distribution, number)
    spare = entropy * (1 - MARGIN) - math.log(l) * (1 + MARGIN)
    if short := int((spare <= 0).sum()):
        raise UnreachableError(
            f"{short:,} of {len(spare):,} classes have no entropy above ln l = {math.log(l):.6g} even in the "
            "distribution; make larger classes or ask for a smaller l"
        )
    return _records(spare, values.astype(np.float64), float(delta) / 2 / len(spare))


def fewer_bound(records: IntArray, n: int, chances: FloatArray) -> FloatArray:
    """Return what Pr[Binomial(n, chance) < records] is at most, by Chernoff: quick, and 1 where nothing is said."""
    share = (records - 1) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.where(share > 0, share * np.log(share / chances), 0.0)
        apart = upper + (1 - share) * (np.log1p(-share) - np.log1p(-chances))
        bound = np.exp(-n * apart) * (1 + MARGIN)
    return np.where((share < chances) & (chances < 1), bound, np.where(share < chances, 0.0, 1.0))


def entropy_tail(records: FloatArray, spare: FloatArray, values: FloatArray) -> FloatArray:
    """Return what the probability is at most that so many records of a class have an entropy of ln l or less.

    exp(-2 n e^2 / (1 + ln n)^2) with e = spare - ln(1 + (values - 1)/n); 1 if e is not positive.
    """
    excess = np.maximum(spare - np.log1p((values - 1) / records), 0.0)
    return np.asarray(np.exp(-2 * records * excess**2 / (1 + np.log(records)) ** 2) * (1 + MARGIN))


def _records(spare: FloatArray, values: FloatArray, limit: float) -> IntArray:
    """Return the smallest numbers of records, from 3 on, whose tail is below the limit: it falls from there."""
    low = np.full(len(spare), FEWEST - 1, dtype=np.int64)
    high = np.full(len(spare), 2**40, dtype=np.int64)
    if (entropy_tail(high.astype(np.float64), spare, values) > limit).any():
        raise UnreachableError("a class has so little entropy above ln l that no number of records is enough")
    while (high - low > 1).any():
        middle = (low + high) // 2
        fails = entropy_tail(middle.astype(np.float64), spare, values) > limit
        apart = high - low > 1
        low = np.where(apart & fails, middle, low)
        high = np.where(apart & ~fails, middle, high)
    return high.astype(np.int64)


@inline_kernel
def _add_point(entries: Entries, point: int, sums: IntArray) -> tuple[int, float]:
    """Add a point to the sums of a class; return its weight, and by how much the sum of w ln w grows."""
    weight = 0
    logs = 0.0
    for entry in range(entries.starts[point], entries.starts[point + 1]):
        before = sums[entries.codes[entry]]
        after = before + entries.weights[entry]
        sums[entries.codes[entry]] = after
        weight += entries.weights[entry]
        logs += after * np.log(after)
        if before > 0:
            logs -= before * np.log(before)
    return weight, logs


@kernel
def _close_varied(entries: Entries, threshold: int, least: float) -> CodeArray:
    """Return (n_points,) the class of each point: a new one begins once weight and entropy of the last suffice.

    An unfinished tail joins the class before it, and with it the one before that, until they suffice together.
    """
    n_points = len(entries.starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    weight = 0
    logs = 0.0  # the sum of w ln w: the entropy is ln(weight) - logs/weight
    current = 0
    for point in range(n_points):
        number[point] = current
        added, more = _add_point(entries, point, sums)
        weight += added
        logs += more
        if weight > 0 and weight >= threshold and np.log(weight) - logs / weight >= least:
            current += 1
            weight = 0
            logs = 0.0
            sums[:] = 0
    if number[n_points - 1] < current:
        return number
    point = n_points - 1
    while point >= 0 and number[point] == current:
        point -= 1
    while point >= 0:
        joined = number[point]
        while point >= 0 and number[point] == joined:
            added, more = _add_point(entries, point, sums)
            weight += added
            logs += more
            point -= 1
        current = joined
        if weight >= threshold and np.log(weight) - logs / weight >= least:
            break
    number[point + 1 :] = current
    return number

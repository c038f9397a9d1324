"""Equivalence classes made from a distribution, before any record is available.

A class is safe to plan with if at least l sensitive values have a probability of at least p in it (Rameshwar and
Tandon, Algorithm 1, step 3). Every function here returns such classes or raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shoal.agency.distribution import Entries, JointDistribution
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.kernels import inline_kernel, kernel
from shoal.linking.kernels import Histograms

MOST_CANDIDATES = 128
FEWEST_CANDIDATES = 8
COMPARISONS = 3 * 10**8  # approximate number: one or two seconds


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The class of each point, and the l most frequent sensitive values of each class, which its promise rests on.

    For promises that name no values, l is 0 here.
    """

    number: CodeArray  # (n_points,) from 0
    weights: IntArray  # (n_classes, l) of the l likeliest values, the likeliest first
    values: CodeArray  # (n_classes, l) these values, ascending

    @property
    def n_classes(self) -> int:
        """|Q-bar|."""
        return len(self.weights)

    def weakest(self) -> int:
        """Return the smallest weight that the promise rests on: every p up to it makes the same classes."""
        return int(self.weights[:, -1].min())


def check_l_and_p(distribution: JointDistribution, l: int, p: Fraction) -> None:
    """Raise unless 1 <= l <= |S| and 0 < p <= p_l; otherwise not even one class exists (Lemma 4.2)."""
    check_l(distribution, l)
    if p <= 0:
        raise UsageError(f"p must be above 0, got {float(p):g}")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    if p > highest:
        raise UnreachableError(
            f"p = {float(p):.6g} is above p_l = {float(highest):.6g}, the probability of value number {l} of "
            f"{distribution.sensitive!r} by frequency: no class could have {l} such values; "
            f"choose p <= {_round_down(highest)}"
        )


def check_l(distribution: JointDistribution, l: int) -> None:
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l}")
    if l > distribution.n_values:
        raise UnreachableError(
            f"l = {l} is more than the {distribution.n_values} values of {distribution.sensitive!r}; choose a smaller l"
        )


def greedy_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """End a class as soon as l values have P >= p: the most classes that runs of points along the order can make.

    GREEDY-GENERALIZE, Algorithm 2 as meant: the last point counts, and an unfinished tail joins the class before it.
    """
    check_l_and_p(distribution, l, p)
    number = close_classes(distribution.entries, l, distribution.threshold(p))
    return check_classes(distribution, number, l, p)


def independent_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Make classes of equal length, which suffices if quasi-identifiers and sensitive values are independent.

    GENERALIZE-IND, Algorithm 3 with T rounded up and the tail merged. It raises if a class misses the requirement
    because the values are not independent.
    """
    check_l_and_p(distribution, l, p)
    rarest = distribution.probability(int(distribution.point_weights().min()))
    if not rarest:
        raise UnreachableError("points with probability 0 rule out classes of equal length; use the greedy classes")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    length = -((-p / (rarest * highest)).__floor__())  # |Q| p / (theta p_l) with theta = |Q| min P_Q
    n_classes = max(distribution.n_points // length, 1)
    number = np.minimum(np.arange(distribution.n_points) // length, n_classes - 1).astype(np.int32)
    return check_classes(distribution, number, l, p)


def gather_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Gather points from anywhere so that complementary values meet; never fewer classes than the greedy method.

    The result is the better of the greedy classes and a heuristic (``docs/adr/0016-agency.md``). These classes are sets
    of points, not ranges.
    """
    greedy = greedy_classes(distribution, l, p)
    weight = distribution.point_weights()
    candidates = max(FEWEST_CANDIDATES, min(MOST_CANDIDATES, COMPARISONS // len(distribution.codes)))
    pool = _Pool(np.argsort(-weight, kind="stable"), weight, int((weight > 0).sum()), candidates)
    number = _gather(distribution.entries, l, distribution.threshold(p), pool)
    return check_classes(distribution, number, l, p) if int(number.max()) >= greedy.n_classes else greedy


def check_classes(distribution: JointDistribution, number: CodeArray, l: int, p: Fraction) -> Classes:
    """Count each class independently of how it was made, and raise unless it has l values with P >= p."""
    summed = sum_values(distribution, number)
    owner = np.repeat(np.arange(len(summed.start) - 1), summed.distinct)
    falling = np.lexsort((summed.value, -summed.counts, owner))  # class by class, ties by code
    rank = np.arange(len(falling)) - summed.start[owner]
    likeliest = falling[rank < l]
    weights, values = np.zeros((len(summed.start) - 1, l), np.int64), np.zeros((len(summed.start) - 1, l), np.int32)
    weights[owner[likeliest], rank[rank < l]] = summed.counts[likeliest]
    values[owner[likeliest], rank[rank < l]] = summed.value[likeliest]
    if short := int((weights[:, -1] < distribution.threshold(p)).sum()):
        raise UnreachableError(
            f"{short:,} of {len(weights):,} classes have fewer than {l} values of {distribution.sensitive!r} with "
            f"probability {float(p):.6g}; use the greedy classes or a smaller p"
        )
    return Classes(number, weights, np.sort(values, axis=1))


def sum_values(distribution: JointDistribution, number: CodeArray) -> Histograms:
    points = Histograms(distribution.starts, distribution.codes, distribution.weights)
    return points.merge(np.arange(len(number)), number, int(number.max()) + 1, distribution.n_values)


def _round_down(value: Fraction) -> str:
    text = f"{float(value):.6g}"
    return text if Fraction(text) <= value else f"{float(value) * (1 - 1e-5):.6g}"


@kernel
def close_classes(entries: Entries, l: int, threshold: int) -> CodeArray:
    """Return (n_points,) the class of each point; a class ends once l values have reached the threshold."""
    n_points = len(entries.starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    seen_in = np.full(entries.n_values, -1, dtype=np.int64)  # the class of each sum, which saves clearing them
    current = 0
    reached = 0
    for point in range(n_points):
        number[point] = current
        for entry in range(entries.starts[point], entries.starts[point + 1]):
            value = entries.codes[entry]
            if seen_in[value] != current:
                seen_in[value] = current
                sums[value] = 0
            before = sums[value]
            sums[value] = before + entries.weights[entry]
            if before < threshold <= sums[value]:
                reached += 1
        if reached >= l:
            current += 1
            reached = 0
    point = n_points - 1
    while current > 0 and point >= 0 and number[point] == current:  # the tail
        number[point] = current - 1
        point -= 1
    return number


class _Pool(NamedTuple):
    """Points by decreasing weight; the candidates at the head are compared."""

    points: IntArray  # (n_points,)
    weight: IntArray  # (n_points,) of each point
    end: int  # number of points with a positive weight
    candidates: int  # compared at a time


@kernel
def _gather(entries: Entries, l: int, threshold: int, pool: _Pool) -> CodeArray:
    """Return (n_points,) the class of each point: the best candidate joins until l values are full.

    Points left over at the end join the last class.
    """
    number = np.full(len(entries.starts) - 1, -1, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    current = begin = head = reached = 0  # the class has the points from begin to head
    while head < pool.end:
        point = _take_best(entries, threshold, pool, head, sums)
        head += 1
        for entry in range(entries.starts[point], entries.starts[point + 1]):
            before = sums[entries.codes[entry]]
            sums[entries.codes[entry]] = before + entries.weights[entry]
            if before < threshold <= sums[entries.codes[entry]]:
                reached += 1
        if reached >= l:
            number[pool.points[begin:head]] = current
            current, begin, reached = current + 1, head, 0
            sums[:] = 0
    number[number < 0] = max(current - 1, 0)
    return number


@inline_kernel
def _take_best(entries: Entries, threshold: int, pool: _Pool, head: int, sums: IntArray) -> int:
    """Bring the most useful candidate to the head, and return it.

    The gain of a point is its increase of the sum over values of (share of the threshold reached)^3, divided by its
    weight. The power favours nearly full values, so a class ends with l full values and others nearly empty.
    """
    best = head
    highest = -1.0
    for place in range(head, min(head + pool.candidates, pool.end)):
        point = pool.points[place]
        gain = 0.0
        for entry in range(entries.starts[point], entries.starts[point + 1]):
            before = sums[entries.codes[entry]] / threshold
            if before < 1.0:
                after = min(before + entries.weights[entry] / threshold, 1.0)
                gain += after * after * after - before * before * before
        gain /= pool.weight[point]
        if gain > highest:
            highest = gain
            best = place
    pool.points[head], pool.points[best] = pool.points[best], pool.points[head]
    return int(pool.points[head])

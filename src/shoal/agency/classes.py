"""Equivalence classes made from a distribution, before any record is seen.

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
COMPARISONS = 3 * 10**8  # of entries with sums, about: a second or two


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Which class each point is in, and the l likeliest sensitive values of each class: what its promise rests on.

    Where a promise names no values, l is 0 here.
    """

    number: CodeArray  # (n_points,) from 0
    weights: IntArray  # (n_classes, l) of the l likeliest values, the likeliest first
    values: CodeArray  # (n_classes, l) these values, ascending

    @property
    def n_classes(self) -> int:
        """|Q-bar|."""
        return len(self.weights)

    def weakest(self) -> int:
        """Return the smallest weight that the promise rests on: classes are the same for every p up to it."""
        return int(self.weights[:, -1].min())


def check_l_and_p(distribution: JointDistribution, l: int, p: Fraction) -> None:
    """Raise unless 1 <= l <= |S| and 0 < p <= p_l, without which not even one class exists (Lemma 4.2)."""
    check_l(distribution, l)
    if p <= 0:
        raise UsageError(f"p must be above 0, got {float(p):g}")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    if p > highest:
        raise UnreachableError(
            f"p = {float(p):.6g} is above p_l = {float(highest):.6g}, the probability of the value of "
            f"{distribution.sensitive!r} that is number {l} by frequency: no class could have {l} such values; "
            f"take p <= {_round_down(highest)}"
        )


def check_l(distribution: JointDistribution, l: int) -> None:
    """Raise unless 1 <= l <= |S|."""
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l}")
    if l > distribution.n_values:
        raise UnreachableError(
            f"l = {l} is more than the {distribution.n_values} values of {distribution.sensitive!r}; take a smaller l"
        )


def greedy_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Close a class as soon as l values have P >= p: the most classes that runs of points along the order can make.

    GREEDY-GENERALIZE, Algorithm 2 as meant: the last point counts, and an unfinished tail joins the class before it.
    """
    check_l_and_p(distribution, l, p)
    number = close_classes(distribution.entries, l, distribution.threshold(p))
    return check_classes(distribution, number, l, p)


def independent_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Make all classes equally long, which suffices where quasi and sensitive values are independent.

    GENERALIZE-IND, Algorithm 3 with T rounded up and the tail merged. Where the values are not independent, so that
    a class misses the requirement, it raises.
    """
    check_l_and_p(distribution, l, p)
    rarest = distribution.probability(int(distribution.point_weights().min()))
    if not rarest:
        raise UnreachableError("a point with probability 0 leaves no length of classes; use the greedy classes")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    length = -((-p / (rarest * highest)).__floor__())  # |Q| p / (theta p_l) with theta = |Q| min P_Q
    n_classes = max(distribution.n_points // length, 1)
    number = np.minimum(np.arange(distribution.n_points) // length, n_classes - 1).astype(np.int32)
    return check_classes(distribution, number, l, p)


def gather_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Gather points from anywhere so that values which miss each other meet; never fewer classes than the greedy.

    The best of the greedy and two heuristics for covering: see ``docs/adr/0016-agency.md``. Such classes are sets of
    points, no ranges.
    """
    greedy = greedy_classes(distribution, l, p)
    entries, threshold = distribution.entries, distribution.threshold(p)
    weight = distribution.point_weights()
    candidates = max(FEWEST_CANDIDATES, min(MOST_CANDIDATES, COMPARISONS // len(distribution.codes)))
    pool = _Pool(np.argsort(-weight, kind="stable"), weight, np.array([0]), int((weight > 0).sum()), candidates)
    queues = _make_queues(entries)
    found = [_gather(entries, l, threshold, queues, pool, by_gain) for by_gain in (False, True)]
    number = max(found, key=lambda each: int(each.max()))
    return check_classes(distribution, number, l, p) if int(number.max()) >= greedy.n_classes else greedy


def check_classes(distribution: JointDistribution, number: CodeArray, l: int, p: Fraction) -> Classes:
    """Count each class anew, whatever made it, and raise unless it has l values with P >= p."""
    summed = sum_values(distribution, number)
    owner = np.repeat(np.arange(len(summed.start) - 1), summed.distinct)
    falling = np.lexsort((summed.value, -summed.counts, owner))  # class by class; ties go to lower codes
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
    """Return the weights of the values of each class."""
    points = Histograms(distribution.starts, distribution.codes, distribution.weights)
    return points.merge(np.arange(len(number)), number, int(number.max()) + 1, distribution.n_values)


def make_unnamed(number: CodeArray) -> Classes:
    """Return classes whose promise rests on no particular values."""
    n_classes = int(number.max()) + 1
    return Classes(number, np.empty((n_classes, 0), dtype=np.int64), np.empty((n_classes, 0), dtype=np.int32))


def _round_down(value: Fraction) -> str:
    """Write a probability with six digits, never more than it is."""
    text = f"{float(value):.6g}"
    return text if Fraction(text) <= value else f"{float(value) * (1 - 1e-5):.6g}"


@kernel
def close_classes(entries: Entries, l: int, threshold: int) -> CodeArray:
    """Return (n_points,) the class of each point: a new one begins once l values have reached the threshold."""
    n_points = len(entries.starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    seen_in = np.full(entries.n_values, -1, dtype=np.int64)  # the class that a sum belongs to: nothing is ever cleared
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


class _Queues(NamedTuple):
    """Points in a queue for each value, which is their likeliest; a queue is taken from at both ends."""

    points: IntArray  # (n_queued,) queue after queue, the lightest point first
    light: IntArray  # (n_values,) where the light end of each queue is
    heavy: IntArray  # (n_values,) after its heavy end
    left: IntArray  # (n_values,) weight of each value over the points of its queue
    weight: IntArray  # (n_points,) of the point's likeliest value
    filling: IntArray  # (1,) the value whose queue is taken from; -1 before the first


class _Pool(NamedTuple):
    """Points by falling weight, of which those at the head are compared."""

    points: IntArray  # (n_points,)
    weight: IntArray  # (n_points,) of each point
    head: IntArray  # (1,) how many are taken
    end: int  # of the points that have a weight
    candidates: int  # that are compared


def _make_queues(entries: Entries) -> _Queues:
    """Put every point that has a weight into the queue of its likeliest value; ties go to lower codes."""
    lengths = np.diff(entries.starts)
    point = np.flatnonzero(lengths)
    order = np.lexsort((-entries.weights, np.repeat(np.arange(len(lengths)), lengths)))
    first = order[entries.starts[point]]
    value, weight = entries.codes[first], np.zeros(len(lengths), dtype=np.int64)
    weight[point] = entries.weights[first]
    bounds = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(value, minlength=entries.n_values))))
    left = np.zeros(entries.n_values, dtype=np.int64)
    np.add.at(left, value, weight[point])
    queued = point[np.lexsort((weight[point], value))]
    return _Queues(queued, bounds[:-1].copy(), bounds[1:].copy(), left, weight, np.array([-1]))


@kernel
def _gather(entries: Entries, l: int, threshold: int, queues: _Queues, pool: _Pool, by_gain: bool) -> CodeArray:
    """Return (n_points,) the class of each point: points are taken, by either heuristic, until l values are full.

    What is left over and makes no class joins the last one.
    """
    n_points = len(entries.starts) - 1
    number = np.full(n_points, -1, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    members = np.empty(n_points, dtype=np.int64)
    current = 0
    while True:
        sums[:] = 0
        queues.filling[0] = -1
        reached = 0
        n_members = 0
        while reached < l:
            point = _take_best(entries, threshold, pool, sums) if by_gain else _take_queued(threshold, queues, sums)
            if point < 0:
                break
            members[n_members] = point
            n_members += 1
            for entry in range(entries.starts[point], entries.starts[point + 1]):
                before = sums[entries.codes[entry]]
                sums[entries.codes[entry]] = before + entries.weights[entry]
                if before < threshold <= sums[entries.codes[entry]]:
                    reached += 1
        if reached < l:
            break
        for member in range(n_members):
            number[members[member]] = current
        current += 1
    for point in range(n_points):
        if number[point] < 0:
            number[point] = max(current - 1, 0)
    return number


@inline_kernel
def _take_queued(threshold: int, queues: _Queues, sums: IntArray) -> int:
    """Take from the queue of the value that has most left among those that the class lacks; -1 if there is none.

    First the heaviest point, then the lightest ones until the value has reached the threshold.
    """
    light, heavy, left = queues.light, queues.heavy, queues.left
    best = queues.filling[0]
    if best >= 0 and sums[best] < threshold and light[best] < heavy[best]:
        point = int(queues.points[light[best]])
        light[best] += 1
    else:
        best = -1
        for value in range(len(sums)):
            lacking = sums[value] < threshold and light[value] < heavy[value]
            if lacking and (best < 0 or left[value] + sums[value] > left[best] + sums[best]):
                best = value
        queues.filling[0] = best
        point = -1
        if best >= 0:
            heavy[best] -= 1
            point = int(queues.points[heavy[best]])
    if best >= 0:
        left[best] -= queues.weight[point]
    return point


@inline_kernel
def _take_best(entries: Entries, threshold: int, pool: _Pool, sums: IntArray) -> int:
    """Take the candidate that helps most; -1 if there is none.

    A point helps by what it adds to the sum of (share of the threshold reached)^3 over values, for its weight: the
    power favours values that are nearly there, so that a class ends with l values full and others nearly empty.
    """
    head = pool.head[0]
    if head >= pool.end:
        return -1
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
    taken = int(pool.points[best])
    pool.points[best] = pool.points[head]
    pool.head[0] = head + 1
    return taken

"""Equivalence classes made from a distribution, before any record is seen.

A class is safe to plan with if at least l sensitive values have a probability of at least p in it (Rameshwar and
Tandon, Algorithm 1, step 3). Every function here returns such classes or raises.

Compiled loops that gather points from anywhere into classes: two heuristics for covering with several values.

Both return (n_points,) the class of each point; what is left over and makes no class joins the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.agency.distribution import JointDistribution
from shoal.agency.kernels import close_classes, likeliest
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.compiled import compiled, inlined
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.sorting import places_ascending

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
            f"take p <= {_rounded_down(highest)}"
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
    number = close_classes(
        distribution.starts,
        distribution.codes,
        distribution.weights,
        distribution.n_values,
        l,
        distribution.threshold(p),
    )
    return checked(distribution, number, l, p)


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
    return checked(distribution, number, l, p)


def gathered_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Gather points from anywhere so that values which miss each other meet; never fewer classes than the greedy.

    The best of the greedy and two heuristics for covering: see ``docs/adr/0016-l-delta.md``. Such classes are sets of
    points, no ranges.
    """
    greedy = greedy_classes(distribution, l, p)
    entries = distribution.starts, distribution.codes, distribution.weights, distribution.n_values
    threshold = distribution.threshold(p)
    candidates = max(FEWEST_CANDIDATES, min(MOST_CANDIDATES, COMPARISONS // len(distribution.codes)))
    gathered = (from_queues(*entries, l, threshold), by_gain(*entries, l, threshold, candidates))
    number = max(gathered, key=lambda each: int(each.max()))
    return checked(distribution, number, l, p) if int(number.max()) >= greedy.n_classes else greedy


def checked(distribution: JointDistribution, number: CodeArray, l: int, p: Fraction) -> Classes:
    """Count each class anew, whatever made it, and raise unless it has l values with P >= p."""
    order = np.argsort(number, kind="stable")
    weights, values = likeliest(
        distribution.starts,
        distribution.codes,
        distribution.weights,
        distribution.n_values,
        l,
        order,
        number,
        int(number.max()) + 1,
    )
    if short := int((weights[:, -1] < distribution.threshold(p)).sum()):
        raise UnreachableError(
            f"{short:,} of {len(weights):,} classes have fewer than {l} values of {distribution.sensitive!r} with "
            f"probability {float(p):.6g}; use the greedy classes or a smaller p"
        )
    return Classes(number, weights, values)


def without_values(number: CodeArray) -> Classes:
    """Return classes whose promise rests on no particular values."""
    n_classes = int(number.max()) + 1
    return Classes(number, np.empty((n_classes, 0), dtype=np.int64), np.empty((n_classes, 0), dtype=np.int32))


def _rounded_down(value: Fraction) -> str:
    """Write a probability with six digits, never more than it is."""
    text = f"{float(value):.6g}"
    return text if Fraction(text) <= value else f"{float(value) * (1 - 1e-5):.6g}"


@inlined
def _added(starts: IntArray, codes: CodeArray, weights: IntArray, point: int, sums: IntArray, threshold: int) -> int:
    """Add a point to the sums of a class; return how many values reach the threshold by it."""
    reached = 0
    for entry in range(starts[point], starts[point + 1]):
        before = sums[codes[entry]]
        sums[codes[entry]] = before + weights[entry]
        if before < threshold <= sums[codes[entry]]:
            reached += 1
    return reached


@inlined
def _rest_to_last(number: CodeArray, n_classes: int) -> None:
    """Put points without a class into the last one, for they cannot make a class of their own."""
    last = max(n_classes - 1, 0)
    for point in range(len(number)):
        if number[point] < 0:
            number[point] = last


@compiled
def from_queues(
    starts: IntArray, codes: CodeArray, weights: IntArray, n_values: int, l: int, threshold: int
) -> CodeArray:
    """Return (n_points,) the class of each point, gathered from queues of points by their likeliest value.

    A class takes from the queue of the value that has most left among those that it still lacks: first the
    heaviest point, then the lightest ones until the value has reached the threshold.
    """
    n_points = len(starts) - 1
    number = np.full(n_points, -1, dtype=np.int32)
    home = np.full(n_points, -1, dtype=np.int64)
    weight = np.zeros(n_points, dtype=np.int64)
    left = np.zeros(n_values, dtype=np.int64)  # weight of each value over the points of its queue
    length = np.zeros(n_values + 1, dtype=np.int64)
    for point in range(n_points):
        for entry in range(starts[point], starts[point + 1]):
            if weights[entry] > weight[point]:
                weight[point] = weights[entry]
                home[point] = codes[entry]
        if home[point] >= 0:
            left[home[point]] += weight[point]
            length[home[point] + 1] += 1
    bounds = np.cumsum(length)
    queue = np.empty(bounds[n_values], dtype=np.int64)
    fill = bounds.copy()
    for point in places_ascending(weight):
        if home[point] >= 0:
            queue[fill[home[point]]] = point
            fill[home[point]] += 1
    light = bounds[:-1].copy()
    heavy = bounds[1:].copy()
    sums = np.zeros(n_values, dtype=np.int64)
    members = np.empty(n_points, dtype=np.int64)
    current = 0
    n_members = 0
    while True:
        sums[:] = 0
        reached = 0
        n_members = 0
        while reached < l:
            best = -1
            for value in range(n_values):
                lacking = sums[value] < threshold and light[value] < heavy[value]
                if lacking and (best < 0 or left[value] + sums[value] > left[best] + sums[best]):
                    best = value
            if best < 0:
                break
            first = True
            while sums[best] < threshold and light[best] < heavy[best] and reached < l:
                if first:
                    heavy[best] -= 1
                    point = queue[heavy[best]]
                    first = False
                else:
                    point = queue[light[best]]
                    light[best] += 1
                left[best] -= weight[point]
                members[n_members] = point
                n_members += 1
                reached += _added(starts, codes, weights, point, sums, threshold)
        if reached < l:
            break
        for member in range(n_members):
            number[members[member]] = current
        current += 1
    _rest_to_last(number, current)
    return number


@compiled
def by_gain(
    starts: IntArray, codes: CodeArray, weights: IntArray, n_values: int, l: int, threshold: int, candidates: int
) -> CodeArray:
    """Return (n_points,) the class of each point: of so many candidates, heaviest first, that which helps most joins.

    A point helps by what it adds to the sum of (share of the threshold reached)^3 over values, for its weight: the
    power favours values that are nearly there, so that a class ends with l values full and others nearly empty.
    """
    n_points = len(starts) - 1
    number = np.full(n_points, -1, dtype=np.int32)
    weight = np.zeros(n_points, dtype=np.int64)
    for point in range(n_points):
        for entry in range(starts[point], starts[point + 1]):
            weight[point] += weights[entry]
    pool = places_ascending(-weight)
    n_useful = (weight > 0).sum()
    sums = np.zeros(n_values, dtype=np.int64)
    members = np.empty(n_points, dtype=np.int64)
    current = 0
    head = 0
    while True:
        sums[:] = 0
        reached = 0
        n_members = 0
        while reached < l and head < n_useful:
            best = head
            highest = -1.0
            for place in range(head, min(head + candidates, n_useful)):
                point = pool[place]
                gain = 0.0
                for entry in range(starts[point], starts[point + 1]):
                    before = sums[codes[entry]] / threshold
                    if before < 1.0:
                        after = min(before + weights[entry] / threshold, 1.0)
                        gain += after * after * after - before * before * before
                gain /= weight[point]
                if gain > highest:
                    highest = gain
                    best = place
            point = pool[best]
            pool[best] = pool[head]
            head += 1
            members[n_members] = point
            n_members += 1
            reached += _added(starts, codes, weights, point, sums, threshold)
        if reached < l:
            break
        for member in range(n_members):
            number[members[member]] = current
        current += 1
    _rest_to_last(number, current)
    return number

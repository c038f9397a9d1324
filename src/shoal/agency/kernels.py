"""Compiled loops over the points of a distribution."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.compiled import compiled, inlined
from shoal.core.sorting import places_ascending


@compiled
def close_classes(
    starts: IntArray, codes: CodeArray, weights: IntArray, n_values: int, l: int, threshold: int
) -> CodeArray:
    """Return (n_points,) the class of each point: a new one begins once l values have reached the threshold."""
    n_points = len(starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(n_values, dtype=np.int64)
    seen_in = np.full(n_values, -1, dtype=np.int64)  # the class that a sum belongs to: nothing is ever cleared
    current = 0
    reached = 0
    for point in range(n_points):
        number[point] = current
        for entry in range(starts[point], starts[point + 1]):
            value = codes[entry]
            if seen_in[value] != current:
                seen_in[value] = current
                sums[value] = 0
            before = sums[value]
            sums[value] = before + weights[entry]
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


@inlined
def _summed_class(
    starts: IntArray, codes: CodeArray, weights: IntArray, order: IntArray, number: CodeArray, at: int, sums: IntArray
) -> int:
    """Sum the weights of each value over the class whose points begin at a place of the order; return where it ends."""
    current = number[order[at]]
    sums[:] = 0
    while at < len(order) and number[order[at]] == current:
        point = order[at]
        for entry in range(starts[point], starts[point + 1]):
            sums[codes[entry]] += weights[entry]
        at += 1
    return at


@compiled
def likeliest(
    starts: IntArray,
    codes: CodeArray,
    weights: IntArray,
    n_values: int,
    l: int,
    order: IntArray,
    number: CodeArray,
    n_classes: int,
) -> tuple[IntArray, CodeArray]:
    """Return (n_classes, l) the largest weights of values in each class, and whose they are; ties go to lower codes.

    *order* has the points class by class. Weights fall along a row; the values of a row ascend.
    """
    largest = np.zeros((n_classes, l), dtype=np.int64)
    values = np.zeros((n_classes, l), dtype=np.int32)
    sums = np.zeros(n_values, dtype=np.int64)
    chosen = np.full(n_values, -1, dtype=np.int64)  # the class in which a value was last among the likeliest
    at = 0
    while at < len(order):
        current = number[order[at]]
        at = _summed_class(starts, codes, weights, order, number, at, sums)
        falling = places_ascending(-sums)[:l]
        for rank in range(l):
            largest[current, rank] = sums[falling[rank]]
            chosen[falling[rank]] = current
        taken = 0
        for value in range(n_values):
            if chosen[value] == current:
                values[current, taken] = value
                taken += 1
    return largest, values


@inlined
def _added(starts: IntArray, codes: CodeArray, weights: IntArray, point: int, sums: IntArray) -> tuple[int, float]:
    """Add a point to the sums of a class; return its weight, and by how much the sum of w ln w grows."""
    weight = 0
    logs = 0.0
    for entry in range(starts[point], starts[point + 1]):
        before = sums[codes[entry]]
        after = before + weights[entry]
        sums[codes[entry]] = after
        weight += weights[entry]
        logs += after * np.log(after)
        if before > 0:
            logs -= before * np.log(before)
    return weight, logs


@compiled
def close_varied(
    starts: IntArray, codes: CodeArray, weights: IntArray, n_values: int, threshold: int, least: float
) -> CodeArray:
    """Return (n_points,) the class of each point: a new one begins once weight and entropy of the last suffice.

    An unfinished tail joins the class before it, and with it the one before that, until they suffice together.
    """
    n_points = len(starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(n_values, dtype=np.int64)
    weight = 0
    logs = 0.0  # the sum of w ln w: the entropy is ln(weight) - logs/weight
    current = 0
    for point in range(n_points):
        number[point] = current
        added, more = _added(starts, codes, weights, point, sums)
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
            added, more = _added(starts, codes, weights, point, sums)
            weight += added
            logs += more
            point -= 1
        current = joined
        if weight >= threshold and np.log(weight) - logs / weight >= least:
            break
    number[point + 1 :] = current
    return number


@compiled
def entropies(
    starts: IntArray,
    codes: CodeArray,
    weights: IntArray,
    n_values: int,
    order: IntArray,
    number: CodeArray,
    n_classes: int,
) -> tuple[FloatArray, IntArray]:
    """Return (n_classes,) entropy and number of values of each class; *order* has the points class by class."""
    entropy = np.zeros(n_classes, dtype=np.float64)
    values = np.zeros(n_classes, dtype=np.int64)
    sums = np.zeros(n_values, dtype=np.int64)
    at = 0
    while at < len(order):
        current = number[order[at]]
        at = _summed_class(starts, codes, weights, order, number, at, sums)
        total = sums.sum()
        for value in range(n_values):
            if sums[value] > 0:
                share = sums[value] / total
                entropy[current] -= share * np.log(share)
                values[current] += 1
    return entropy, values


@compiled
def lower_tails(k: int, n: int, ways: float, chances: FloatArray) -> FloatArray:
    """Return Pr[Binomial(n, chance) < k]: the term of k - 1 and those below, until they are too small to count."""
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
            if term * i < total * 1e-16:  # terms fall, so all that are left are less than this
                total += term * i
                break
        tails[at] = total
    return tails

"""Compiled loops that gather points from anywhere into classes: two heuristics for covering with several values.

Both return (n_points,) the class of each point; what is left over and makes no class joins the last one.
"""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.compiled import compiled, inlined
from shoal.sorting import places_ascending


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

"""MDAV in compiled loops: distances of all records left to one point, again and again."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.compiled import compiled, inlined
from shoal.core.sorting import places_ascending


@inlined
def record_distance(numbers: FloatArray, categories: CodeArray, unequal: FloatArray, a: int, b: int) -> float:
    """Return the squared distance of two records."""
    total = 0.0
    for j in range(numbers.shape[1]):
        difference = numbers[a, j] - numbers[b, j]
        total += difference * difference
    for j in range(categories.shape[1]):
        if categories[a, j] != categories[b, j]:
            total += unequal[j]
    return total


@compiled
def _farthest_from_centre(
    numbers: FloatArray,
    categories: CodeArray,
    unequal: FloatArray,
    first_value: IntArray,
    left: IntArray,
    n_left: int,
    sums: FloatArray,
    counts: IntArray,
) -> int:
    """Return the place among those left of the record farthest from their centre; of several, the first record.

    The centre has the mean of each number, and of each categorical attribute the shares of its values: half the
    squared distance between them and a value's indicator stands for the distance from a category.
    """
    n_numbers, n_categories = numbers.shape[1], categories.shape[1]
    centre = sums / n_left
    away = np.empty(len(counts))
    for j in range(n_categories):
        squares = 0.0
        for value in range(first_value[j], first_value[j + 1]):
            share = counts[value] / n_left
            squares += share * share
        for value in range(first_value[j], first_value[j + 1]):
            away[value] = unequal[j] * (1.0 - 2.0 * (counts[value] / n_left) + squares) / 2.0
    best, most = 0, -1.0
    for place in range(n_left):
        record = left[place]
        total = 0.0
        for j in range(n_numbers):
            difference = numbers[record, j] - centre[j]
            total += difference * difference
        for j in range(n_categories):
            total += away[first_value[j] + categories[record, j]]
        if total > most or (total == most and record < left[best]):
            best, most = place, total
    return best


@compiled
def _take_nearest(
    numbers: FloatArray,
    categories: CodeArray,
    unequal: FloatArray,
    left: IntArray,
    n_left: int,
    centre: int,
    k: int,
    distances: FloatArray,
    nearest: IntArray,
    near: FloatArray,
) -> None:
    """Put the places of the k records left that are nearest to one of them into *nearest*, itself first.

    Of records equally near those of smaller number come first. *distances* are kept for whoever asks next.
    """
    target = left[centre]
    nearest[0], near[0] = centre, -1.0
    found = 1
    for place in range(n_left):
        record = left[place]
        distance = record_distance(numbers, categories, unequal, record, target)
        distances[place] = distance
        if place == centre or k == 1:
            continue
        if found == k:
            last = left[nearest[k - 1]]
            if distance > near[k - 1] or (distance == near[k - 1] and record > last):
                continue
            found -= 1
        at = found
        while at > 1 and (near[at - 1] > distance or (near[at - 1] == distance and left[nearest[at - 1]] > record)):
            near[at], nearest[at] = near[at - 1], nearest[at - 1]
            at -= 1
        near[at], nearest[at] = distance, place
        found += 1


@compiled
def _remove(
    numbers: FloatArray,
    categories: CodeArray,
    first_value: IntArray,
    left: IntArray,
    n_left: int,
    distances: FloatArray,
    nearest: IntArray,
    k: int,
    group: CodeArray,
    number: int,
    sums: FloatArray,
    counts: IntArray,
) -> int:
    """Make the nearest records a group, and return how many are left."""
    places = nearest[:k][places_ascending(nearest[:k])]
    for i in range(k - 1, -1, -1):  # from the end, so that what fills a gap is never one of the group
        record = left[places[i]]
        group[record] = number
        for j in range(numbers.shape[1]):
            sums[j] -= numbers[record, j]
        for j in range(categories.shape[1]):
            counts[first_value[j] + categories[record, j]] -= 1
        n_left -= 1
        left[places[i]] = left[n_left]
        distances[places[i]] = distances[n_left]
    return n_left


@compiled
def mdav(
    numbers: FloatArray, categories: CodeArray, first_value: IntArray, unequal: FloatArray, k: int
) -> tuple[CodeArray, int]:
    """Return (n_records,) groups of k to 2k - 1 of at least k records, and the number of groups.

    Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", DMKD 11(2),
    2005: around the record farthest from the centre of what is left, and around the one farthest from that.
    """
    n_left = len(numbers)
    group = np.empty(n_left, dtype=np.int32)
    left = np.arange(n_left)
    sums = np.zeros(numbers.shape[1])
    counts = np.zeros(first_value[-1], dtype=np.int64)
    for record in range(n_left):
        for j in range(numbers.shape[1]):
            sums[j] += numbers[record, j]
        for j in range(categories.shape[1]):
            counts[first_value[j] + categories[record, j]] += 1
    distances = np.empty(n_left)
    nearest = np.empty(k, dtype=np.int64)
    near = np.empty(k)
    n_groups = 0
    while n_left >= 2 * k:
        both = n_left >= 3 * k
        centre = _farthest_from_centre(numbers, categories, unequal, first_value, left, n_left, sums, counts)
        for turn in range(2 if both else 1):
            if turn == 1:  # of those that are left: all the same records may have been equally far
                centre = 0
                for place in range(1, n_left):
                    if distances[place] > distances[centre] or (
                        distances[place] == distances[centre] and left[place] < left[centre]
                    ):
                        centre = place
            _take_nearest(numbers, categories, unequal, left, n_left, centre, k, distances, nearest, near)
            n_left = _remove(
                numbers, categories, first_value, left, n_left, distances, nearest, k, group, n_groups, sums, counts
            )
            n_groups += 1
    for place in range(n_left):
        group[left[place]] = n_groups
    return group, n_groups + 1

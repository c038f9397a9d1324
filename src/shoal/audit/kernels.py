"""Compiled loops over groups of cells that share the values of some attributes, and over the values of classes."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import compiled, places_ascending


@compiled
def count_split(first: IntArray, order: CodeArray, codes: CodeArray, records: IntArray, domain: int) -> tuple[int, int]:
    """Return into how many classes one more attribute splits the groups, and how many of these have one record.

    Group g holds the cells ``order[first[g]:first[g + 1]]``; *codes* are the attribute's, below *domain*.
    """
    table = np.zeros(domain, dtype=np.int64)
    distinct = 0
    unique = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] += records[order[place]]
        for place in range(first[group], first[group + 1]):
            found = table[codes[order[place]]]
            if found > 0:
                distinct += 1
                if found == 1:
                    unique += 1
                table[codes[order[place]]] = 0
    return distinct, unique


@compiled
def split(
    first: IntArray, order: CodeArray, codes: CodeArray, records: IntArray, domain: int
) -> tuple[IntArray, CodeArray, int, int]:
    """Split the groups by one more attribute; cells that are then alone are counted and left out.

    Return the groups of two and more cells, the number of lone cells, and how many of these have one record.
    """
    table = np.zeros(domain, dtype=np.int64)
    place_of = np.zeros(domain, dtype=np.int64)
    new_first = np.zeros(len(order) // 2 + 1, dtype=np.int64)
    new_order = np.empty(len(order), dtype=np.int32)
    groups = 0
    used = 0
    lone = 0
    unique = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] += 1
        for place in range(first[group], first[group + 1]):
            code = codes[order[place]]
            if table[code] == 1:
                lone += 1
                if records[order[place]] == 1:
                    unique += 1
                table[code] = 0
            elif table[code] > 1:
                place_of[code] = used
                used += table[code]
                groups += 1
                new_first[groups] = used
                table[code] = -1
        for place in range(first[group], first[group + 1]):
            code = codes[order[place]]
            if table[code] == -1:
                new_order[place_of[code]] = order[place]
                place_of[code] += 1
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] = 0
    return new_first[: groups + 1].copy(), new_order[:used].copy(), lone, unique


@compiled
def small_class_keys(first: IntArray, values: CodeArray, records: IntArray, base: int, most: int) -> KeyArray:
    """Return a number for each class that tells all of its values, the same for classes alike; 0 if it is too large.

    The items of class c are ``first[c]:first[c + 1]``, ascending by value. A class of up to *most* records is
    written with one digit a record to a *base* above all values.
    """
    keys = np.zeros(len(first) - 1, dtype=np.uint64)
    for row in range(len(first) - 1):
        size = 0
        for item in range(first[row], first[row + 1]):
            size += records[item]
        if size <= most:
            key = np.uint64(0)
            for item in range(first[row], first[row + 1]):
                for _ in range(records[item]):
                    key = key * np.uint64(base) + np.uint64(values[item] + 1)
            keys[row] = key
    return keys


@compiled
def tally(which: IntArray, first: IntArray, values: CodeArray, records: IntArray, counts: IntArray) -> None:
    """Add up the records of each value in the classes *which*, one row of *counts* for each of them."""
    for row in range(len(which)):
        for item in range(first[which[row]], first[which[row] + 1]):
            counts[row, values[item]] += records[item]


@compiled
def count_ranks(first: IntArray, values: CodeArray, records: IntArray) -> tuple[IntArray, IntArray]:
    """Return the counts of the values of each class, the most frequent first, and where each class starts in them.

    The items of class c are ``first[c]:first[c + 1]``, ascending by value.
    """
    counts = np.empty(len(values), dtype=np.int64)
    starts = np.zeros(len(first), dtype=np.int64)
    used = 0
    for row in range(len(first) - 1):
        begin = used
        for item in range(first[row], first[row + 1]):
            if item > first[row] and values[item] == values[item - 1]:
                counts[used - 1] += records[item]
            else:
                counts[used] = records[item]
                used += 1
        counts[begin:used] = counts[begin:used][places_ascending(-counts[begin:used])]
        starts[row + 1] = used
    return starts, counts[:used].copy()


@compiled
def find_singles(first: IntArray, order: CodeArray, codes: CodeArray, single: BoolArray, domain: int) -> CodeArray:
    """Return the cells of one record that are alone within their group by one more attribute.

    Group g holds the cells ``order[first[g]:first[g + 1]]``; *codes* are the attribute's, below *domain*; *single*
    says which cells have one record.
    """
    table = np.zeros(domain, dtype=np.int32)
    found = np.empty(len(order), dtype=np.int32)
    n_found = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] += 1
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            if table[codes[cell]] == 1 and single[cell]:
                found[n_found] = cell
                n_found += 1
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] = 0
    return found[:n_found].copy()


@compiled
def split_groups(
    first: IntArray, order: CodeArray, codes: CodeArray, single: BoolArray, domain: int
) -> tuple[IntArray, CodeArray]:
    """Split the groups by one more attribute; keep those of two and more cells of which one has a single record.

    No attribute can single a record out of the groups that are left away: it is alone already, or none is single.
    """
    cells = np.zeros(domain, dtype=np.int64)
    singles = np.zeros(domain, dtype=np.int64)
    place_of = np.full(domain, -1, dtype=np.int64)
    new_first = np.zeros(len(order) // 2 + 1, dtype=np.int64)
    new_order = np.empty(len(order), dtype=np.int32)
    groups = 0
    used = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            cells[codes[cell]] += 1
            if single[cell]:
                singles[codes[cell]] += 1
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            code = codes[cell]
            if cells[code] > 1 and singles[code] > 0:
                if place_of[code] < 0:
                    place_of[code] = used
                    used += cells[code]
                    groups += 1
                    new_first[groups] = used
                new_order[place_of[code]] = cell
                place_of[code] += 1
        for place in range(first[group], first[group + 1]):
            code = codes[order[place]]
            cells[code] = 0
            singles[code] = 0
            place_of[code] = -1
    return new_first[: groups + 1].copy(), new_order[:used].copy()

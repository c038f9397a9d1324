"""Compiled loops over packed keys. They release the GIL and are compiled once per machine, then cached."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Codes = NDArray[Any]


@compiled
def add_codes(key: Keys, indices: NDArray[np.int32], table: Keys) -> None:
    """OR into each row's key the already shifted code of its dictionary index."""
    for row in range(len(key)):
        key[row] |= table[indices[row]]


@compiled
def used_codes(keys: Keys, shift: int, mask: int, size: int) -> NDArray[np.bool_]:
    """Return which codes below *size* occur in one column of packed keys."""
    used = np.zeros(size, dtype=np.bool_)
    for row in range(len(keys)):
        used[(keys[row] >> np.uint64(shift)) & np.uint64(mask)] = True
    return used


@compiled
def translated(keys: Keys, shift: int, mask: int, table: Codes, out: Codes) -> None:
    """Fill in the entry of *table* for each row's code in one column of packed keys."""
    for row in range(len(keys)):
        out[row] = table[(keys[row] >> np.uint64(shift)) & np.uint64(mask)]


@compiled
def count_sorted(keys: Keys) -> tuple[Keys, Ints]:
    """Return the distinct keys of a sorted array and how often each occurs."""
    distinct = 1 if len(keys) else 0
    for i in range(1, len(keys)):
        if keys[i] != keys[i - 1]:
            distinct += 1
    out = np.empty(distinct, dtype=np.uint64)
    counts = np.empty(distinct, dtype=np.int64)
    place = -1
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            place += 1
            out[place] = keys[i]
            counts[place] = 0
        counts[place] += 1
    return out, counts


@compiled
def merge_runs(keys_a: Keys, counts_a: Ints, keys_b: Keys, counts_b: Ints) -> tuple[Keys, Ints]:
    """Return the union of two ascending runs of distinct keys, counts added."""
    keys = np.empty(len(keys_a) + len(keys_b), dtype=np.uint64)
    counts = np.empty(len(keys), dtype=np.int64)
    a = b = n = 0
    while a < len(keys_a) and b < len(keys_b):
        if keys_a[a] < keys_b[b]:
            keys[n], counts[n] = keys_a[a], counts_a[a]
            a += 1
        elif keys_b[b] < keys_a[a]:
            keys[n], counts[n] = keys_b[b], counts_b[b]
            b += 1
        else:
            keys[n], counts[n] = keys_a[a], counts_a[a] + counts_b[b]
            a += 1
            b += 1
        n += 1
    while a < len(keys_a):
        keys[n], counts[n] = keys_a[a], counts_a[a]
        a += 1
        n += 1
    while b < len(keys_b):
        keys[n], counts[n] = keys_b[b], counts_b[b]
        b += 1
        n += 1
    return keys[:n].copy(), counts[:n].copy()


@compiled
def find_sorted(run: Keys, keys: Keys, order: Ints) -> Ints:
    """Return for each key its place in the ascending run, or -1; *order* sorts the keys."""
    found = np.empty(len(keys), dtype=np.int64)
    place = 0
    if len(order):
        place = int(np.searchsorted(run, keys[order[0]]))
    for row in order:
        key = keys[row]
        step = 1
        while place + step < len(run) and run[place + step] <= key:  # gallop, then close in
            place += step
            step *= 2
        while step > 0:
            if place + step < len(run) and run[place + step] <= key:
                place += step
            else:
                step //= 2
        found[row] = place if place < len(run) and run[place] == key else -1
    return found


@compiled
def find_grouped(keys: Keys, order: Ints, n_run: int) -> Ints:
    """Like find_sorted for keys of several words: columns below *n_run* are the run, the others the rows."""
    found = np.empty(keys.shape[1] - n_run, dtype=np.int64)
    current = -1
    for position in range(len(order)):
        column = order[position]
        if position:
            previous = order[position - 1]
            for word in range(keys.shape[0]):
                if keys[word, column] != keys[word, previous]:
                    current = -1
        if column < n_run:
            current = column
        else:
            found[column - n_run] = current
    return found


@compiled
def draw_targets(
    cells: Ints,
    first: Ints,
    target: NDArray[np.int32],
    remaining: Ints,
    left: Ints,
    chance: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Deal rows to the targets of their cells, each of the cell's arrangements being equally likely.

    The quotas of cell c are ``target[first[c]:first[c + 1]]`` with ``remaining`` records each and ``left[c]``
    in all; a row takes one of the remaining places at random, by its own number in [0, 1). Where a cell has more
    rows than places, ``left`` ends below zero.
    """
    out = np.empty(len(cells), dtype=np.int32)
    for row in range(len(cells)):
        cell = cells[row]
        start, stop = first[cell], first[cell + 1]
        choice = start
        if stop - start > 1:
            place = int(chance[row] * left[cell])
            while choice < stop - 1 and place >= remaining[choice]:
                place -= remaining[choice]
                choice += 1
        remaining[choice] -= 1
        left[cell] -= 1
        out[row] = target[choice]
    return out


@compiled
def grouped(group: NDArray[np.int32], n_groups: int) -> tuple[Ints, Ints]:
    """Return where each group starts in an order of items by group, and that order; group -1 is left out."""
    first = np.zeros(n_groups + 1, dtype=np.int64)
    for item in range(len(group)):
        if group[item] >= 0:
            first[group[item] + 1] += 1
    for number in range(n_groups):
        first[number + 1] += first[number]
    place = first[:-1].copy()
    order = np.empty(first[-1], dtype=np.int64)
    for item in range(len(group)):
        if group[item] >= 0:
            order[place[group[item]]] = item
            place[group[item]] += 1
    return first, order


@compiled
def summed(group: NDArray[np.int32], records: Ints, n_groups: int) -> Ints:
    """Return the records of each group; items of group -1 belong to none."""
    total = np.zeros(n_groups, dtype=np.int64)
    for item in range(len(group)):
        if group[item] >= 0:
            total[group[item]] += records[item]
    return total


def occurring(codes: Codes) -> Ints:
    """Return the codes that occur, ascending; much faster than ``np.unique`` for codes of a small range."""
    return np.flatnonzero(np.bincount(codes))


@compiled
def varying(values: Codes, cells: Codes, owner: Codes, n: int) -> NDArray[np.bool_]:
    """Return (n,) whether the cells of each owner have several values."""
    first = np.full(n, -1, dtype=np.int64)
    several = np.zeros(n, dtype=np.bool_)
    for place in range(len(cells)):
        if several[owner[place]]:
            continue
        value = values[cells[place]]
        if first[owner[place]] < 0:
            first[owner[place]] = value
        elif first[owner[place]] != value:
            several[owner[place]] = True
    return several


@compiled
def tally_classes(first: Ints, values: NDArray[np.int32], records: Ints, counts: Ints) -> None:
    """Add up the records of each value in consecutive classes, whose items are ``first[c]:first[c + 1]``."""
    for row in range(len(first) - 1):
        for item in range(first[row], first[row + 1]):
            counts[row, values[item]] += records[item]

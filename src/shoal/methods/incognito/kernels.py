"""Compiled loops of the lattice search: they put groups of a fine node together to groups of a coarser one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled

Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@compiled
def roll_up(
    keys: Keys, tallies: Ints, word: Ints, shift: Keys, mask: Keys, first: Ints, table: Keys, room: int
) -> tuple[Codes, Keys, Ints]:
    """Recode some fields of packed keys and put equal ones together.

    Field c lies in ``word[c]`` at ``shift[c]``; its code v becomes ``table[first[c] + v]``. *room* is at least the
    number of different keys that can come out. Returns the new group of each old one, and the new groups' keys and
    tallies.
    """
    n, n_words = keys.shape
    n_slots = 16
    while n_slots < 2 * min(room, n):
        n_slots *= 2
    last = np.uint64(n_slots - 1)
    slots = np.full(n_slots, -1, dtype=np.int32)
    group_of = np.empty(n, dtype=np.int32)
    out = np.empty((min(room, n), n_words), dtype=np.uint64)
    n_groups = 0
    key = np.empty(n_words, dtype=np.uint64)
    for i in range(n):
        for w in range(n_words):
            key[w] = keys[i, w]
        for c in range(len(word)):
            w = word[c]
            code = (key[w] >> shift[c]) & mask[c]
            key[w] ^= (code ^ table[first[c] + np.int64(code)]) << shift[c]
        mixed = np.uint64(0)
        for w in range(n_words):
            mixed = (mixed ^ key[w]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = mixed & last
        while True:
            group = slots[slot]
            if group < 0:
                group = n_groups
                slots[slot] = group
                for w in range(n_words):
                    out[group, w] = key[w]
                n_groups += 1
                break
            same = True
            for w in range(n_words):
                if out[group, w] != key[w]:
                    same = False
                    break
            if same:
                break
            slot = (slot + np.uint64(1)) & last
        group_of[i] = group
    total = np.zeros((n_groups, tallies.shape[1]), dtype=np.int64)
    for i in range(n):
        for t in range(tallies.shape[1]):
            total[group_of[i], t] += tallies[i, t]
    return group_of, out[:n_groups].copy(), total


@compiled
def add_rows(group_of: Codes, histograms: Ints, n_groups: int) -> Ints:
    """Return (n_groups, n_values) the sums of the histograms of old groups."""
    total = np.zeros((n_groups, histograms.shape[1]), dtype=np.int64)
    for i in range(len(group_of)):
        group = group_of[i]
        for v in range(histograms.shape[1]):
            total[group, v] += histograms[i, v]
    return total


@compiled
def tally_values(group_of: Codes, values: Codes, records: Ints, n_groups: int, n_values: int) -> Ints:
    """Return (n_groups, n_values) the records of each value in each group; group -1 is left out."""
    total = np.zeros((n_groups, n_values), dtype=np.int64)
    for i in range(len(group_of)):
        if group_of[i] >= 0:
            total[group_of[i], values[i]] += records[i]
    return total


@compiled
def tally_codes(keys: Keys, sizes: Ints, chosen: Bools, word: int, shift: int, mask: int, n_codes: int) -> Ints:
    """Return (n_codes,) the records of the chosen groups by their code in one field."""
    total = np.zeros(n_codes, dtype=np.int64)
    for i in range(len(sizes)):
        if chosen[i]:
            total[np.int64((keys[i, word] >> np.uint64(shift)) & np.uint64(mask))] += sizes[i]
    return total


@compiled
def small_records(sizes: Ints, smallest: int) -> int:
    """Return how many records are in groups smaller than *smallest*."""
    total = 0
    for i in range(len(sizes)):
        if sizes[i] < smallest:
            total += sizes[i]
    return total


@compiled
def surely_distant(
    sizes: Ints, counts: Ints, whole: Ints, smallest: int, t: float, kept_share: float, enough: float
) -> float:
    """Return a lower bound of the records to suppress so that what remains is within t of what remains of the table.

    Take the values S that are too frequent in a class: c of its n records, a share w of the table. What remains of the
    table has S on a share of at most w / kept_share, and suppressing x records of S helps most, so that
    (c - x) / (n - x) <= t + w / kept_share. A class below *smallest* goes as a whole; the sum is left when it exceeds
    *enough*.
    """
    total = 0.0
    n_all = 0
    for v in range(len(whole)):
        n_all += whole[v]
    for i in range(len(sizes)):
        n = sizes[i]
        if n < smallest:
            total += n
            continue
        inside, outside = 0, 0
        for v in range(len(whole)):
            if counts[i, v] * n_all > n * whole[v]:
                inside += counts[i, v]
                outside += whole[v]
        limit = t + outside / n_all / kept_share
        if limit < 1.0 and inside > limit * n:
            total += (inside - limit * n) / (1.0 - limit)
        if total > enough:
            break
    return total


@compiled
def surely_uneven(sizes: Ints, counts: Ints, smallest: int, limits: Floats, distinct: int, enough: float) -> float:
    """Return a lower bound of the records to suppress so that the k most frequent values keep within ``limits[k - 1]``.

    Suppressing x records of the k values that have r of n records helps most: r - x <= limit (n - x). A class that
    has fewer than *distinct* values, or records than *smallest*, goes as a whole; the sum is left when it exceeds
    *enough*.
    """
    total = 0.0
    n_limits = len(limits)
    largest = np.zeros(n_limits, dtype=np.int64)  # descending
    for i in range(len(sizes)):
        n = sizes[i]
        if n < smallest:
            total += n
            continue
        present = 0
        largest[:] = 0
        for v in range(counts.shape[1]):
            count = counts[i, v]
            present += count > 0
            if n_limits and count > largest[n_limits - 1]:
                place = n_limits - 1
                while place > 0 and largest[place - 1] < count:
                    largest[place] = largest[place - 1]
                    place -= 1
                largest[place] = count
        if present < distinct:
            total += n
            continue
        together, surplus = 0, 0.0
        for k in range(n_limits):
            together += largest[k]
            if limits[k] < 1.0:
                surplus = max(surplus, (together - limits[k] * n) / (1.0 - limits[k]))
        total += surplus
        if total > enough:
            break
    return total


@compiled
def most_telling(alive: Bools, open_ones: Bools, shape: Ints, by_cost: Ints, separable: bool) -> int:
    """Return the open node with the largest minimum of alive nodes in its down-set and alive nodes that cost more.

    Where costs are not known beforehand, the up-set takes the place of the latter.
    """
    n = len(alive)
    below = np.empty(n, dtype=np.int32)
    above = np.empty(n, dtype=np.int32)
    for i in range(n):
        below[i] = alive[i]
        above[i] = alive[i]
    stride = n
    for axis in range(len(shape)):
        stride //= shape[axis]
        span = stride * shape[axis]
        for start in range(0, n, span):
            for i in range(start + stride, start + span):
                below[i] += below[i - stride]
            if not separable:
                for i in range(start + span - stride - 1, start - 1, -1):
                    above[i] += above[i + stride]
    if separable:
        dearer = 0
        for place in range(n - 1, -1, -1):
            dearer += alive[by_cost[place]]
            above[by_cost[place]] = dearer
    best, worth = -1, -1
    for i in range(n):
        if open_ones[i] and min(below[i], above[i]) > worth:
            best, worth = i, min(below[i], above[i])
    return best

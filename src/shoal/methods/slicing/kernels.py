"""Compiled loops of the tuple partition: where to cut buckets, which groups both sides have, and moving items.

Items are pieces of cells, those of one bucket next to each other; ``codes`` (n_items, d) are their leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled
from shoal.core.sorting import places_ascending

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Sides = NDArray[np.uint8]

EIGHTHS = (4, 2, 6, 1, 7)  # of a bucket's records, where it is tried to be cut


@compiled
def proposed(
    codes: Codes, records: Ints, starts: Ints, stops: Ints, attempts: Ints, spans: Floats
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return for each bucket the attribute to try next, where to cut it, and how many records are where.

    Attributes are tried from the widest on, relative to *spans*, all of them in the middle first, then at a quarter and
    at an eighth from both ends; -1 where nothing is left to try. The code is that at which so many eighths of the
    records are reached; returned are also these eighths, the records below and at that code, and all records.
    """
    n, d = len(starts), codes.shape[1]
    attribute = np.full(n, -1, dtype=np.int64)
    cut = np.zeros(n, dtype=np.int64)
    before = np.zeros(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)
    totals = np.zeros(n, dtype=np.int64)
    eighths = np.zeros(n, dtype=np.int64)
    least = np.empty(d, dtype=np.int64)
    most = np.empty(d, dtype=np.int64)
    tally = np.zeros(0, dtype=np.int64)
    for b in range(n):
        start, stop = starts[b], stops[b]
        for j in range(d):
            least[j] = most[j] = codes[start, j]
        total = 0
        for item in range(start, stop):
            total += records[item]
            for j in range(d):
                code = codes[item, j]
                if code < least[j]:
                    least[j] = code
                elif code > most[j]:
                    most[j] = code
        totals[b] = total
        widths = np.empty(d, dtype=np.float64)
        for j in range(d):
            widths[j] = -(most[j] - least[j]) / spans[j]
        order = places_ascending(widths)
        n_wide = 0
        while n_wide < d and widths[order[n_wide]] < 0.0:
            n_wide += 1
        if attempts[b] >= n_wide * len(EIGHTHS):
            continue
        j = order[attempts[b] % n_wide]
        eighths[b] = EIGHTHS[attempts[b] // n_wide]
        wanted = total * eighths[b]
        low = least[j]
        reach = most[j] - low + 1
        attribute[b] = j
        if reach <= 8 * (stop - start) + 64:
            if len(tally) < reach:
                tally = np.zeros(2 * reach, dtype=np.int64)
            for item in range(start, stop):
                tally[codes[item, j] - low] += records[item]
            running, place = 0, 0
            while 8 * (running + tally[place]) < wanted:
                running += tally[place]
                place += 1
            cut[b], before[b], at[b] = low + place, running, tally[place]
            tally[:reach] = 0
        else:
            by_code = places_ascending(codes[start:stop, j])
            running, position = 0, 0
            while True:
                here = codes[start + by_code[position], j]
                same = 0
                while position < len(by_code) and codes[start + by_code[position], j] == here:
                    same += records[start + by_code[position]]
                    position += 1
                if 8 * (running + same) >= wanted:
                    break
                running += same
            cut[b], before[b], at[b] = here, running, same
    return attribute, cut, eighths, before, at, totals


@compiled
def parted(
    codes: Codes, records: Ints, keys: Codes, starts: Ints, stops: Ints, attribute: Ints, cut: Ints
) -> tuple[Sides, Ints, Codes, Ints, Ints]:
    """Part the items of buckets at a code of an attribute, and number the groups of both sides.

    *keys* ascend within a bucket; a group is one side's items with the same key. Returned are the side of every item, 0
    (left: code <= cut, or in none of the buckets) or 1, the items of the buckets, their groups, (n + 1,) where each
    bucket's groups begin, and (n, 2) the records of both sides.
    """
    side = np.zeros(len(codes), dtype=np.uint8)
    n = len(starts)
    n_items = 0
    for b in range(n):
        n_items += stops[b] - starts[b]
    items = np.empty(n_items, dtype=np.int64)
    group = np.empty(n_items, dtype=np.int32)
    first = np.zeros(n + 1, dtype=np.int64)
    sizes = np.zeros((n, 2), dtype=np.int64)
    current = np.empty(2, dtype=np.int64)
    place, number = 0, 0
    for b in range(n):
        current[0] = current[1] = -1
        first[b] = number
        last = np.full(2, -1, dtype=np.int64)
        for item in range(starts[b], stops[b]):
            right = 0 if codes[item, attribute[b]] <= cut[b] else 1
            side[item] = right
            sizes[b, right] += records[item]
            if keys[item] != last[right]:
                last[right] = keys[item]
                current[right] = number
                number += 1
            items[place] = item
            group[place] = current[right]
            place += 1
    first[n] = number
    return side, items, group, first, sizes


@compiled
def moved(codes: Codes, records: Ints, keys: Codes, cells: Codes, side: Sides, starts: Ints, stops: Ints) -> Ints:
    """Put the left items of each bucket before the right ones, keeping their order; return where the right begin."""
    d = codes.shape[1]
    middles = np.empty(len(starts), dtype=np.int64)
    for b in range(len(starts)):
        start, stop = starts[b], stops[b]
        kept_codes, kept_records = codes[start:stop].copy(), records[start:stop].copy()
        kept_keys, kept_cells, kept_side = keys[start:stop].copy(), cells[start:stop].copy(), side[start:stop].copy()
        left = start
        for item in range(stop - start):
            if kept_side[item] == 0:
                left += 1
        middles[b] = left
        right, left = left, start
        for item in range(stop - start):
            target = left
            if kept_side[item] == 0:
                left += 1
            else:
                target = right
                right += 1
            for j in range(d):
                codes[target, j] = kept_codes[item, j]
            records[target], keys[target] = kept_records[item], kept_keys[item]
            cells[target], side[target] = kept_cells[item], kept_side[item]
    return middles


@compiled
def shared_out(records: Ints, tie: NDArray[np.bool_], starts: Ints, stops: Ints, wanted: Ints, at: Ints) -> Ints:
    """Return the records of tied items that go to the left: *wanted* of *at* in each bucket, evenly along the items."""
    left = np.zeros(len(records), dtype=np.int64)
    for b in range(len(starts)):
        seen, given = 0, 0
        for item in range(starts[b], stops[b]):
            if tie[item]:
                seen += records[item]
                due = seen * wanted[b] // at[b]
                left[item] = due - given
                given = due
    return left

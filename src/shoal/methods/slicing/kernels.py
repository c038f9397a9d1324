"""Compiled loops of the tuple partition: where to cut buckets, which groups both sides have, and moving items.

Items are pieces of cells, those of one bucket next to each other; ``codes`` (n_items, d) are their leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.compiled import compiled

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Sides = NDArray[np.uint8]


@compiled
def proposed(
    codes: Codes, records: Ints, starts: Ints, stops: Ints, attempts: Ints, spans: Floats
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return for each bucket the attribute to try next, its median code, the records below and at that, and all.

    Attributes are tried from the widest on, relative to *spans*; -1 where no attribute is left that has two values.
    """
    n, d = len(starts), codes.shape[1]
    attribute = np.full(n, -1, dtype=np.int64)
    median = np.zeros(n, dtype=np.int64)
    before = np.zeros(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)
    totals = np.zeros(n, dtype=np.int64)
    least = np.empty(d, dtype=np.int64)
    most = np.empty(d, dtype=np.int64)
    tally = np.zeros(0, dtype=np.int64)
    for box in range(n):
        start, stop = starts[box], stops[box]
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
        totals[box] = total
        widths = np.empty(d, dtype=np.float64)
        for j in range(d):
            widths[j] = -(most[j] - least[j]) / spans[j]
        order = np.argsort(widths, kind="mergesort")
        if attempts[box] >= d or widths[order[attempts[box]]] == 0.0:
            continue
        j = order[attempts[box]]
        low = least[j]
        reach = most[j] - low + 1
        attribute[box] = j
        if reach <= 8 * (stop - start) + 64:
            if len(tally) < reach:
                tally = np.zeros(2 * reach, dtype=np.int64)
            for item in range(start, stop):
                tally[codes[item, j] - low] += records[item]
            running, place = 0, 0
            while 2 * (running + tally[place]) < total:
                running += tally[place]
                place += 1
            median[box], before[box], at[box] = low + place, running, tally[place]
            tally[:reach] = 0
        else:
            by_code = np.argsort(codes[start:stop, j], kind="mergesort")
            running, position = 0, 0
            while True:
                here = codes[start + by_code[position], j]
                same = 0
                while position < len(by_code) and codes[start + by_code[position], j] == here:
                    same += records[start + by_code[position]]
                    position += 1
                if 2 * (running + same) >= total:
                    break
                running += same
            median[box], before[box], at[box] = here, running, same
    return attribute, median, before, at, totals


@compiled
def parted(
    codes: Codes, records: Ints, keys: Codes, starts: Ints, stops: Ints, attribute: Ints, cut: Ints, side: Sides
) -> tuple[Ints, Codes, Ints, Ints]:
    """Mark every item of the buckets 0 (left: code <= cut) or 1, and number the groups of both sides.

    *keys* ascend within a bucket; a group is one side's items with the same key. Returned are the items, their groups,
    (n + 1,) where each bucket's groups begin, and (n, 2) the records of both sides.
    """
    n = len(starts)
    n_items = 0
    for box in range(n):
        n_items += stops[box] - starts[box]
    items = np.empty(n_items, dtype=np.int64)
    group = np.empty(n_items, dtype=np.int32)
    first = np.zeros(n + 1, dtype=np.int64)
    sizes = np.zeros((n, 2), dtype=np.int64)
    current = np.empty(2, dtype=np.int64)
    place, number = 0, 0
    for box in range(n):
        current[0] = current[1] = -1
        first[box] = number
        last = np.full(2, -1, dtype=np.int64)
        for item in range(starts[box], stops[box]):
            right = 0 if codes[item, attribute[box]] <= cut[box] else 1
            side[item] = right
            sizes[box, right] += records[item]
            if keys[item] != last[right]:
                last[right] = keys[item]
                current[right] = number
                number += 1
            items[place] = item
            group[place] = current[right]
            place += 1
    first[n] = number
    return items, group, first, sizes


@compiled
def moved(codes: Codes, records: Ints, keys: Codes, cells: Codes, side: Sides, starts: Ints, stops: Ints) -> Ints:
    """Put the left items of each bucket before the right ones, keeping their order; return where the right begin."""
    d = codes.shape[1]
    middles = np.empty(len(starts), dtype=np.int64)
    for box in range(len(starts)):
        start, stop = starts[box], stops[box]
        kept_codes, kept_records = codes[start:stop].copy(), records[start:stop].copy()
        kept_keys, kept_cells, kept_side = keys[start:stop].copy(), cells[start:stop].copy(), side[start:stop].copy()
        left = start
        for item in range(stop - start):
            if kept_side[item] == 0:
                left += 1
        middles[box] = left
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
    for box in range(len(starts)):
        seen, given = 0, 0
        for item in range(starts[box], stops[box]):
            if tie[item]:
                seen += records[item]
                due = seen * wanted[box] // at[box]
                left[item] = due - given
                given = due
    return left

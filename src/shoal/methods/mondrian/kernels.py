"""Compiled loops that propose cuts of Mondrian's boxes. A node is a contiguous range of items.

Arrays throughout: ``codes`` (n_items, d) leaf codes, ``weights`` (n_items, w) records in column 0 and population
records in the others, ``place`` (d, max_leaves) position of each leaf scaled to the attribute's weight, so that
the *width* of a class is the sum over attributes of place[highest leaf] - place[lowest leaf].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiled import compiled
from shoal.sorting import places_ascending

Codes = NDArray[Any]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Floats = NDArray[np.float64]
Scratch = tuple[Small, Ints, Small, Small]  # bucket of each item; records, lowest and highest codes of each bucket


@compiled
def extents(codes: Codes, weights: Ints, starts: Ints, stops: Ints, low: Small, high: Small, sizes: Ints) -> None:
    """Fill in, node by node, the lowest and highest code of each attribute and the records and population."""
    for node in range(len(starts)):
        low[node] = 2147483647
        high[node] = -1
        sizes[node] = 0
        lowest, highest = low[node], high[node]
        for item in range(starts[node], stops[node]):
            for w in range(weights.shape[1]):
                sizes[node, w] += weights[item, w]
            if weights[item, 0] > 0:
                for j in range(codes.shape[1]):
                    code = np.int32(codes[item, j])
                    if code < lowest[j]:
                        lowest[j] = code
                    if code > highest[j]:
                        highest[j] = code


@compiled
def totals(weights: Ints, starts: Ints, stops: Ints, sizes: Ints) -> None:
    """Fill in, node by node, the records and population alone."""
    for node in range(len(starts)):
        for w in range(weights.shape[1]):
            total = 0
            for item in range(starts[node], stops[node]):
                total += weights[item, w]
            sizes[node, w] = total


@compiled
def median_cuts(
    codes: Codes, weights: Ints, starts: Ints, stops: Ints, low: Small, high: Small, sizes: Ints,
    place: Floats, smallest: int, wanted: int, attribute: Small, cut: Small,
) -> None:  # fmt: skip
    """Propose for each node the most even cuts of up to *wanted* attributes, widest attribute first.

    A cut c sends codes <= c to the left. Cuts that leave less than *smallest* records on a side are not
    proposed; unused proposals have attribute -1. *low* and *high* may be wider than what occurs.
    """
    tally = np.empty(_widest(low, high), dtype=np.int64)
    for node in range(len(starts)):
        attribute[node, :] = -1
        proposals = 0
        for j in _widest_first(place, low[node], high[node]):
            if high[node, j] <= low[node, j]:
                continue
            base = low[node, j]
            _tally_codes(codes, weights, starts[node], stops[node], j, base, high[node, j], tally)
            best = -1
            nearest = sizes[node, 0] * 2
            left = 0
            for bucket in range(1, high[node, j] - base + 1):
                left += tally[bucket - 1]
                right = sizes[node, 0] - left
                if tally[bucket] > 0 and left >= smallest and right >= smallest and abs(left - right) < nearest:
                    nearest = abs(left - right)
                    best = bucket - 1
            if best >= 0:
                attribute[node, proposals] = j
                cut[node, proposals] = base + best
                proposals += 1
                if proposals == wanted:
                    break


@compiled
def relaxed_cuts(
    codes: Codes, weights: Ints, starts: Ints, stops: Ints, low: Small, high: Small, sizes: Ints,
    place: Floats, attribute: Small, cut: Small, extra: Ints,
) -> None:  # fmt: skip
    """Propose for each node one cut per attribute that halves it, widest attribute first.

    Records at the median code go to both sides: *extra* of them, of the code after *cut*, to the left.
    """
    tally = np.empty(_widest(low, high), dtype=np.int64)
    for node in range(len(starts)):
        attribute[node, :] = -1
        proposals = 0
        for j in _widest_first(place, low[node], high[node]):
            if high[node, j] <= low[node, j]:
                continue
            base = low[node, j]
            _tally_codes(codes, weights, starts[node], stops[node], j, base, high[node, j], tally)
            left = 0
            bucket = 0
            while left + tally[bucket] <= sizes[node, 0] // 2:
                left += tally[bucket]
                bucket += 1
            attribute[node, proposals] = j
            cut[node, proposals] = base + bucket - 1
            extra[node, proposals] = sizes[node, 0] // 2 - left
            proposals += 1


@compiled
def _widest(low: Small, high: Small) -> int:
    widest = 1
    for node in range(low.shape[0]):
        for j in range(low.shape[1]):
            widest = max(widest, high[node, j] - low[node, j] + 1)
    return widest


@compiled
def _widest_first(place: Floats, low: Small, high: Small) -> Ints:
    width = np.empty(len(low))
    for j in range(len(low)):
        width[j] = place[j, high[j]] - place[j, low[j]]
    return places_ascending(-width)


@compiled
def _tally_codes(codes: Codes, weights: Ints, start: int, stop: int, j: int, low: int, high: int, tally: Ints) -> None:
    tally[: high - low + 1] = 0
    for item in range(start, stop):
        if weights[item, 0] > 0:
            tally[codes[item, j] - low] += weights[item, 0]


@compiled
def best_cuts(
    codes: Codes, weights: Ints, starts: Ints, stops: Ints, low: Small, high: Small, sizes: Ints,
    place: Floats, smallest: int, attribute: Small, cut: Small,
) -> None:  # fmt: skip
    """Propose for each node the cuts that leave the least total width, the best of each attribute first.

    All cuts of all attributes are tried: per attribute, items are bucketed by code, and the extents of a growing
    left side and a growing right side are swept over the buckets. After the d best come the d most even ones,
    which are likelier to keep distributions alike.
    """
    d = codes.shape[1]
    scratch = _scratch(d, starts, stops)
    bucket_of, tally, lowest, highest = scratch
    left_cost = np.empty(len(tally))
    run_low = np.empty(d, dtype=np.int32)
    run_high = np.empty(d, dtype=np.int32)
    active = np.empty(d, dtype=np.int64)
    score = np.empty(d)
    score_cut = np.empty(d, dtype=np.int32)
    even_cut = np.empty(d, dtype=np.int32)
    for node in range(len(starts)):
        start, stop = starts[node], stops[node]
        attribute[node, :] = -1
        total = sizes[node, 0]
        varying = active[: _varying(low[node], high[node], active)]
        score[:] = np.inf
        for j in varying:
            buckets = _bucketed(codes, start, stop, j, low[node, j], high[node, j], bucket_of)
            _bucket_extents(codes, weights, start, stop, buckets, scratch)
            run_low[:] = 2147483647
            run_high[:] = -1
            left = 0
            width = 0.0
            for b in range(buckets - 1):
                if tally[b] > 0:
                    left += tally[b]
                    if _absorb(run_low, run_high, lowest, highest, b):
                        width = _width(place, run_low, run_high, varying)
                left_cost[b] = left * width
            run_low[:] = 2147483647
            run_high[:] = -1
            right = 0
            nearest = total * 2
            for b in range(buckets - 1, 0, -1):
                if tally[b] == 0:
                    continue
                right += tally[b]
                left = total - right
                if left < smallest:
                    break
                if _absorb(run_low, run_high, lowest, highest, b):
                    width = _width(place, run_low, run_high, varying)
                if right < smallest:
                    continue
                cost = left_cost[b - 1] + right * width
                before = run_low[j] - 1
                if cost < score[j]:
                    score[j] = cost
                    score_cut[j] = before
                if abs(left - right) < nearest:
                    nearest = abs(left - right)
                    even_cut[j] = before
        proposals = 0
        for j in places_ascending(score):
            if score[j] < np.inf:
                attribute[node, proposals] = j
                cut[node, proposals] = score_cut[j]
                proposals += 1
        firsts = proposals
        for p in range(firsts):
            j = attribute[node, p]
            if even_cut[j] != score_cut[j]:
                attribute[node, proposals] = j
                cut[node, proposals] = even_cut[j]
                proposals += 1


@compiled
def _scratch(d: int, starts: Ints, stops: Ints) -> Scratch:
    largest = 1
    for node in range(len(starts)):
        largest = max(largest, stops[node] - starts[node])
    return (
        np.empty(largest, dtype=np.int32),
        np.empty(largest + 1, dtype=np.int64),
        np.empty((largest + 1, d), dtype=np.int32),
        np.empty((largest + 1, d), dtype=np.int32),
    )


@compiled
def _varying(low: Small, high: Small, active: Ints) -> int:
    """List the attributes that differ within a node, and return how many they are."""
    n = 0
    for j in range(len(low)):
        if high[j] > low[j]:
            active[n] = j
            n += 1
    return n


@compiled
def _bucketed(codes: Codes, start: int, stop: int, j: int, low: int, high: int, bucket_of: Small) -> int:
    """Give every item of a node the number of its bucket on attribute j, in the order of codes.

    A bucket is one code, or, where there are more codes than items, a stretch of codes as long as to make as many
    buckets as items.
    """
    span, n = high - low + 1, stop - start
    scale = 1.0 if span <= n else n / span
    last = min(span, n) - 1
    for item in range(start, stop):
        bucket = int((int(codes[item, j]) - low) * scale)
        bucket_of[item - start] = min(max(bucket, 0), last)
    return last + 1


@compiled
def _bucket_extents(codes: Codes, weights: Ints, start: int, stop: int, buckets: int, scratch: Scratch) -> None:
    bucket_of, tally, lowest, highest = scratch
    tally[:buckets] = 0
    lowest[:buckets] = 2147483647
    highest[:buckets] = -1
    for item in range(start, stop):
        if weights[item, 0] > 0:
            b = bucket_of[item - start]
            tally[b] += weights[item, 0]
            for i in range(codes.shape[1]):
                code = np.int32(codes[item, i])
                lowest[b, i] = min(lowest[b, i], code)
                highest[b, i] = max(highest[b, i], code)


@compiled
def _absorb(run_low: Small, run_high: Small, lowest: Small, highest: Small, b: int) -> bool:
    """Widen running extents by those of a bucket; return whether they changed."""
    changed = False
    for i in range(len(run_low)):
        if lowest[b, i] < run_low[i]:
            run_low[i] = lowest[b, i]
            changed = True
        if highest[b, i] > run_high[i]:
            run_high[i] = highest[b, i]
            changed = True
    return changed


@compiled
def _width(place: Floats, low: Small, high: Small, varying: Ints) -> float:
    width = 0.0
    for i in varying:
        width += place[i, high[i]] - place[i, low[i]]
    return width


@compiled
def shed_cuts(
    codes: Codes, weights: Ints, starts: Ints, stops: Ints, low: Small, high: Small, sizes: Ints, place: Floats,
    full: Floats, edges: tuple[Small, Small], boxed: NDArray[np.bool_], label_low: Small, label_high: Small,
    attribute: Small, cut: Small, sheds: Small, gain: Floats,
) -> None:  # fmt: skip
    """Propose for each node cuts of which one side, the smaller one, would be withheld.

    Widths are those of the labels: ``label_low`` to ``label_high``, which only a cut moves, for the *boxed*
    attributes, and the extents of the records for the others; none is more than *full*. The gain is the width that
    the kept records lose, less all of it for each withheld record, per withheld record; only gains above zero are
    proposed, the best of each attribute and side first. ``sheds`` is 0 if the left side would go, 1 if the right.
    ``edges`` are, for each attribute and code, the last cut below it and the first one not below it that may be
    published: a cut beside withheld records could be the outer end of all that stays.
    """
    d = codes.shape[1]
    scratch = _scratch(d, starts, stops)
    bucket_of, tally, lowest, highest = scratch
    best = np.empty(2 * d)
    best_cut = np.empty(2 * d, dtype=np.int32)
    new_low = np.empty(d, dtype=np.int32)
    new_high = np.empty(d, dtype=np.int32)
    lost = full.sum()
    below, above = edges
    for node in range(len(starts)):
        attribute[node, :] = -1
        best[:] = 0.0
        before = sizes[node, 0] * _label_width(place, full, label_low[node], label_high[node])
        for j in range(d):
            if high[node, j] <= low[node, j]:
                continue
            buckets = _bucketed(codes, starts[node], stops[node], j, low[node, j], high[node, j], bucket_of)
            _bucket_extents(codes, weights, starts[node], stops[node], buckets, scratch)
            for side in range(2):
                first, stop, step = (buckets - 1, -1, -1) if side == 0 else (0, buckets, 1)
                run_low = np.full(d, 2147483647, dtype=np.int32)
                run_high = np.full(d, -1, dtype=np.int32)
                kept = 0
                for b in range(first, stop, step):
                    if tally[b] == 0:
                        continue
                    shed = sizes[node, 0] - kept  # if this bucket, and all behind it, would go
                    if shed < kept:
                        edge = below[j, run_low[j]] if side == 0 else above[j, run_high[j]]
                        if (edge >= highest[b, j]) if side == 0 else (edge < lowest[b, j]):
                            for i in range(d):
                                new_low[i] = label_low[node, i] if boxed[i] else run_low[i]
                                new_high[i] = label_high[node, i] if boxed[i] else run_high[i]
                            if side == 0:
                                new_low[j] = edge + 1
                            else:
                                new_high[j] = edge
                            after = kept * _label_width(place, full, new_low, new_high)
                            ratio = (before - after - shed * lost) / shed
                            if ratio > best[2 * j + side]:
                                best[2 * j + side] = ratio
                                best_cut[2 * j + side] = edge
                    kept += tally[b]
                    _absorb(run_low, run_high, lowest, highest, b)
        proposals = 0
        for choice in places_ascending(-best):
            if best[choice] > 0.0:
                attribute[node, proposals] = choice // 2
                cut[node, proposals] = best_cut[choice]
                sheds[node, proposals] = choice % 2
                gain[node, proposals] = best[choice]
                proposals += 1


@compiled
def _label_width(place: Floats, full: Floats, low: Small, high: Small) -> float:
    width = 0.0
    for i in range(len(low)):
        width += min(place[i, high[i]] - place[i, low[i]], full[i])
    return width

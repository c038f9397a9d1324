"""Compiled loops of the attacks: which boxes cover a person, what they leave, and how many people meet a predicate."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import compiled, inlined
from shoal.linking.kernels import meeting
from shoal.linking.tree import Tree

CountedPairs: TypeAlias = tuple[IntArray, CodeArray, IntArray]  # of boxes and buckets: start, bucket, records
BucketPairs: TypeAlias = tuple[IntArray, IntArray, CodeArray]  # the same, bucket by bucket: start, pair, box
Factors: TypeAlias = tuple[
    IntArray, IntArray, FloatArray
]  # of each query, buckets that match it: start, bucket, factor
_TIE = 1e-9
_BESIDE = 1e-6  # the end of a range is not in it


@inlined
def _within(low: int, high: int, row: int, bits: KeyArray, code: int) -> bool:
    """Whether a code lies in a range and, where the range has gaps, not in one of these."""
    if code < low or code >= high:
        return False
    return row < 0 or (bits[row, code >> 6] >> np.uint64(code & 63)) & np.uint64(1) == np.uint64(1)


@compiled
def distances(
    queries: CodeArray, numbers: FloatArray, i: int, hulls: CodeArray, uneven: CodeArray, bits: KeyArray,
    spans: FloatArray, scales: FloatArray, widths: CodeArray, found: FloatArray,
) -> float:  # fmt: skip
    """Write down how far each box is from a query, and return the least: Gower's distance, summed over attributes.

    An attribute adds 0 if the box covers the value; else 1 or, of numbers, the gap by the attribute's scale.
    """
    least = np.inf
    for box in range(hulls.shape[0]):
        far = 0.0
        for a in range(numbers.shape[1]):
            low, high = queries[i, 2 * a], queries[i, 2 * a + 1]
            if high - low == widths[a] or _within(hulls[box, 2 * a], hulls[box, 2 * a + 1], uneven[box, a], bits, low):
                continue
            gap = max(spans[box, 2 * a] - numbers[i, a], numbers[i, a] - spans[box, 2 * a + 1]) / scales[a]
            far += min(1.0, max(_BESIDE, gap)) if gap == gap else 1.0
            if far > least + _TIE:
                break
        found[box] = far
        least = min(least, far)
    return least


@compiled
def covering(
    queries: CodeArray, numbers: FloatArray, hulls: CodeArray, uneven: CodeArray, bits: KeyArray, tree: Tree,
    spans: FloatArray, scales: FloatArray, widths: CodeArray, near: bool,
) -> tuple[IntArray, IntArray, FloatArray]:  # fmt: skip
    """Return of each query the boxes that cover it, or those nearest to it if none does and *near* is asked for.

    They are given as start (n_queries + 1,) and boxes; last comes how far the nearest one is, 0 if one covers the
    query, and infinity if none does and *near* is not asked for.
    """
    n = queries.shape[0]
    start = np.zeros(n + 1, dtype=np.int64)
    boxes = np.empty(max(1024, 4 * n), dtype=np.int64)
    far = np.zeros(n)
    even = np.full((1, queries.shape[1] // 2), -1, dtype=np.int32)
    one = np.empty((1, queries.shape[1]), dtype=np.int32)
    found = np.empty(hulls.shape[0], dtype=np.int64)
    apart = np.empty(hulls.shape[0])
    for i in range(n):
        one[0] = queries[i]
        count = meeting(one, even, 0, hulls, uneven, bits, tree, found)
        if count == 0:
            far[i] = np.inf
            if near:
                far[i] = distances(queries, numbers, i, hulls, uneven, bits, spans, scales, widths, apart)
                for box in range(hulls.shape[0]):
                    if apart[box] <= far[i] + _TIE:
                        found[count] = box
                        count += 1
        while start[i] + count > len(boxes):
            larger = np.empty(2 * len(boxes), dtype=np.int64)
            larger[: start[i]] = boxes[: start[i]]
            boxes = larger
        boxes[start[i] : start[i] + count] = found[:count]
        start[i + 1] = start[i] + count
    return start, boxes[: start[n]].copy(), far


@compiled
def in_all_buckets(told: BoolArray, sizes: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return factors, a list of buckets with one by their size for each query that is *told* of nothing, else empty."""
    n_buckets = len(sizes)
    start = np.zeros(len(told) + 1, dtype=np.int64)
    for i in range(len(told)):
        start[i + 1] = start[i] + (0 if told[i] else n_buckets)
    bucket = np.empty(start[-1], dtype=np.int64)
    factor = np.empty(start[-1])
    for i in range(len(told)):
        for b in range(start[i + 1] - start[i]):
            bucket[start[i] + b] = b
            factor[start[i] + b] = 1 / sizes[b]
    return start, bucket, factor


@compiled
def times_shares(
    start: IntArray, boxes: IntArray, pairs: CountedPairs, sizes: FloatArray, told: BoolArray, begun: BoolArray,
    factors: Factors,
) -> tuple[IntArray, IntArray, FloatArray]:  # fmt: skip
    """Multiply factors by the share of each bucket's records that are in one of the query's boxes.

    *told* says of which queries the part knows anything; the others' factors stay. Those of whom no part before knew
    anything, *begun* says, have one by the size of every bucket.
    """
    first, bucket, records = pairs
    before, where, factor = factors
    n = len(start) - 1
    new = np.zeros(n + 1, dtype=np.int64)
    out_bucket = np.empty(max(1024, len(where)), dtype=np.int64)
    out_factor = np.empty(len(out_bucket))
    share = np.zeros(len(sizes))
    touched = np.empty(len(sizes), dtype=np.int64)
    for i in range(n):
        n_touched = 0
        if told[i]:
            for place in range(start[i], start[i + 1]):
                for pair in range(first[boxes[place]], first[boxes[place] + 1]):
                    b = bucket[pair]
                    if share[b] == 0.0:
                        touched[n_touched] = b
                        n_touched += 1
                    share[b] += records[pair]
        most = max(n_touched, before[i + 1] - before[i])
        while new[i] + most > len(out_bucket):
            out_bucket = np.append(out_bucket, np.empty(len(out_bucket), dtype=np.int64))
            out_factor = np.append(out_factor, np.empty(len(out_factor)))
        count = new[i]
        if told[i] and not begun[i]:
            for place in range(n_touched):
                b = touched[place]
                out_bucket[count], out_factor[count] = b, share[b] / (sizes[b] * sizes[b])
                count += 1
        else:
            for place in range(before[i], before[i + 1]):
                b = where[place]
                if told[i] and share[b] == 0.0:
                    continue
                out_bucket[count] = b
                out_factor[count] = factor[place] * (share[b] / sizes[b] if told[i] else 1.0)
                count += 1
        new[i + 1] = count
        for place in range(n_touched):
            share[touched[place]] = 0.0
    return new, out_bucket[: new[n]].copy(), out_factor[: new[n]].copy()


@compiled
def add_box_values(
    start: IntArray, boxes: IntArray, pairs: CountedPairs, entry: IntArray, value: IntArray, weight: FloatArray,
    sums: FloatArray, entries: IntArray,
) -> None:  # fmt: skip
    """Add to (n_queries, n_values) the sensitive entries of the query's boxes; *entries* counts them."""
    first, _, records = pairs
    for i in range(len(sums)):
        for place in range(start[i], start[i + 1]):
            for pair in range(first[boxes[place]], first[boxes[place] + 1]):
                entries[i] += records[pair]
                for e in range(entry[pair], entry[pair + 1]):
                    sums[i, value[e]] += weight[e]


@compiled
def add_bucket_values(
    start: IntArray, boxes: IntArray, pairs: CountedPairs, by_bucket: BucketPairs, entry: IntArray, value: IntArray,
    weight: FloatArray, factors: Factors, sums: FloatArray, entries: IntArray,
) -> None:  # fmt: skip
    """Add to (n_queries, n_values) what buckets leave: the sensitive entries of the query's boxes times the factor."""
    first, _, records = pairs
    bucket_first, pair_at, box_at = by_bucket
    before, where, factor = factors
    asked = np.full(len(first), -1, dtype=np.int64)
    for i in range(len(sums)):
        for place in range(start[i], start[i + 1]):
            asked[boxes[place]] = i
        for place in range(before[i], before[i + 1]):
            for position in range(bucket_first[where[place]], bucket_first[where[place] + 1]):
                if asked[box_at[position]] != i:
                    continue
                pair = pair_at[position]
                entries[i] += records[pair]
                for e in range(entry[pair], entry[pair + 1]):
                    sums[i, value[e]] += factor[place] * weight[e]


@compiled
def times_lifts(
    start: IntArray, boxes: IntArray, pairs: CountedPairs, first_link: IntArray, value: IntArray, lift: FloatArray,
    factors: Factors, n_buckets: int, lifts: FloatArray,
) -> None:  # fmt: skip
    """Multiply (n_factors, n_values) lifts by those of the query's boxes in the factor's bucket, record by record."""
    first, bucket, records = pairs
    before, where, _ = factors
    place_of = np.full(n_buckets, -1, dtype=np.int64)
    for i in range(len(start) - 1):
        for place in range(before[i], before[i + 1]):
            place_of[where[place]] = place - before[i]
        total = np.zeros((before[i + 1] - before[i], lifts.shape[1]))
        seen = np.zeros(before[i + 1] - before[i])
        for position in range(start[i], start[i + 1]):
            for pair in range(first[boxes[position]], first[boxes[position] + 1]):
                own = place_of[bucket[pair]]
                if own < 0:
                    continue
                seen[own] += records[pair]
                for link in range(first_link[pair], first_link[pair + 1]):
                    total[own, value[link]] += records[pair] * lift[link]
        for own in range(len(seen)):
            if seen[own] > 0:
                lifts[before[i] + own] *= total[own] / seen[own]
            place_of[where[before[i] + own]] = -1


@compiled
def add_lifted_values(
    start: IntArray, boxes: IntArray, n_boxes: int, by_bucket: BucketPairs, entry: IntArray, value: IntArray,
    weight: FloatArray, factors: Factors, lifts: FloatArray, sums: FloatArray,
) -> None:  # fmt: skip
    """Add to (n_queries, n_values) the sensitive entries of the query's boxes times the bucket's factor and lifts."""
    bucket_first, pair_at, box_at = by_bucket
    before, where, factor = factors
    asked = np.full(n_boxes, -1, dtype=np.int64)
    for i in range(len(sums)):
        for place in range(start[i], start[i + 1]):
            asked[boxes[place]] = i
        for place in range(before[i], before[i + 1]):
            for position in range(bucket_first[where[place]], bucket_first[where[place] + 1]):
                if asked[box_at[position]] != i:
                    continue
                for e in range(entry[pair_at[position]], entry[pair_at[position] + 1]):
                    sums[i, value[e]] += factor[place] * lifts[place, value[e]] * weight[e]


@compiled
def fulfilling(
    codes: CodeArray, start: IntArray, column: IntArray, low: IntArray, high: IntArray, row: IntArray, bits: KeyArray,
    most: int,
) -> IntArray:  # fmt: skip
    """Return (n_predicates,) how many people have a record that fulfils each predicate, counted up to *most*.

    ``codes`` is (n_columns + 1, n_records), in the last row whose record it is: those of a person are side by side. A
    predicate is a list of conditions: that the code in a column lies in a range.
    """
    n_predicates, n, person = len(start) - 1, codes.shape[1], codes[-1]
    found = np.zeros(n_predicates, dtype=np.int64)
    for p in range(n_predicates):
        begin, end = start[p], start[p + 1]
        last = np.int32(-1)
        for record in range(n):
            fulfilled = person[record] != last
            for c in range(begin, end):
                if not fulfilled or not _within(low[c], high[c], row[c], bits, codes[column[c], record]):
                    fulfilled = False
                    break
            if fulfilled:
                found[p] += 1
                last = person[record]
                if found[p] == most:
                    break
    return found

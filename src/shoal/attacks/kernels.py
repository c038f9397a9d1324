"""Compiled loops of the attacks: which boxes or buckets cover a person, and how many people satisfy a predicate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import inline_kernel, kernel, place_of
from shoal.linking.kernels import Boxes, BoxIndex, find_meeting

_TIE = 1e-9
_OUTSIDE = 1e-6  # minimum distance of a number outside a range, because the end of a range is not in it


@inline_kernel
def _within(low: int, high: int, row: int, bits: KeyArray, code: int) -> bool:
    """Whether a code lies in a range and, if the range has gaps, in none of these."""
    if code < low or code >= high:
        return False
    return row < 0 or (bits[row, code >> 6] >> np.uint64(code & 63)) & np.uint64(1) == np.uint64(1)


class Entries(NamedTuple):
    """The sensitive values of each pair of a box and a bucket, with a weight each."""

    start: IntArray  # (n_pairs + 1,)
    value: IntArray
    weight: FloatArray


class Conditions(NamedTuple):
    """The conditions of each predicate: the code in a column lies in a range, and in none of its gaps."""

    start: IntArray  # (n_predicates + 1,)
    column: IntArray
    low: IntArray
    high: IntArray
    gaps: IntArray  # rows of bits, or -1


class Gower(NamedTuple):
    """The parameters of Gower's distance between a person and boxes."""

    spans: FloatArray  # (n_spans, 2) from and below, as numbers; NaN for categories
    places: CodeArray  # (n_boxes, n_known) the span of each label
    scales: FloatArray  # (n_known,) the range of each number
    widths: CodeArray  # (n_known,) number of codes of each attribute


@kernel
def measure_distances(
    queries: CodeArray,
    numbers: FloatArray,
    i: int,
    boxes: Boxes,
    bits: KeyArray,
    gower: Gower,
    step: int,
    found: FloatArray,
) -> float:
    """Fill in the distance of every *step*-th box from a query, Gower's, summed; return the minimum.

    An attribute adds 0 if the box covers the value; otherwise 1 or, for numbers, the gap divided by the attribute's
    scale.
    """
    hulls, uneven, spans = boxes.hulls, boxes.uneven, gower.spans
    least = np.inf
    for box in range(0, hulls.shape[0], step):
        far = 0.0
        for a in range(numbers.shape[1]):
            low, high = queries[i, 2 * a], queries[i, 2 * a + 1]
            if high - low == gower.widths[a] or _within(
                hulls[box, 2 * a], hulls[box, 2 * a + 1], uneven[box, a], bits, low
            ):
                continue
            own = gower.places[box, a]
            gap = max(spans[own, 0] - numbers[i, a], numbers[i, a] - spans[own, 1]) / gower.scales[a]
            far += min(1.0, max(_OUTSIDE, gap)) if gap == gap else 1.0
            if far > least + _TIE:
                break
        found[box] = far
        least = min(least, far)
    return least


@kernel
def find_covering(
    queries: CodeArray, numbers: FloatArray, there: Boxes, index: BoxIndex, gower: Gower, step: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the boxes that cover each query or, if none does, the nearest of every *step*-th box.

    With a step of 0, near boxes are not searched. The result is start (n_queries + 1,), the boxes, and the distance of
    the nearest box: 0 if a box covers the query, infinity if none does and near boxes are not searched.
    """
    n = queries.shape[0]
    start = np.zeros(n + 1, dtype=np.int64)
    boxes = np.empty(max(1024, 4 * n), dtype=np.int64)
    far = np.zeros(n)
    even = np.full((1, queries.shape[1] // 2), -1, dtype=np.int32)
    one = np.empty((1, queries.shape[1]), dtype=np.int32)
    n_boxes = there.hulls.shape[0]
    found = np.empty(n_boxes, dtype=np.int64)
    apart = np.empty(n_boxes)
    for i in range(n):
        one[0] = queries[i]
        count = find_meeting(one, even, 0, there.hulls, there.uneven, index, found)
        if count == 0:
            far[i] = np.inf
            if step > 0:
                far[i] = measure_distances(queries, numbers, i, there, index.bits, gower, step, apart)
                for box in range(0, n_boxes, step):
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


@kernel
def count_fulfilling(
    codes: CodeArray, order: CodeArray, leads: IntArray, asked: Conditions, bits: KeyArray, most: int
) -> IntArray:
    """Return (n_predicates,) how many people have a record that satisfies each predicate, counted up to *most*.

    ``codes`` is (n_columns + 1, n_records); the last row is the person of each record. The records that may satisfy
    predicate p are ``order[leads[p, 0]:leads[p, 1]]``.
    """
    n_predicates, person = len(asked.start) - 1, codes[-1]
    found = np.zeros(n_predicates, dtype=np.int64)
    seen = np.empty(most, dtype=np.int32)  # people who satisfy it
    for p in range(n_predicates):
        for place in range(leads[p, 0], leads[p, 1]):
            record = order[place]
            fulfilled = True
            for c in range(asked.start[p], asked.start[p + 1]):
                if not _within(asked.low[c], asked.high[c], asked.gaps[c], bits, codes[asked.column[c], record]):
                    fulfilled = False
                    break
            for other in range(found[p]):
                fulfilled = fulfilled and seen[other] != person[record]
            if fulfilled:
                seen[found[p]] = person[record]
                found[p] += 1
                if found[p] == most:
                    break
    return found


@kernel
def score_tuples(
    values: CodeArray, value_first: IntArray, first: IntArray, bucket: CodeArray, count: IntArray, sizes: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return for each tuple its number of matching buckets, its matching degree and its expected copies.

    ``values`` is (n_parts, n_tuples), -1 for a value that no bucket shows; values of all parts are numbered
    consecutively from ``value_first``.
    """
    n_parts, n_tuples = values.shape
    matching = np.zeros(n_tuples, dtype=np.int64)
    degree = np.zeros(n_tuples)
    copies = np.zeros(n_tuples)
    own = np.empty(n_parts, dtype=np.int64)
    for t in range(n_tuples):
        own[:] = value_first + values[:, t]
        rarest = 0  # the part whose value is in the smallest number of buckets
        for d in range(n_parts):
            if first[own[d] + 1] - first[own[d]] < first[own[rarest] + 1] - first[own[rarest]]:
                rarest = d
        if values[:, t].min() < 0:
            continue
        for entry in range(first[own[rarest]], first[own[rarest] + 1]):
            b = bucket[entry]
            share = count[entry] / sizes[b]
            for d in range(n_parts):
                if d != rarest:
                    other = place_of(bucket, first[own[d]], first[own[d] + 1], b)
                    if other < 0:
                        share = 0.0
                        break
                    share *= count[other] / sizes[b]
            if share > 0:
                matching[t] += 1
                degree[t] += share
                copies[t] += share * sizes[b]
    return matching, degree, copies

"""The Hilbert curve through the quasi values, in the order of their taxonomies' leaves, and loops that group along it.

The curve visits every point of a cube with side 2^bits once, and consecutive points are neighbours. So records near
each other on the curve have similar values of all attributes. The curve leaves each of the 2^d smaller cubes only after
visiting all of its points; if taxonomy nodes coincide with such cubes, neighbours share nodes. The loops take records
in curve order: ``codes`` (n, d) are their leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel
from shoal.methods.labels import Trees, covering_node, range_width
from shoal.plan.cells import WORD
from shoal.plan.problem import Attribute
from shoal.taxonomies.tree import Taxonomy

MOST_BITS = 20
_DEEPEST = 40  # bits of a position before rounding

Points = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The position of each attribute's leaves along its side of the cube.

    A domain covers a share of the side in proportion to its attribute's weight; the largest weight covers the whole
    side. There are enough bits to separate all leaves, up to 20 per attribute.
    """

    bits: int
    places: tuple[Points, ...]  # n_attributes x (n_leaves,)

    @classmethod
    def of_levels(cls, quasi: Sequence[Attribute]) -> Grid:
        """Give every taxonomy node its own binary interval of the side, divided among its children."""
        heaviest = max(attribute.weight for attribute in quasi)
        aligned = [_align_leaves(attribute.taxonomy) for attribute in quasi]
        needed = [  # a share of the side is half of it, a quarter, ...
            bits + round(np.log2(heaviest / attribute.weight))
            for attribute, (_, bits) in zip(quasi, aligned, strict=True)
        ]
        bits = min(max(1, *needed), MOST_BITS)
        own = zip(aligned, needed, strict=True)
        places = tuple((np.left_shift(p, max(bits - n, 0)) >> max(n - bits, 0)).astype(np.uint32) for (p, _), n in own)
        return cls(bits, places)

    @classmethod
    def of(cls, quasi: Sequence[Attribute]) -> Grid:
        """Place the leaves side by side."""
        leaves = [attribute.taxonomy.n_leaves for attribute in quasi]
        heaviest = max(attribute.weight for attribute in quasi)
        shares = [attribute.weight / heaviest for attribute in quasi]
        finest = max(n / share for n, share in zip(leaves, shares, strict=True))
        bits = min(max(int(np.ceil(np.log2(finest))), 1), MOST_BITS)
        places = tuple(
            (np.arange(n) * (share * (1 << bits) / n)).astype(np.uint32)
            for n, share in zip(leaves, shares, strict=True)
        )
        return cls(bits, places)

    def keys(self, codes: Sequence[AnyIntArray]) -> KeyArray:
        """Return (n_words, n) the position of each combination of leaves on the curve."""
        points = np.stack([place[column] for place, column in zip(self.places, codes, strict=True)], axis=1)
        return curve_keys(points, self.bits)


def _align_leaves(taxonomy: Taxonomy) -> tuple[IntArray, int]:
    """Return (n_leaves,) the position of each leaf if children divide a node's interval evenly, and the bits.

    >>> from shoal.taxonomies.files import from_nested
    >>> places, bits = _align_leaves(from_nested({"any": {"low": ["a", "b", "c"], "high": ["d", "e"]}}))
    >>> places.tolist(), bits
    ([0, 1, 2, 4, 6], 3)
    """
    place, used = np.zeros((2, taxonomy.n_nodes), dtype=np.int64)
    order = np.lexsort((taxonomy.lo, taxonomy.parent))[1:]  # all but the root, siblings side by side
    parent = taxonomy.parent[order]
    rank = np.arange(len(order)) - np.searchsorted(parent, parent)
    wanted = np.ceil(np.log2(np.bincount(parent, minlength=taxonomy.n_nodes)[parent])).astype(np.int64)
    for level in range(1, taxonomy.height + 1):
        at = np.flatnonzero(taxonomy.level[order] == level)
        above, bits = parent[at], wanted[at]
        bits = np.where(used[above] + bits <= _DEEPEST, bits, 0)  # beyond it siblings share a position
        used[order[at]] = used[above] + bits
        place[order[at]] = (place[above] << bits) + np.where(bits > 0, rank[at], 0)
    leaves = slice(taxonomy.n_leaves)
    deepest = int(used[leaves].max())
    return place[leaves] << (deepest - used[leaves]), deepest


def curve_keys(points: Points, bits: int) -> KeyArray:
    """Return (n_words, n) the position of each point on the curve, the most significant word first.

    Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 2004. *points* is (n, d), every
    coordinate below 2^bits. All words but the last have 64 bits.

    >>> square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint32)
    >>> curve_keys(square, bits=1)[0].tolist()
    [0, 1, 2, 3]
    """
    n, d = points.shape
    keys = np.zeros(((d * bits + WORD - 1) // WORD, n), dtype=np.uint64)
    _fill_keys(np.ascontiguousarray(points), bits, keys)
    return keys


@kernel
def _fill_keys(points: NDArray[Any], bits: int, keys: KeyArray) -> None:
    """Convert coordinates to Skilling's transposed key and interleave its bits."""
    n, d = points.shape
    x = np.empty(d, dtype=np.int64)
    for row in range(n):
        for i in range(d):
            x[i] = points[row, i]
        bit = 1 << (bits - 1)
        while bit > 1:  # undo the rotations and reflections, from the largest cube to the smallest
            below = bit - 1
            for i in range(d):
                if x[i] & bit:
                    x[0] ^= below
                else:
                    swapped = (x[0] ^ x[i]) & below
                    x[0] ^= swapped
                    x[i] ^= swapped
            bit >>= 1
        for i in range(1, d):  # Gray code
            x[i] ^= x[i - 1]
        flips = 0
        bit = 1 << (bits - 1)
        while bit > 1:
            if x[d - 1] & bit:
                flips ^= bit - 1
            bit >>= 1
        place = 0
        for b in range(bits - 1, -1, -1):
            for i in range(d):
                word = place >> 6
                keys[word, row] = (keys[word, row] << np.uint64(1)) | np.uint64(((x[i] ^ flips) >> b) & 1)
                place += 1


@kernel
def extents(group: CodeArray, codes: NDArray[Any], low: CodeArray, high: CodeArray) -> None:
    """Extend ``low`` and ``high`` (n_groups, d), both inclusive, to the codes of each group's records."""
    for record in range(len(group)):
        g = group[record]
        if g >= 0:
            for j in range(codes.shape[1]):
                low[g, j] = min(low[g, j], codes[record, j])
                high[g, j] = max(high[g, j], codes[record, j])


@light_kernel
def label_width(trees: Trees, j: int, low: int, high: int) -> float:
    """Return the width of the label that covers leaves of attribute j from *low* to *high*."""
    base = trees.first_leaf[j]
    if trees.low_end[base + low] < 0:
        return float(trees.width[trees.first_node[j] + covering_node(trees, j, low, high)])
    if low == high:
        return 0.0
    return range_width(trees, j, trees.low_end[base + low], trees.high_end[base + high] + 1)


@kernel
def group_widths(trees: Trees, low: CodeArray, high: CodeArray) -> FloatArray:
    """Return (n_groups,) the total width of each group's label over all attributes."""
    n, d = low.shape
    out = np.zeros(n)
    for g in range(n):
        for j in range(d):
            out[g] += label_width(trees, j, low[g, j], high[g, j])
    return out


@inline_kernel
def _widen(trees: Trees, j: int, low: int, high: int, node: IntArray, widths: FloatArray) -> None:
    """Climb from ``node[j]`` to the first node with leaves *low* to *high*, and store the label's width."""
    if trees.low_end[trees.first_leaf[j]] >= 0:
        widths[j] = label_width(trees, j, low, high)
        return
    at, base = node[j], trees.first_node[j]
    while trees.lo[base + at] > low or trees.hi[base + at] <= high:
        at = trees.parent[base + at]
    node[j], widths[j] = at, trees.width[base + at]


@kernel
def optimal_cuts(trees: Trees, low: CodeArray, high: CodeArray, records: IntArray, smallest: int) -> CodeArray:
    """Return (n_units,) the group of each unit, such that the total width over all records is minimal.

    Units are runs of records with the extents ``low`` and ``high``. A group is a run of units with at least *smallest*
    records. Runs of twice that size or more are not tried, because their two halves are never wider.
    """
    n, d = low.shape
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    back = np.zeros(n + 1, dtype=np.int64)  # the begin of the last run
    lowest, highest, node = np.empty((3, d), dtype=np.int64)
    widths, stale = np.empty(d), np.empty(d, dtype=np.bool_)
    for stop in range(1, n + 1):
        for j in range(d):
            lowest[j] = highest[j] = node[j] = low[stop - 1, j]
        stale[:] = True
        size = 0
        wide = 0.0
        for start in range(stop - 1, -1, -1):
            moved = size < smallest
            for j in range(d):
                if low[start, j] < lowest[j] or high[start, j] > highest[j]:
                    lowest[j] = min(lowest[j], low[start, j])
                    highest[j] = max(highest[j], high[start, j])
                    stale[j] = moved = True
            size += records[start]
            if size < smallest:
                continue
            if moved:
                wide = 0.0
                for j in range(d):
                    if stale[j]:
                        _widen(trees, j, lowest[j], highest[j], node, widths)
                        stale[j] = False
                    wide += widths[j]
            cost = best[start] + size * wide
            if cost < best[stop]:
                best[stop] = cost
                back[stop] = start
            if size - records[stop - 1] >= 2 * smallest - 1:
                break
    begins = np.zeros(n, dtype=np.bool_)
    stop = n
    while stop > 0:
        stop = int(back[stop])
        begins[stop] = True
    group = np.empty(n, dtype=np.int32)
    number = -1
    for unit in range(n):
        number += begins[unit]
        group[unit] = number
    return group


@kernel
def diverse_groups(first: IntArray, queue: IntArray, size: int, cap: int) -> CodeArray:
    """Return (n,) the group of each record: *size* records each, at most *cap* of them with the same value.

    ``queue[first[v]:first[v + 1]]`` are the records of value v in curve order. The loop keeps one invariant: no value
    has more than cap / size of the remaining records. To form a group,

    1. values that would break the invariant afterwards give their surplus to the group;
    2. the group takes the next records on the curve whose values it may still take.

    If values have more surplus than fits into a group, or too few records remain, all of these are the last group.
    """
    n_values = len(first) - 1
    remaining = len(queue)
    head = first[:-1].copy()  # (n_values,) the next record of each value
    group = np.empty(remaining, dtype=np.int32)
    taken = np.zeros(n_values, dtype=np.int64)  # records of each value in the current group
    members = np.empty(size, dtype=np.int64)  # values of the records in the current group
    aside = np.empty(n_values, dtype=np.int64)  # values at their cap in the current group
    # entries record * n_values + value order values by their next record; an entry may lag behind the value's head
    heap = [queue[first[v]] * n_values + v for v in range(n_values) if first[v + 1] > first[v]]
    heapq.heapify(heap)
    most = remaining  # upper bound on the remaining records of any value
    number = 0
    while remaining >= 2 * size:
        # 1. surplus of frequent values
        allowed = (remaining - size) * cap // size
        filled = 0
        if most > allowed:
            left = first[1:] - head
            most = left.max()
            if np.maximum(left - allowed, 0).sum() > size:
                break
            for v in np.flatnonzero(left > allowed):
                for place in range(head[v], first[v + 1] - allowed):
                    group[queue[place]] = number
                    members[filled] = v
                    filled += 1
                taken[v] += left[v] - allowed
                head[v] = first[v + 1] - allowed
        # 2. the next records on the curve
        n_aside = 0
        while filled < size:
            v = heap[0] % n_values
            if head[v] == first[v + 1] or taken[v] == cap:
                if head[v] < first[v + 1]:
                    aside[n_aside] = v
                    n_aside += 1
                heapq.heappop(heap)
                continue
            record = queue[head[v]]
            if heap[0] // n_values == record:
                group[record] = number
                members[filled] = v
                filled += 1
                taken[v] += 1
                head[v] += 1
                if head[v] == first[v + 1]:
                    continue
                record = queue[head[v]]
            heapq.heapreplace(heap, record * n_values + v)
        for v in aside[:n_aside]:
            heapq.heappush(heap, queue[head[v]] * n_values + v)
        taken[members] = 0
        remaining -= size
        number += 1
    for value in range(n_values):
        group[queue[head[value] : first[value + 1]]] = number
    return group


@kernel
def pair_groups(trees: Trees, failing: BoolArray, low: CodeArray, high: CodeArray, sizes: IntArray) -> CodeArray:
    """Return (n,) new numbers of groups in curve order: each failing group joins a free neighbour, if it has one.

    Of two neighbours it joins the one with the smaller increase of the total width.
    """
    n, d = low.shape
    alone = group_widths(trees, low, high)
    partner = np.full(n, -1, dtype=np.int64)
    for g in range(n):
        if not failing[g] or partner[g] >= 0:
            continue
        least = np.inf
        for other in (g - 1, g + 1):
            if other < 0 or other >= n or partner[other] >= 0:
                continue
            wide = 0.0
            for j in range(d):
                lowest = min(low[g, j], low[other, j])
                highest = max(high[g, j], high[other, j])
                wide += label_width(trees, j, lowest, highest)
            growth = sizes[g] * (wide - alone[g]) + sizes[other] * (wide - alone[other])
            if growth < least:
                least = growth
                partner[g] = other
        if partner[g] >= 0:
            partner[partner[g]] = g
    number = np.empty(n, dtype=np.int32)
    count = 0
    for g in range(n):
        if 0 <= partner[g] < g:
            number[g] = number[partner[g]]
        else:
            number[g] = count
            count += 1
    return number


@kernel
def _largest_child(trees: Trees, j: int, node: int, records: IntArray, codes: CodeArray, scratch: IntArray) -> int:
    """Return the child of *node* that covers most of the records; *scratch* (n_nodes,) must be and stays zero."""
    base, best = trees.first_node[j], -1
    for record in records:
        child = codes[record, j]
        while child != node and trees.parent[base + child] != node:
            child = trees.parent[base + child]
        scratch[child] += 1
        if best < 0 or scratch[child] > scratch[best] or (scratch[child] == scratch[best] and child < best):
            best = child
    for record in records:
        child = codes[record, j]
        while child != node and trees.parent[base + child] != node:
            child = trees.parent[base + child]
        scratch[child] = 0
    return best


@kernel
def _measure_rest(
    trees: Trees, j: int, least: int, most: int, records: IntArray, codes: CodeArray
) -> tuple[int, float]:
    """Return the records with a code of attribute j from *least* to *most*, and the width of their label."""
    d = codes.shape[1]
    low = np.full(d, np.iinfo(np.int32).max, dtype=np.int64)
    high = np.full(d, -1, dtype=np.int64)
    kept = 0
    for record in records:
        if least <= codes[record, j] <= most:
            kept += 1
            for i in range(d):
                low[i] = min(low[i], codes[record, i])
                high[i] = max(high[i], codes[record, i])
    wide = 0.0
    if kept:
        for i in range(d):
            wide += label_width(trees, i, low[i], high[i])
    return kept, wide


@kernel
def choose_withheld(
    trees: Trees, first: IntArray, order: IntArray, codes: CodeArray, low: CodeArray, high: CodeArray, smallest: int
) -> tuple[CodeArray, IntArray, FloatArray]:
    """Return for each group the part whose withholding narrows the rest most: codes to keep, size, and gain.

    The codes are (n_groups, 3): attribute, minimum and maximum code to keep. A part is everything outside the largest
    child of the label's node or, for ranges, beyond one of the last two edges. The gain is in width per withheld
    record, minus the width that a withheld record loses; 0 if no part is worth it.
    """
    n, d = low.shape
    keep = np.zeros((n, 3), dtype=np.int32)
    shed = np.zeros(n, dtype=np.int64)
    gain = np.zeros(n)
    lost = trees.full.sum()
    scratch = np.zeros(len(trees.parent), dtype=np.int64)
    alone = group_widths(trees, low, high)
    for g in range(n):
        records = order[first[g] : first[g + 1]]
        size = len(records)
        for j in range(d):
            if size <= smallest or low[g, j] == high[g, j]:
                continue
            leaves, as_range = trees.first_leaf[j], trees.low_end[trees.first_leaf[j]] >= 0
            for upper in range(2 if as_range else 1):
                least, most = low[g, j], high[g, j]
                if not as_range:
                    child = _largest_child(trees, j, covering_node(trees, j, least, most), records, codes, scratch)
                    node = trees.first_node[j] + child
                    least, most = trees.lo[node], trees.hi[node] - 1
                elif upper:
                    most = trees.low_end[leaves + most] - 1
                else:
                    least = trees.high_end[leaves + least] + 1
                kept, wide = _measure_rest(trees, j, least, most, records, codes)
                if kept < smallest or kept == size:
                    continue
                net = (size * alone[g] - kept * wide) / (size - kept) - lost
                if net > gain[g] + 1e-9:
                    keep[g, 0], keep[g, 1], keep[g, 2] = j, least, most
                    shed[g] = size - kept
                    gain[g] = net
    return keep, shed, gain

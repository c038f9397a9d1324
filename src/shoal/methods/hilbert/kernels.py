"""Compiled loops that group records along a curve.

Records stand in curve order: ``codes`` (n, d) are their leaves. What a group would publish, and how wide that is, the
arrays of ``Widths`` tell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import compiled


class Widths(NamedTuple):
    """How wide labels are: of taxonomy nodes or, where ``ranges``, of runs of leaves between permitted edges."""

    ranges: BoolArray  # (d,)
    parent: CodeArray  # (d, n_nodes)
    start: CodeArray  # (d, n_nodes) first leaf
    end: CodeArray  # (d, n_nodes) leaf after the last
    node: FloatArray  # (d, n_nodes) width
    first: CodeArray  # (d, n_leaves) where a range that has this leaf lowest begins
    last: CodeArray  # (d, n_leaves) where a range that has this leaf highest ends, inclusive
    place: FloatArray  # (d, n_leaves) along the line from 0 to the attribute's weight; missing at twice that
    full: FloatArray  # (d,) the width of a whole domain


@compiled
def extents(group: CodeArray, codes: NDArray[Any], low: CodeArray, high: CodeArray) -> None:
    """Widen ``low`` and ``high`` (n_groups, d), both inclusive, to the codes of each group's records."""
    for record in range(len(group)):
        g = group[record]
        if g >= 0:
            for j in range(codes.shape[1]):
                low[g, j] = min(low[g, j], codes[record, j])
                high[g, j] = max(high[g, j], codes[record, j])


@compiled
def covering(j: int, node: int, low: int, high: int, widths: Widths) -> int:
    """Return the lowest node from *node* upwards that covers the leaves from *low* to *high*."""
    while widths.start[j, node] > low or widths.end[j, node] <= high:
        node = widths.parent[j, node]
    return node


@compiled
def label_width(j: int, low: int, high: int, node: int, widths: Widths) -> float:
    """Return the width of the label for leaves from *low* to *high*, of which *node* is the lowest node."""
    if not widths.ranges[j]:
        return float(widths.node[j, node])
    if low == high:
        return 0.0
    apart = widths.place[j, widths.last[j, high]] - widths.place[j, widths.first[j, low]]
    return float(min(apart, widths.full[j]))


@compiled
def group_widths(low: CodeArray, high: CodeArray, widths: Widths) -> FloatArray:
    """Return (n_groups,) the width of each group's label, over all attributes."""
    n, d = low.shape
    out = np.zeros(n)
    for g in range(n):
        for j in range(d):
            node = covering(j, low[g, j], low[g, j], high[g, j], widths)
            out[g] += label_width(j, low[g, j], high[g, j], node, widths)
    return out


@compiled
def optimal_cuts(low: CodeArray, high: CodeArray, records: IntArray, smallest: int, widths: Widths) -> CodeArray:
    """Return (n_units,) the group of each unit so that the total width over all records is least.

    Units (consecutive records with the extents ``low`` and ``high``) are cut into runs of at least *smallest* records.
    A run of twice that or more need not be tried: its two halves are never wider.
    """
    n, d = low.shape
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    back = np.zeros(n + 1, dtype=np.int64)  # where the last run begins
    node = np.empty(d, dtype=np.int64)
    lowest = np.empty(d, dtype=np.int64)
    highest = np.empty(d, dtype=np.int64)
    for stop in range(1, n + 1):
        for j in range(d):
            node[j] = low[stop - 1, j]
            lowest[j] = highest[j] = low[stop - 1, j]
        size = 0
        wide = 0.0
        stale = True
        for start in range(stop - 1, -1, -1):
            for j in range(d):
                if low[start, j] < lowest[j] or high[start, j] > highest[j]:
                    lowest[j] = min(lowest[j], low[start, j])
                    highest[j] = max(highest[j], high[start, j])
                    node[j] = covering(j, node[j], lowest[j], highest[j], widths)
                    stale = True
            size += records[start]
            if size < smallest:
                continue
            if stale:
                wide = 0.0
                for j in range(d):
                    wide += label_width(j, lowest[j], highest[j], node[j], widths)
                stale = False
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


@compiled
def _sink(heap: IntArray, length: int, key: int) -> None:
    """Put *key* in the place of the least entry."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = key


@compiled
def _rise(heap: IntArray, length: int, key: int) -> None:
    """Add *key* to a heap of *length* entries."""
    place = length
    while place > 0 and heap[(place - 1) // 2] > key:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = key


@compiled
def diverse_groups(first: IntArray, queue: IntArray, size: int, cap: int) -> CodeArray:
    """Return (n,) the group of each record: *size* records each, of no value more than *cap*.

    ``queue[first[v]:first[v + 1]]`` are the records of value v in curve order. Each group takes the first records
    that it may. What remains always stays eligible, which is to have no value on more than cap / size of the
    records: a value that would exceed it gives its records first. The rest that allows no such group is one group
    itself, eligible as it is.
    """
    n_values = len(first) - 1
    remaining = len(queue)
    head = first[:-1].copy()
    group = np.empty(remaining, dtype=np.int32)
    taken = np.zeros(n_values, dtype=np.int64)
    members = np.empty(size, dtype=np.int64)  # the values of the group's records
    aside = np.empty(n_values, dtype=np.int64)
    heap = np.empty(n_values, dtype=np.int64)  # record * n_values + value; may be behind the value's head
    length = 0
    most = 0  # no value has more records left
    for v in range(n_values):
        most = max(most, first[v + 1] - first[v])
        if first[v + 1] > first[v]:
            _rise(heap, length, queue[first[v]] * n_values + v)
            length += 1
    number = 0
    while remaining >= 2 * size:
        allowed = (remaining - size) * cap // size
        filled = 0
        if most > allowed:
            most = 0
            needed = 0
            for v in range(n_values):
                left = first[v + 1] - head[v]
                most = max(most, left)
                needed += max(left - allowed, 0)
            if needed > size:
                break
            if needed:
                for v in range(n_values):
                    while first[v + 1] - head[v] > allowed:
                        group[queue[head[v]]] = number
                        head[v] += 1
                        taken[v] += 1
                        members[filled] = v
                        filled += 1
        n_aside = 0
        while filled < size:
            v = heap[0] % n_values
            if head[v] == first[v + 1] or taken[v] == cap:
                if head[v] < first[v + 1]:
                    aside[n_aside] = v
                    n_aside += 1
                length -= 1
                _sink(heap, length, heap[length])
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
            _sink(heap, length, record * n_values + v)
        for i in range(n_aside):
            v = aside[i]
            _rise(heap, length, queue[head[v]] * n_values + v)
            length += 1
        for member in members:
            taken[member] = 0
        remaining -= size
        number += 1
    for v in range(n_values):
        for place in range(head[v], first[v + 1]):
            group[queue[place]] = number
    return group


@compiled
def pair_groups(failing: BoolArray, low: CodeArray, high: CodeArray, sizes: IntArray, widths: Widths) -> CodeArray:
    """Return (n,) new numbers of groups in curve order: each failing one joins a neighbour, if one is still free.

    Of two neighbours it joins the one with which the total width grows less.
    """
    n, d = low.shape
    alone = group_widths(low, high, widths)
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
                wide += label_width(j, lowest, highest, covering(j, lowest, lowest, highest, widths), widths)
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


@compiled
def _largest_child(j: int, records: IntArray, codes: CodeArray, node: int, widths: Widths, scratch: IntArray) -> int:
    """Return the child of *node* that covers the most of the records; *scratch* (n_nodes,) is left all zero."""
    best = -1
    for record in records:
        child = codes[record, j]
        while child != node and widths.parent[j, child] != node:
            child = widths.parent[j, child]
        scratch[child] += 1
        if best < 0 or scratch[child] > scratch[best] or (scratch[child] == scratch[best] and child < best):
            best = child
    for record in records:
        child = codes[record, j]
        while child != node and widths.parent[j, child] != node:
            child = widths.parent[j, child]
        scratch[child] = 0
    return best


@compiled
def _measure_rest(
    records: IntArray, codes: CodeArray, j: int, least: int, most: int, widths: Widths
) -> tuple[int, float]:
    """Return how many records have a code of attribute j from *least* to *most*, and the width of their label."""
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
            wide += label_width(i, low[i], high[i], covering(i, low[i], low[i], high[i], widths), widths)
    return kept, wide


@compiled
def choose_withheld(
    first: IntArray, order: IntArray, codes: CodeArray, low: CodeArray, high: CodeArray, smallest: int, widths: Widths,
) -> tuple[CodeArray, IntArray, FloatArray]:  # fmt: skip
    """Return the part of each group whose withholding narrows the rest the most: what to keep, its size, the gain.

    Rows of the first are attribute, least and greatest code to keep. A part lies outside the largest child of the
    label's node or, for ranges, between the last two edges. The gain is in width for each withheld record, net of its
    own loss; 0 where nothing is worth it.
    """
    n, d = low.shape
    keep = np.zeros((n, 3), dtype=np.int32)
    shed = np.zeros(n, dtype=np.int64)
    gain = np.zeros(n)
    lost = widths.full.sum()
    scratch = np.zeros(widths.parent.shape[1], dtype=np.int64)
    alone = group_widths(low, high, widths)
    for g in range(n):
        records = order[first[g] : first[g + 1]]
        size = len(records)
        for j in range(d):
            if size <= smallest or low[g, j] == high[g, j]:
                continue
            for upper in range(2 if widths.ranges[j] else 1):
                least, most = low[g, j], high[g, j]
                if not widths.ranges[j]:
                    node = covering(j, least, least, most, widths)
                    child = _largest_child(j, records, codes, node, widths, scratch)
                    least, most = widths.start[j, child], widths.end[j, child] - 1
                elif upper:
                    most = widths.first[j, most] - 1
                else:
                    least = widths.last[j, least] + 1
                kept, wide = _measure_rest(records, codes, j, least, most, widths)
                if kept < smallest or kept == size:
                    continue
                net = (size * alone[g] - kept * wide) / (size - kept) - lost
                if net > gain[g] + 1e-9:
                    keep[g, 0], keep[g, 1], keep[g, 2] = j, least, most
                    shed[g] = size - kept
                    gain[g] = net
    return keep, shed, gain

"""Compiled loops that find the part of a group whose withholding narrows the label of the rest."""

from __future__ import annotations

import numpy as np

from shoal.compiled import compiled
from shoal.methods.hilbert.kernels import Floats, Ints, Small, Widths, covering, group_widths, label_width


@compiled
def _largest_child(j: int, records: Ints, codes: Small, node: int, widths: Widths, scratch: Ints) -> int:
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
def _kept(records: Ints, codes: Small, j: int, least: int, most: int, widths: Widths) -> tuple[int, float]:
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
def shedding(
    first: Ints, order: Ints, codes: Small, low: Small, high: Small, smallest: int, widths: Widths,
) -> tuple[Small, Ints, Floats]:  # fmt: skip
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
                kept, wide = _kept(records, codes, j, least, most, widths)
                if kept < smallest or kept == size:
                    continue
                net = (size * alone[g] - kept * wide) / (size - kept) - lost
                if net > gain[g] + 1e-9:
                    keep[g, 0], keep[g, 1], keep[g, 2] = j, least, most
                    shed[g] = size - kept
                    gain[g] = net
    return keep, shed, gain

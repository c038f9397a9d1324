"""A tree over boxes, in which those that meet others are found quickly."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.kernels import compiled, inlined, places_ascending

Tree: TypeAlias = tuple[IntArray, CodeArray, IntArray]  # begin, end, children; hulls of nodes; boxes in their order
LEAF = 8  # boxes under one leaf of the tree
DEPTH = 128  # of nodes that wait to be looked into, at most
_SAMPLE = 64  # boxes of a node that decide how it is halved


@inlined
def _extents(hulls: CodeArray, chosen: IntArray, begin: int, end: int, within: CodeArray) -> float:
    """Return which part of *within* the hull of some boxes takes: how probably a point there looks into them."""
    part = 1.0
    for a in range(hulls.shape[1] // 2):
        low, high = np.int32(2**31 - 1), np.int32(0)
        for i in range(begin, end):
            low, high = min(low, hulls[chosen[i], 2 * a]), max(high, hulls[chosen[i], 2 * a + 1])
        part *= (high - low) / max(within[2 * a + 1] - within[2 * a], 1)
    return part


@inlined
def _key(hulls: CodeArray, box: int, way: int) -> int:
    """Return what boxes are sorted by: the middle of a side, or for every second *way* its length."""
    low, high = np.int64(hulls[box, way - way % 2]), np.int64(hulls[box, way - way % 2 + 1])
    return int(high - low if way % 2 else low + high)


@compiled
def grow(hulls: CodeArray) -> Tree:
    """Halve the boxes, again and again, along the middles or the lengths of the side that leaves the smallest halves.

    Which one that is, a sample of the boxes tells.
    """
    n, d = hulls.shape[0], hulls.shape[1] // 2
    order = np.arange(n)
    nodes = np.full((max(1, 2 * n), 3), -1, dtype=np.int64)  # begin, end, first of two children
    bounds = np.zeros((max(1, 2 * n), 2 * d), dtype=np.int32)
    sample, keys = np.empty(_SAMPLE, dtype=np.int64), np.empty(_SAMPLE, dtype=np.int64)
    nodes[0, 0], nodes[0, 1] = 0, n
    n_nodes, node = 1, 0
    while node < n_nodes:
        begin, end = nodes[node, 0], nodes[node, 1]
        for a in range(d):
            low, high = np.int32(2**31 - 1), np.int32(0)
            for i in range(begin, end):
                low, high = min(low, hulls[order[i], 2 * a]), max(high, hulls[order[i], 2 * a + 1])
            bounds[node, 2 * a], bounds[node, 2 * a + 1] = low, high
        if end - begin > LEAF:
            m = min(end - begin, _SAMPLE)
            best, least = -1, 2.0
            for way in range(2 * d):
                for i in range(m):
                    sample[i] = order[begin + i * (end - begin) // m]
                    keys[i] = _key(hulls, sample[i], way)
                ranks = places_ascending(keys[:m])
                if keys[ranks[0]] == keys[ranks[m - 1]]:
                    continue
                along = sample[ranks]
                cost = _extents(hulls, along, 0, m // 2, bounds[node]) + _extents(hulls, along, m // 2, m, bounds[node])
                if cost < least:
                    best, least = way, cost
            if best >= 0:
                whole = np.empty(end - begin, dtype=np.int64)
                for i in range(begin, end):
                    whole[i - begin] = _key(hulls, order[i], best)
                order[begin:end] = order[begin:end][places_ascending(whole)]
                half = (begin + end) // 2
                nodes[node, 2] = n_nodes
                nodes[n_nodes, 0], nodes[n_nodes, 1] = begin, half
                nodes[n_nodes + 1, 0], nodes[n_nodes + 1, 1] = half, end
                n_nodes += 2
        node += 1
    return nodes[:n_nodes].copy(), bounds[:n_nodes].copy(), order

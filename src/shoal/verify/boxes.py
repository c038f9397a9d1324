"""Which classes cover a point: a k-d tree over the boxes that classes span in the space of codes.

A box that straddles a cut goes to both sides, but only as long as the tree stays a small multiple of the
boxes; after that a leaf keeps many boxes, which costs time and never truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.verify.covers import Covers
from shoal.verify.cutting import ATTRIBUTE, CUT, FIRST, LEAF, grow_tree
from shoal.verify.kernels import inlined, kernel
from shoal.verify.spans import Ragged, Spans, in_hull, in_ranges

NOBODY, SEVERAL = -1, -2
_LEVELS = 11
_TOGETHER = 256  # points that walk down side by side, so that none waits for the memory alone
Boxes: TypeAlias = tuple[CodeArray, IntArray, BoolArray]  # edges and class of items; leaf starts; uneven classes


@kernel
def _sorted_by_node(tree: CodeArray, points: CodeArray) -> CodeArray:
    """Return (n, d + 2) points, their places and the nodes they reach after a few levels, node by node.

    Points in that order meet the same parts of the tree and the same boxes while these are still in the cache.
    """
    n, d = points.shape
    reached = np.zeros(n, dtype=np.int32)
    ends = np.zeros(tree.shape[0] + 1, dtype=np.int32)
    for begin in range(0, n, _TOGETHER):
        end = min(n, begin + _TOGETHER)
        for _ in range(_LEVELS):
            for i in range(begin, end):
                node = reached[i]
                reached[i] = tree[node, FIRST] + (points[i, tree[node, ATTRIBUTE]] >= tree[node, CUT])
        for i in range(begin, end):
            ends[reached[i] + 1] += 1
    for node in range(tree.shape[0]):
        ends[node + 1] += ends[node]
    out = np.empty((n, d + 2), dtype=np.int32)
    for i in range(n):
        node = reached[i]
        place = ends[node]
        ends[node] = place + 1
        for a in range(d):
            out[place, a] = points[i, a]
        out[place, d] = i
        out[place, d + 1] = node
    return out


@inlined
def _leaf(tree: CodeArray, node: int, points: CodeArray, i: int) -> int:
    while tree[node, LEAF] < 0:
        node = tree[node, FIRST] + (points[i, tree[node, ATTRIBUTE]] >= tree[node, CUT])
    leaf: int = tree[node, LEAF]
    return leaf


@kernel
def _find(tree: CodeArray, boxes: Boxes, ragged: Ragged, points: CodeArray, out: CodeArray) -> None:
    edges, starts, uneven = boxes
    n, d = points.shape
    ordered = _sorted_by_node(tree, points)
    reached = np.empty(_TOGETHER, dtype=np.int32)
    for begin in range(0, n, _TOGETHER):
        count = min(n - begin, _TOGETHER)
        for j in range(count):
            reached[j] = ordered[begin + j, d + 1]
        moved = True
        while moved:
            moved = False
            for j in range(count):
                node = reached[j]
                child = tree[node, FIRST] + (ordered[begin + j, tree[node, ATTRIBUTE]] >= tree[node, CUT])
                moved |= child != node
                reached[j] = child
        for j in range(count):
            i = begin + j
            leaf = tree[reached[j], LEAF]
            found = NOBODY
            for item in range(starts[leaf], starts[leaf + 1]):
                if in_hull(edges, ordered, i, item):
                    owner = edges[item, 2 * d]
                    if uneven[owner] and not in_ranges(ragged, ordered, i, owner):
                        continue
                    if found != NOBODY:
                        found = SEVERAL
                        break
                    found = owner
            out[ordered[i, d]] = found


@kernel
def _count(tree: CodeArray, boxes: Boxes, ragged: Ragged, points: CodeArray, totals: IntArray) -> int:
    uncovered = 0
    edges, starts, uneven = boxes
    n, d = points.shape
    ordered = _sorted_by_node(tree, points)
    for i in range(n):
        leaf = _leaf(tree, ordered[i, d + 1], ordered, i)
        covered = False
        for item in range(starts[leaf], starts[leaf + 1]):
            owner = edges[item, 2 * d]
            if in_hull(edges, ordered, i, item) and (not uneven[owner] or in_ranges(ragged, ordered, i, owner)):
                totals[owner] += 1
                covered = True
        if not covered:
            uncovered += 1
    return uncovered


@dataclass(frozen=True, slots=True, eq=False)
class BoxTree:
    """Finds the classes whose labels cover a point, in time that hardly grows with the number of classes."""

    tree: CodeArray
    boxes: Boxes
    ragged: Ragged
    n_classes: int

    @classmethod
    def of(cls, covers: Sequence[Covers], spans: Spans) -> BoxTree:
        """Build from the boxes that labels of these covers span."""
        n = spans.hulls.shape[0]
        hulls = np.column_stack((spans.hulls, np.arange(n, dtype=np.int32)))
        tree, edges, leaves = grow_tree(hulls, np.array([cover.width for cover in covers], dtype=np.int64))
        return cls(tree=tree, boxes=(edges, leaves, spans.uneven), ragged=spans.ragged, n_classes=n)

    def find(self, points: CodeArray) -> CodeArray:
        """Return (n,) the only class that covers each point, or NOBODY, or SEVERAL."""
        out = np.empty(points.shape[0], dtype=np.int32)
        _find(self.tree, self.boxes, self.ragged, np.asfortranarray(points), out)
        return out

    def count(self, points: CodeArray, totals: IntArray) -> int:
        """Add each point to every class that covers it; return how many points no class covers."""
        return int(_count(self.tree, self.boxes, self.ragged, np.asfortranarray(points), totals))

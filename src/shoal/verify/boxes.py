"""Which classes cover a point: a k-d tree over the boxes that classes span in the space of codes.

A box that straddles a cut goes to both sides, but only as long as the tree stays a small multiple of the
boxes; after that a leaf keeps many boxes, which costs time and never truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.covers import Covers
from shoal.verify.cutting import ATTRIBUTE, CUT, FIRST, LEAF, grow_tree
from shoal.verify.hashing import combine
from shoal.verify.kernels import inlined, kernel

NOBODY, SEVERAL = -1, -2
_LEVELS = 11
_TOGETHER = 256  # points that walk down side by side, so that none waits for the memory alone
Boxes: TypeAlias = tuple[CodeArray, IntArray, BoolArray]  # edges and class of items; leaf starts; uneven classes
Ragged: TypeAlias = tuple[CodeArray, IntArray, IntArray, CodeArray, CodeArray]  # labels and all their ranges


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


@inlined
def _in_hull(edges: CodeArray, points: CodeArray, i: int, item: int) -> bool:
    inside = True
    for a in range(edges.shape[1] // 2):
        inside &= (points[i, a] >= edges[item, 2 * a]) & (points[i, a] < edges[item, 2 * a + 1])
    return inside


@kernel
def _in_ranges(ragged: Ragged, points: CodeArray, i: int, owner: int) -> bool:
    labels, offsets, start, range_low, range_high = ragged
    for a in range(labels.shape[1]):
        label = offsets[a] + labels[owner, a]
        inside = False
        for r in range(start[label], start[label + 1]):
            if range_low[r] <= points[i, a] < range_high[r]:
                inside = True
                break
        if not inside:
            return False
    return True


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
                if _in_hull(edges, ordered, i, item):
                    owner = edges[item, 2 * d]
                    if uneven[owner] and not _in_ranges(ragged, ordered, i, owner):
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
            if _in_hull(edges, ordered, i, item) and (not uneven[owner] or _in_ranges(ragged, ordered, i, owner)):
                totals[owner] += 1
                covered = True
        if not covered:
            uncovered += 1
    return uncovered


@kernel
def _edges(
    tree: CodeArray,
    boxes: Boxes,
    ragged: Ragged,
    points: CodeArray,
    contents: KeyArray,
    key: KeyArray,
    wanted: KeyArray,
    demand: IntArray,
    fill: bool,
    start: IntArray,
    out: CodeArray,
) -> int:
    """Fill start (and out, on the second call) with the wanted groups that each point may serve."""
    n = 0
    edges, starts, uneven = boxes
    d = points.shape[1]
    for i in range(points.shape[0]):
        leaf = _leaf(tree, 0, points, i)
        for item in range(starts[leaf], starts[leaf + 1]):
            owner = edges[item, 2 * d]
            if _in_hull(edges, points, i, item) and (not uneven[owner] or _in_ranges(ragged, points, i, owner)):
                group = combine(key, contents[i], np.uint64(owner))
                place = np.searchsorted(wanted, group)
                if place < wanted.shape[0] and wanted[place] == group and demand[place] > 0:
                    if fill:
                        out[n] = place
                    n += 1
        start[i + 1] = n
    return n


@dataclass(frozen=True, slots=True, eq=False)
class BoxTree:
    """Finds the classes whose labels cover a point, in time that hardly grows with the number of classes."""

    tree: CodeArray
    boxes: Boxes
    ragged: Ragged
    n_classes: int

    @classmethod
    def of(cls, covers: Sequence[Covers], labels: CodeArray) -> BoxTree:
        """Build from (n_classes, n_attributes) label numbers."""
        n, d = labels.shape
        hulls = np.empty((n, 2 * d + 1), dtype=np.int32)
        hulls[:, 2 * d] = np.arange(n)
        uneven = np.zeros(n, dtype=np.bool_)
        offsets, starts = np.zeros(d, dtype=np.int64), []
        n_labels = n_ranges = 0
        for a, cover in enumerate(covers):
            low, high, wider = cover.hulls()
            hulls[:, 2 * a], hulls[:, 2 * a + 1] = low[labels[:, a]], high[labels[:, a]]
            uneven |= wider[labels[:, a]]
            offsets[a] = n_labels
            # The label of unknown texts has no ranges: its start is the next attribute's.
            starts.append(cover.start + n_ranges)
            n_labels += len(cover.labels) + 1
            n_ranges += cover.low.shape[0]
        tree, edges, leaves = grow_tree(hulls, np.array([cover.width for cover in covers], dtype=np.int64))
        return cls(
            tree=tree,
            boxes=(edges, leaves, uneven),
            ragged=(
                labels,
                offsets,
                np.append(np.concatenate(starts), n_ranges),
                np.concatenate([cover.low for cover in covers]),
                np.concatenate([cover.high for cover in covers]),
            ),
            n_classes=n,
        )

    def find(self, points: CodeArray) -> CodeArray:
        """Return (n,) the only class that covers each point, or NOBODY, or SEVERAL."""
        out = np.empty(points.shape[0], dtype=np.int32)
        _find(self.tree, self.boxes, self.ragged, np.asfortranarray(points), out)
        return out

    def count(self, points: CodeArray, totals: IntArray) -> int:
        """Add each point to every class that covers it; return how many points no class covers."""
        return int(_count(self.tree, self.boxes, self.ragged, np.asfortranarray(points), totals))

    def edges(
        self, points: CodeArray, contents: KeyArray, key: KeyArray, wanted: KeyArray, demand: IntArray
    ) -> tuple[IntArray, CodeArray]:
        """Return, as (start, group), the places in *wanted* (sorted) that each point could fill."""
        start = np.zeros(points.shape[0] + 1, dtype=np.int64)
        arguments = (self.tree, self.boxes, self.ragged, points, contents, key, wanted, demand)
        n = _edges(*arguments, False, start, np.empty(0, dtype=np.int32))
        out = np.empty(n, dtype=np.int32)
        _edges(*arguments, True, start, out)
        return start, out

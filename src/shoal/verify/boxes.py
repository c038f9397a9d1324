"""Which classes cover a point: a k-d tree over the boxes that classes span in the space of codes.

A box that straddles a cut goes to both sides, but only as long as the tree stays a small multiple of the
boxes; after that a leaf keeps many boxes, which costs time and never truth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.covers import Covers
from shoal.verify.hashing import combine
from shoal.verify.kernels import inlined, kernel

NOBODY, SEVERAL = -1, -2
_LEAF = 8
_TWICE = 4
_LEVELS = 10
_PIECE = 1 << 16
Boxes: TypeAlias = tuple[CodeArray, CodeArray, BoolArray]  # edges and class of each item; is a class uneven
Ragged: TypeAlias = tuple[CodeArray, IntArray, IntArray, CodeArray, CodeArray]  # labels and all their ranges


@kernel
def _grown(array: CodeArray, needed: int) -> CodeArray:
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def _best_cut(
    items: CodeArray, low: CodeArray, high: CodeArray, bounds: CodeArray, begins: IntArray, ends: IntArray
) -> tuple[int, int, int, int]:
    """Return (attribute, cut, boxes left, boxes right); attribute -1 = none.

    Even halves are good, boxes on both sides are bad: classes made by cutting have a cut without any.
    """
    n = items.shape[0]
    best = (-1, 0, n, n)
    least = n
    for a in range(low.shape[1]):
        first, last = bounds[a, 1], bounds[a, 0]
        for i in items:
            first = min(first, max(low[i, a], bounds[a, 0]))
            last = max(last, min(high[i, a], bounds[a, 1]))
        if last - first < 2:
            continue
        begins[first : last + 1] = 0
        ends[first : last + 1] = 0
        for i in items:
            begins[max(low[i, a], bounds[a, 0])] += 1
            ends[min(high[i, a], bounds[a, 1])] += 1
        left, right = begins[first], n - ends[first]
        for cut in range(first + 1, last):
            right -= ends[cut]
            cost = max(left, right) + _TWICE * (left + right - n)
            if cost < least and max(left, right) < n:
                least = cost
                best = (a, cut, left, right)
            left += begins[cut]
    return best


@kernel
def _build(low: CodeArray, high: CodeArray, sizes: IntArray) -> tuple[CodeArray, CodeArray]:
    """Return (n_nodes, 4) attribute, cut, first and second of every node, and the items of the leaves.

    An inner node's first and second are its children; a leaf (attribute -1) has items first:second.
    """
    n, d = low.shape
    tree = np.empty((64, 4), dtype=np.int32)
    kept = np.empty(max(64, n), dtype=np.int32)
    n_nodes, n_kept, budget = 1, 0, 3 * n
    pool = np.empty(2 * n + 64, dtype=np.int32)  # a stack of item lists, the topmost belongs to the next node
    pool[:n] = np.arange(n, dtype=np.int32)
    top = n
    begins = np.zeros(sizes.max() + 2, dtype=np.int64)
    ends = np.zeros(sizes.max() + 2, dtype=np.int64)
    nodes = [0]
    counts = [n]
    bounds = np.empty((d, 2), dtype=np.int32)
    bounds[:, 0] = 0
    bounds[:, 1] = sizes
    frames = [bounds]
    while len(nodes) > 0:
        node, count, frame = nodes.pop(), counts.pop(), frames.pop()
        items = pool[top - count : top].copy()
        top -= count
        a, cut, left, right = -1, 0, count, count
        if count > _LEAF:
            a, cut, left, right = _best_cut(items, low, high, frame, begins, ends)
        twice = left + right - count
        if a < 0 or twice > budget or max(left, right) > count - max(1, count // 16):
            kept = _grown(kept, n_kept + count)
            kept[n_kept : n_kept + count] = items
            tree[node, 0], tree[node, 1], tree[node, 2], tree[node, 3] = -1, 0, n_kept, n_kept + count
            n_kept += count
            continue
        budget -= max(0, twice)
        if n_nodes + 2 > tree.shape[0]:
            larger = np.empty((2 * tree.shape[0], 4), dtype=np.int32)
            larger[:n_nodes] = tree[:n_nodes]
            tree = larger
        tree[node, 0], tree[node, 1], tree[node, 2], tree[node, 3] = a, cut, n_nodes, n_nodes + 1
        pool = _grown(pool, top + left + right)
        for i in items:
            if high[i, a] > cut:
                pool[top] = i
                top += 1
        below = frame.copy()
        above = frame.copy()
        below[a, 1] = cut
        above[a, 0] = cut
        nodes.append(n_nodes + 1)
        counts.append(right)
        frames.append(above)
        for i in items:
            if low[i, a] < cut:
                pool[top] = i
                top += 1
        nodes.append(n_nodes)
        counts.append(left)
        frames.append(below)
        n_nodes += 2
    return tree[:n_nodes].copy(), kept[:n_kept].copy()


@kernel
def _descend(tree: CodeArray, points: CodeArray) -> tuple[CodeArray, IntArray]:
    """Return the node that each point reaches after a few levels, and an order that visits node by node.

    Points in that order meet the same parts of the tree and the same boxes while these are still in the cache.
    """
    n = points.shape[0]
    reached = np.empty(n, dtype=np.int32)
    ends = np.zeros(tree.shape[0] + 1, dtype=np.int64)
    for i in range(n):
        node = 0
        for _ in range(_LEVELS):
            if tree[node, 0] < 0:
                break
            node = tree[node, 2] if points[i, tree[node, 0]] < tree[node, 1] else tree[node, 3]
        reached[i] = node
        ends[node + 1] += 1
    for node in range(tree.shape[0]):
        ends[node + 1] += ends[node]
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        order[ends[reached[i]]] = i
        ends[reached[i]] += 1
    return reached, order


@inlined
def _leaf(tree: CodeArray, node: int, points: CodeArray, i: int) -> tuple[int, int]:
    while tree[node, 0] >= 0:
        node = tree[node, 2] if points[i, tree[node, 0]] < tree[node, 1] else tree[node, 3]
    return tree[node, 2], tree[node, 3]


@inlined
def _in_hull(edges: CodeArray, points: CodeArray, i: int, item: int) -> bool:
    inside = True
    for a in range(points.shape[1]):
        if points[i, a] < edges[item, 2 * a] or points[i, a] >= edges[item, 2 * a + 1]:
            inside = False
            break
    return inside


@kernel
def _in_ranges(ragged: Ragged, points: CodeArray, i: int, owner: int) -> bool:
    labels, offsets, start, range_low, range_high = ragged
    for a in range(points.shape[1]):
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
def _find(tree: CodeArray, boxes: Boxes, ragged: Ragged, points: CodeArray, out: IntArray) -> None:
    edges, classes, uneven = boxes
    reached, order = _descend(tree, points)
    for i in order:
        begin, end = _leaf(tree, reached[i], points, i)
        found = NOBODY
        for item in range(begin, end):
            if _in_hull(edges, points, i, item) and (
                not uneven[classes[item]] or _in_ranges(ragged, points, i, classes[item])
            ):
                if found != NOBODY:
                    found = SEVERAL
                    break
                found = classes[item]
        out[i] = found


@kernel
def _count(tree: CodeArray, boxes: Boxes, ragged: Ragged, points: CodeArray, totals: IntArray) -> int:
    uncovered = 0
    edges, classes, uneven = boxes
    reached, order = _descend(tree, points)
    for i in order:
        begin, end = _leaf(tree, reached[i], points, i)
        covered = False
        for item in range(begin, end):
            if _in_hull(edges, points, i, item) and (
                not uneven[classes[item]] or _in_ranges(ragged, points, i, classes[item])
            ):
                totals[classes[item]] += 1
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
    edges, classes, uneven = boxes
    for i in range(points.shape[0]):
        begin, end = _leaf(tree, 0, points, i)
        for item in range(begin, end):
            if _in_hull(edges, points, i, item) and (
                not uneven[classes[item]] or _in_ranges(ragged, points, i, classes[item])
            ):
                group = combine(key, contents[i], np.uint64(classes[item]))
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
        low, high = np.empty((n, d), dtype=np.int32), np.empty((n, d), dtype=np.int32)
        uneven = np.zeros(n, dtype=np.bool_)
        offsets, starts = np.zeros(d, dtype=np.int64), []
        n_labels = n_ranges = 0
        for a, cover in enumerate(covers):
            hull_low, hull_high, wider = cover.hulls()
            low[:, a], high[:, a] = hull_low[labels[:, a]], hull_high[labels[:, a]]
            uneven |= wider[labels[:, a]]
            offsets[a] = n_labels
            # The label of unknown texts has no ranges: its start is the next attribute's.
            starts.append(cover.start + n_ranges)
            n_labels += len(cover.labels) + 1
            n_ranges += cover.low.shape[0]
        sizes = np.array([cover.width for cover in covers], dtype=np.int64)
        tree, items = _build(low, high, sizes)
        return cls(
            tree=tree,
            boxes=(np.stack([low[items], high[items]], axis=2).reshape(-1, 2 * d), items, uneven),
            ragged=(
                labels,
                offsets,
                np.append(np.concatenate(starts), n_ranges),
                np.concatenate([cover.low for cover in covers]),
                np.concatenate([cover.high for cover in covers]),
            ),
            n_classes=n,
        )

    def find(self, points: CodeArray) -> IntArray:
        """Return (n,) the only class that covers each point, or NOBODY, or SEVERAL."""
        out = np.empty(points.shape[0], dtype=np.int64)
        workers = min(8, os.cpu_count() or 1, 1 + points.shape[0] // _PIECE)

        def piece(worker: int) -> None:
            part = slice(worker * points.shape[0] // workers, (worker + 1) * points.shape[0] // workers)
            _find(self.tree, self.boxes, self.ragged, points[part], out[part])

        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(piece, range(workers)))
        return out

    def count(self, points: CodeArray, totals: IntArray) -> int:
        """Add each point to every class that covers it; return how many points no class covers."""
        return int(_count(self.tree, self.boxes, self.ragged, points, totals))

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

"""The boxes that labels span in the space of codes, and which of them cover a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import inline_kernel, kernel
from shoal.verify.covers import Covers

Ragged: TypeAlias = tuple[CodeArray, IntArray, IntArray, CodeArray, CodeArray]  # labels and all their ranges
NOBODY, SEVERAL = -1, -2
_FAN = 8  # boxes, or nodes, in a node
_KEY_BITS, _MOST_BITS = 63, 16


class Spans(NamedTuple):
    """Boxes as their hulls; labels may have gaps in these, which only their ranges tell."""

    hulls: CodeArray  # (n_boxes, 2 n_attributes) from and below, attribute by attribute
    ragged: Ragged

    @classmethod
    def of(cls, covers: Sequence[Covers], labels: CodeArray) -> Spans:
        """Build from (n_boxes, n_attributes) label numbers."""
        hulls = np.empty((len(labels), 2 * len(covers)), dtype=np.int32)
        for side, edges in enumerate(edge for cover in covers for edge in cover.hulls()[:2]):
            hulls[:, side] = edges[labels[:, side // 2]]
        # The label of unknown texts has no ranges: its start is the next attribute's.
        offsets = np.cumsum([0, *(len(cover.labels) + 1 for cover in covers)])
        n_ranges = np.cumsum([0, *(len(cover.low) for cover in covers)])
        starts = [cover.start + before for cover, before in zip(covers, n_ranges[:-1], strict=True)]
        low, high = (np.concatenate(ends) for ends in zip(*((cover.low, cover.high) for cover in covers), strict=True))
        return cls(hulls, (labels, offsets[:-1], np.append(np.concatenate(starts), n_ranges[-1]), low, high))

    def reorder(self, order: IntArray) -> Spans:
        """Return the boxes in this order."""
        return Spans(self.hulls[order], (self.ragged[0][order], *self.ragged[1:]))

    def usual_widths(self) -> FloatArray:
        """Return (n_attributes,) how many codes hulls span in the mean."""
        return np.asarray(self.hulls[:, 1::2].mean(axis=0) - self.hulls[:, ::2].mean(axis=0), dtype=np.float64)


@inline_kernel
def in_hull(hulls: CodeArray, points: CodeArray, i: int, box: int) -> bool:
    """Whether point i lies in the hull of a box."""
    inside = True
    for a in range(hulls.shape[1] // 2):
        inside &= (points[i, a] >= hulls[box, 2 * a]) & (points[i, a] < hulls[box, 2 * a + 1])
    return inside


@kernel
def in_ranges(ragged: Ragged, points: CodeArray, i: int, owner: int) -> bool:
    """Whether the labels of a box cover point i, range by range."""
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


def _near_each_other(hulls: CodeArray) -> IntArray:
    """Return boxes in the order of a Z-curve through their middles, so that neighbours lie near each other."""
    middles = (hulls[:, ::2].astype(np.int64) + hulls[:, 1::2]) // 2
    bits = max(1, min(_MOST_BITS, _KEY_BITS // max(1, middles.shape[1])))
    scaled = (middles << bits) // (middles.max(axis=0, initial=0) + 1)
    key: KeyArray = np.zeros(len(hulls), dtype=np.uint64)
    for bit in reversed(range(bits)):
        for column in scaled.T:
            key = (key << np.uint64(1)) | ((column >> bit) & 1).astype(np.uint64)
    return np.argsort(key, kind="stable")


@kernel
def _look(tree: Tree, ragged: Ragged, points: CodeArray, owners: CodeArray, totals: IntArray) -> None:
    """Find the box of each point and, if *totals* has one for each box, count its points."""
    hulls, first, order = tree
    top = first.shape[0] - 2
    waiting = np.empty((_FAN * first.shape[0] + 1, 2), dtype=np.int64)
    for i in range(points.shape[0]):
        found, held = NOBODY, 1
        waiting[0, 0], waiting[0, 1] = top, 0
        while held > 0 and not (found == SEVERAL and totals.shape[0] == 0):
            held -= 1
            level, node = waiting[held, 0], waiting[held, 1]
            if not in_hull(hulls, points, i, first[level] + node):
                continue
            if level > 0:
                children = min(_FAN * (node + 1), first[level] - first[level - 1])
                for child in range(_FAN * node, children):
                    waiting[held, 0], waiting[held, 1] = level - 1, child
                    held += 1
                continue
            owner = order[node]
            if not in_ranges(ragged, points, i, owner):
                continue
            found = owner if found == NOBODY else SEVERAL
            if totals.shape[0] > 0:
                totals[owner] += 1
        owners[i] = found


Tree: TypeAlias = tuple[CodeArray, IntArray, IntArray]  # hulls of nodes, level by level; where levels begin; boxes


@dataclass(frozen=True, slots=True, eq=False)
class BoxTree:
    """Finds the boxes that cover a point: an R-tree, each node of which is the hull of a few neighbours.

    Guttman, SIGMOD 1984; packed by a space-filling curve as in Kamel and Faloutsos, CIKM 1993.
    """

    tree: Tree
    ragged: Ragged

    @classmethod
    def of(cls, spans: Spans) -> BoxTree:
        """Build from boxes."""
        order = _near_each_other(spans.hulls)
        levels, first = [spans.hulls[order]], [0, len(order)]
        while len(levels[-1]) > 1:
            starts = np.arange(0, len(levels[-1]), _FAN)
            low, high = np.minimum.reduceat(levels[-1], starts), np.maximum.reduceat(levels[-1], starts)
            low[:, 1::2] = high[:, 1::2]
            levels.append(low)
            first.append(first[-1] + len(low))
        return cls((np.concatenate(levels), np.array(first), order), spans.ragged)

    def find(self, points: CodeArray) -> CodeArray:
        """Return (n,) the only box that covers each point, or NOBODY, or SEVERAL."""
        return self._look(points, np.zeros(0, dtype=np.int64))

    def count(self, points: CodeArray, totals: IntArray) -> BoolArray:
        """Add each point to every box that covers it; return (n,) whether some box does."""
        return np.asarray(self._look(points, totals) != NOBODY, dtype=np.bool_)

    def _look(self, points: CodeArray, totals: IntArray) -> CodeArray:
        owners = np.full(points.shape[0], NOBODY, dtype=np.int32)
        if len(self.tree[2]):
            _look(self.tree, self.ragged, np.ascontiguousarray(points), owners, totals)
        return owners

"""The boxes that labels span in the space of codes, and which of them cover a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import inline_kernel, kernel
from shoal.verify.covers import Covers
from shoal.verify.numbering import number_rows

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


@inline_kernel
def _is_narrower(widths: IntArray, one: int, other: int) -> bool:
    """Whether a box is narrower than another one in some attribute, and wider in none."""
    narrower, wider = False, False
    for a in range(widths.shape[1]):
        narrower |= widths[one, a] < widths[other, a]
        wider |= widths[one, a] > widths[other, a]
    return narrower and not wider


@kernel
def _look(
    tree: Tree,
    ragged: Ragged,
    points: CodeArray,
    owners: CodeArray,
    totals: IntArray,
    own: IntArray,
    widths: IntArray,
) -> None:
    """Find the box of each point and, if *totals* has one for each box, count its points.

    If points have an *own* box, only boxes that are narrower by their *widths* count.
    """
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
            if own.shape[0] > 0 and not _is_narrower(widths, owner, own[i]):
                continue
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

    def find_narrower(self, points: CodeArray, own: IntArray, widths: IntArray) -> BoolArray:
        """Return (n,) whether a box narrower than its own covers each point; *widths* are (n_boxes, n_attributes)."""
        return np.asarray(self._look(points, np.zeros(0, dtype=np.int64), own, widths) != NOBODY, dtype=np.bool_)

    def _look(
        self, points: CodeArray, totals: IntArray, own: IntArray | None = None, widths: IntArray | None = None
    ) -> CodeArray:
        owners = np.full(points.shape[0], NOBODY, dtype=np.int32)
        own = np.zeros(0, dtype=np.int64) if own is None else own
        widths = np.zeros((0, 0), dtype=np.int64) if widths is None else widths
        if len(self.tree[2]):
            _look(self.tree, self.ragged, np.ascontiguousarray(points), owners, totals, own, widths)
        return owners


MOST_ROWS = 1 << 16  # of each table
MOST_PAIRS = 1 << 22  # of a published row and a source row that it may stand for, equal ones counted once
_MOST_TRIES = 1 << 31  # pairs of equal content that are looked at


class TooLargeError(Exception):
    """The tables are too large to be matched; the message says what is too much."""


def count_unmatched(
    covers: Sequence[Covers], labels: CodeArray, contents: KeyArray, points: CodeArray, held: KeyArray
) -> int:
    """Return how many published rows find no source row of their own in the best matching, or raise TooLargeError.

    A published row may stand for the source rows that have its exact content and lie under its labels. Equal rows of
    either table are one node with a capacity, and the largest flow is found. Published rows have (n_rows, n_covers)
    *labels* and *contents*, source rows (n_source_rows, n_covers) codes as *points*, and contents that they *held*.
    """
    boxes, wanted, demand = _distinct(contents, labels)
    cells, offered, supply = _distinct(held, points)
    first, after = np.searchsorted(offered, wanted), np.searchsorted(offered, wanted, side="right")
    if int((after - first).sum()) > _MOST_TRIES:
        raise TooLargeError("too many rows have the same content")
    if covers:
        box, cell = _pairs(Spans.of(covers, boxes).ragged, cells, first, after)
    else:  # one distinct row at most has a content
        box = np.flatnonzero(after > first)
        cell = first[box]
    if len(box) > MOST_PAIRS:
        raise TooLargeError(f"there are more than {MOST_PAIRS:,} pairs of rows that may belong together")
    return int(demand.sum()) - _largest_flow(box, cell, demand, supply)


def count_unmatched_labels(cover: Covers, demand: IntArray, supply: IntArray) -> int:
    """Return how many rows under labels of one attribute find no value of their own, or raise TooLargeError.

    Labels are wanted as often as *demand* says, the last being that of other texts; codes occur as *supply* says.
    """
    owner = np.repeat(np.arange(len(cover.labels)), np.diff(cover.start))
    widths = (cover.high - cover.low).astype(np.int64)
    if int(widths.sum()) > MOST_PAIRS:
        raise TooLargeError("labels cover too many values")
    label, first = np.repeat(owner, widths), np.repeat(cover.low - np.cumsum(widths) + widths, widths)
    code = first + np.arange(len(first))
    some = (demand[label] > 0) & (supply[code] > 0)
    return int(demand.sum()) - _largest_flow(label[some], code[some], demand, supply)


def find_unmet(wanted: KeyArray, demand: IntArray, held: KeyArray, supply: IntArray) -> IntArray:
    """Return (n_wanted,) the demand that supplies of the same key do not meet; both keys ascend.

    >>> keys, more = np.array([3, 5], dtype=np.uint64), np.array([5, 9], dtype=np.uint64)
    >>> find_unmet(keys, np.array([1, 4]), more, np.array([3, 1])).tolist()
    [1, 1]
    """
    _, own, theirs = np.intersect1d(wanted, held, assume_unique=True, return_indices=True)
    unmet = demand.copy()
    unmet[own] = np.maximum(0, demand[own] - supply[theirs])
    return unmet


def _distinct(contents: KeyArray, codes: CodeArray) -> tuple[CodeArray, KeyArray, IntArray]:
    """Return the distinct rows by ascending content, their contents, and how often each occurs."""
    distinct, numbers = number_rows(np.stack([contents.view(np.int64), *codes.T.astype(np.int64)]))
    held = distinct[0].view(np.uint64)
    order = np.argsort(held, kind="stable")
    return np.ascontiguousarray(distinct[1:, order].T, dtype=np.int32), held[order], np.bincount(numbers)[order]


@kernel
def _pairs(ragged: Ragged, points: CodeArray, first: IntArray, after: IntArray) -> tuple[IntArray, IntArray]:
    """Return the boxes and the points, from the first of a box on to before the last, that they cover."""
    boxes, cells = [0], [0]
    for box in range(first.shape[0]):
        for cell in range(first[box], after[box]):
            if in_ranges(ragged, points, cell, box):
                boxes.append(box)
                cells.append(cell)
        if len(boxes) > MOST_PAIRS + 1:
            break
    return np.array(boxes[1:]), np.array(cells[1:])


def _largest_flow(box: IntArray, cell: IntArray, demand: IntArray, supply: IntArray) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    n_boxes, n_cells = len(demand), len(supply)
    end = n_boxes + n_cells + 1
    if not len(box):
        return 0
    # nodes: 0 where all rows come from, then boxes, then cells, then where they go
    heads = np.concatenate([np.zeros(n_boxes, dtype=np.int64), 1 + box, 1 + n_boxes + np.arange(n_cells)])
    tails = np.concatenate([1 + np.arange(n_boxes), 1 + n_boxes + cell, np.full(n_cells, end)])
    most = np.concatenate([demand, np.minimum(demand[box], supply[cell]), supply]).astype(np.int32)
    graph = csr_array((most, (heads, tails)), shape=(end + 1, end + 1))
    return int(maximum_flow(graph, 0, end).flow_value)

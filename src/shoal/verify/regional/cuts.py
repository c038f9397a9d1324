"""Cuts that no published box crosses: they make two releases of one.

Rows with equal labels lie on the same side of a cut, so classes stay whole; a source row that a box covers lies on the
side of the box, so the best matchings of both sides are together the best of all. Cuts are found in a sample of the
boxes. A box outside the sample may cross one: then all that lies on both sides of this cut stays together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.verify.covers import Covers
from shoal.verify.kernels import kernel

ATTRIBUTE, CUT, LOW, HIGH, FIRST, END = 0, 1, 2, 3, 4, 5  # columns of nodes: children, and leaves under them
_LEAST_SHARE = 0.02  # of the rows, on the smaller side of a cut


@kernel
def _best_cut(hulls: CodeArray, weights: IntArray, order: IntArray, widths: IntArray) -> tuple[int, int, int]:
    """Return the attribute, the cut and the weight of the smaller side; attribute -1 = there is no cut."""
    best = (-1, 0, 0)
    total = 0
    for i in order:
        total += weights[i]
    for a in range(widths.shape[0]):
        opened = np.zeros(widths[a] + 2, dtype=np.int64)  # boxes that begin before a place and end after it
        before = np.zeros(widths[a] + 2, dtype=np.int64)  # weight of the boxes that end there
        for i in order:
            low, high = hulls[i, 2 * a], hulls[i, 2 * a + 1]
            before[high] += weights[i]
            if high > low + 1:
                opened[low + 1] += 1
                opened[high] -= 1
        crossing, left = 0, before[0]
        for cut in range(1, widths[a]):
            crossing += opened[cut]
            left += before[cut]
            if crossing == 0 and min(left, total - left) > best[2]:
                best = (a, cut, min(left, total - left))
    return best


@kernel
def _route_boxes(
    nodes: CodeArray, lows: CodeArray, highs: CodeArray, offsets: IntArray, labels: CodeArray, places: IntArray,
    out: CodeArray, crossed: BoolArray, crossing: BoolArray,
) -> None:  # fmt: skip
    for i in range(out.shape[0]):
        node = 0
        crossing[i] = False
        while nodes[node, ATTRIBUTE] >= 0:
            a = nodes[node, ATTRIBUTE]
            label = offsets[a] + labels[places[a], i]
            if highs[label] <= nodes[node, CUT]:
                node = nodes[node, LOW]
            elif lows[label] >= nodes[node, CUT]:
                node = nodes[node, HIGH]
            else:
                crossed[node] = True
                crossing[i] = True
                break
        out[i] = nodes[node, FIRST]


@kernel
def _route_points(nodes: CodeArray, points: CodeArray, places: IntArray, out: CodeArray) -> None:
    for i in range(out.shape[0]):
        node = 0
        while nodes[node, ATTRIBUTE] >= 0:
            below = points[i, places[nodes[node, ATTRIBUTE]]] < nodes[node, CUT]
            node = nodes[node, LOW] if below else nodes[node, HIGH]
        out[i] = nodes[node, FIRST]


@dataclass(frozen=True, slots=True, eq=False)
class CutTree:
    """Cuts below cuts, over some attributes; leaves are numbered from left to right."""

    nodes: CodeArray  # (n_nodes, 6); attribute -1 = a leaf
    lows: CodeArray  # of every label of all attributes the smallest range around it
    highs: CodeArray
    offsets: IntArray  # (n_attributes,) where the labels of an attribute begin

    @classmethod
    def of(cls, covers: Sequence[Covers], labels: CodeArray, weights: IntArray, heaviest: int) -> CutTree:
        """Cut the boxes with these (n_boxes, n_attributes) labels until no leaf weighs more, or no cut is left."""
        sides = [cover.hulls()[:2] for cover in covers]
        hulls = np.empty((len(labels), 2 * len(covers)), dtype=np.int32)
        for a, (low, high) in enumerate(sides):
            hulls[:, 2 * a], hulls[:, 2 * a + 1] = low[labels[:, a]], high[labels[:, a]]
        sizes = [len(low) for low, _ in sides]
        return cls(
            nodes=_grown(hulls, weights, np.array([cover.width for cover in covers], dtype=np.int64), heaviest),
            lows=np.concatenate([low for low, _ in sides]),
            highs=np.concatenate([high for _, high in sides]),
            offsets=np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        )

    @property
    def n_leaves(self) -> int:
        """How many leaves there are."""
        return int(self.nodes[0, END])

    def of_boxes(self, labels: CodeArray, places: IntArray) -> tuple[CodeArray, BoolArray, BoolArray]:
        """Return (n_rows,) the leaf of each row, (n_nodes,) which cuts were crossed, and (n_rows,) by whom.

        *labels* are (n_labelled, n_rows), of which *places* are the attributes of the tree. A row that crosses a cut
        gets a leaf beside it.
        """
        n = labels.shape[1]
        out, crossing = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.bool_)
        crossed = np.zeros(len(self.nodes), dtype=np.bool_)
        _route_boxes(self.nodes, self.lows, self.highs, self.offsets, labels, places, out, crossed, crossing)
        return out, crossed, crossing

    def of_points(self, points: CodeArray, places: IntArray) -> CodeArray:
        """Return (n_rows,) the leaf of each point; its columns at *places* are the attributes of the tree."""
        out = np.empty(len(points), dtype=np.int32)
        _route_points(self.nodes, np.asfortranarray(points), places, out)
        return out

    def groups(self, crossed: BoolArray) -> IntArray:
        """Return (n_groups + 1,) the first leaf of each group of leaves that no crossed cut parts."""
        begins = np.ones(self.n_leaves + 1, dtype=np.bool_)
        for node in np.flatnonzero(crossed).tolist():
            begins[self.nodes[node, FIRST] + 1 : self.nodes[node, END]] = False
        return np.flatnonzero(begins)


def _grown(hulls: CodeArray, weights: IntArray, widths: IntArray, heaviest: int) -> CodeArray:
    nodes: list[list[int]] = []

    def grow(order: IntArray, leaf: int) -> int:
        """Append a node and all below it; return the leaf that comes next."""
        node = len(nodes)
        nodes.append([-1, 0, 0, 0, leaf, leaf + 1])
        weight = int(weights[order].sum())
        if weight <= heaviest or len(order) < 2:
            return leaf + 1
        attribute, cut, smaller = _best_cut(hulls, weights, order, widths)
        if attribute < 0 or smaller < _LEAST_SHARE * weight:
            return leaf + 1
        below = hulls[order, 2 * attribute + 1] <= cut
        nodes[node][ATTRIBUTE], nodes[node][CUT] = attribute, cut
        nodes[node][LOW] = len(nodes)
        leaf = grow(order[below], leaf)
        nodes[node][HIGH] = len(nodes)
        leaf = grow(order[~below], leaf)
        nodes[node][END] = leaf
        return leaf

    grow(np.arange(len(hulls)), 0)
    return np.array(nodes, dtype=np.int32)

"""Dividing a table into regions: a tree of cuts whose leaves are boxes of quasi values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.engines.regions.budget import MOST_FILES
from shoal.models.base import ClassHistograms
from shoal.plan.problem import Problem
from shoal.utility.information import relative_widths

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Keys = NDArray[np.uint64]
_EVEN = 0.2  # share of the smaller side, below which a cut is only made if no other is possible


@dataclass(slots=True, eq=False)
class Node:
    """A box, which may be cut in two; ``closed`` boxes may be regions."""

    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    closed: bool
    attribute: int = -1
    cut: int = 0  # the last leaf of the attribute that is below
    below: int = -1
    above: int = -1


@dataclass(slots=True, eq=False)
class RegionTree:
    """Nodes; the first one is the root."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def leaves(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if node.attribute < 0]

    def table(self) -> RouteTable:
        """Return the nodes as arrays for routing; regions have the numbers of the leaves."""
        number = np.full(len(self.nodes), -1, dtype=np.int32)
        number[self.leaves] = np.arange(len(self.leaves), dtype=np.int32)
        columns = [(node.attribute, node.cut, node.below, node.above) for node in self.nodes]
        attribute, cut, below, above = np.array(columns, dtype=np.int32).T.copy()
        return RouteTable(attribute, cut, below, above, number)


def cut_regions(
    sample: Problem,
    share: float,
    most_rows: int,
    *,
    by_nodes: bool,
    generalizes: bool = False,
    most_regions: int = MOST_FILES,
) -> RegionTree:
    """Halve a random *sample* of a table until each box probably has at most *most_rows* rows.

    Preferred cuts leave two sides that meet all requirements in the sample and divide the widest attribute, as Mondrian
    would. With *by_nodes*, boxes are nodes of all taxonomies. With *generalizes*, requirements are ignored if
    generalized sensitive values can meet them. Beyond *most_regions* boxes, only boxes that may not be regions are cut.
    """
    asked = [r for r in sample.requirements if r.place is None or not (generalizes and sample.may_generalize(r.place))]
    return _Cutting(replace(sample, requirements=tuple(asked)), share, most_rows, most_regions, by_nodes).grow()


class _Cutting:
    def __init__(self, sample: Problem, share: float, most_rows: int, most_regions: int, by_nodes: bool) -> None:
        self._problem, self._share, self._most = sample, share, most_rows
        self._most_regions = most_regions
        self._by_nodes = by_nodes
        self._wholes = [r.as_one_class(self._scale(sample.cells.counts)) for r in sample.requirements]

    def grow(self) -> RegionTree:
        """Cut the largest box repeatedly."""
        lo, hi = self._problem.bounds
        tree = RegionTree([Node(lo, hi, True)])
        waiting = [(0, np.arange(self._problem.cells.n_cells))]
        n_leaves = 1
        while waiting:
            waiting.sort(key=lambda entry: (tree.nodes[entry[0]].closed, len(entry[1])))
            place = 0 if not tree.nodes[waiting[0][0]].closed else -1  # boxes that may not be regions come first
            number, cells = waiting.pop(place)
            node = tree.nodes[number]
            n_rows = float(self._problem.cells.counts[cells].sum()) / self._share
            if node.closed and (n_rows <= self._most or n_leaves >= self._most_regions):
                continue
            chosen = self._choose_cut(node, cells)
            if chosen is None:
                continue
            node.attribute, node.cut = chosen
            goes_below = self._problem.quasi_codes[node.attribute][cells] <= node.cut
            node.below, node.above = len(tree.nodes), len(tree.nodes) + 1
            for side, some in zip(self._sides(node), (cells[goes_below], cells[~goes_below]), strict=True):
                waiting.append((len(tree.nodes), some))
                tree.nodes.append(side)
            n_leaves += 1
        return tree

    def _sides(self, node: Node) -> Iterator[Node]:
        at = node.attribute
        for lo, hi in ((node.lo[at], node.cut + 1), (node.cut + 1, node.hi[at])):
            side_lo, side_hi = node.lo.copy(), node.hi.copy()
            side_lo[at], side_hi[at] = lo, hi
            yield Node(side_lo, side_hi, self._is_closed(at, int(lo), int(hi)))

    def _is_closed(self, attribute: int, lo: int, hi: int) -> bool:
        """Whether this range is a node, if boxes must be nodes; the other ranges of a box always are."""
        if not self._by_nodes:
            return True
        taxonomy = self._problem.quasi[attribute].taxonomy
        node = taxonomy.covering(lo, hi)
        return bool(taxonomy.lo[node] == lo and taxonomy.hi[node] == hi)

    def _choose_cut(self, node: Node, cells: IntArray) -> tuple[int, int] | None:
        """Return the attribute and the last leaf below the cut, or None if no cut is possible."""
        proposals = []
        for j in range(len(self._problem.quasi)):
            if not node.closed and self._is_closed(j, int(node.lo[j]), int(node.hi[j])):
                continue
            proposals += self._propose_cuts(node, cells, j)
        proposals.sort(key=lambda proposal: (proposal[0], -proposal[1], proposal[2]))
        for *_, attribute, cut in proposals:
            below = self._problem.quasi_codes[attribute][cells] <= cut
            if self._holds(cells[below]) and self._holds(cells[~below]):
                return attribute, cut
        if proposals and not node.closed:
            return proposals[0][-2], proposals[0][-1]
        return None

    def _propose_cuts(self, node: Node, cells: IntArray, j: int) -> list[tuple[bool, float, int, int]]:
        """Return the most even cut of an attribute: whether it is uneven, the attribute's width and number, the cut."""
        lo, hi = int(node.lo[j]), int(node.hi[j])
        codes = self._problem.quasi_codes[j][cells].astype(np.int64)
        counts = self._problem.cells.counts[cells]
        records: FloatArray = np.bincount(codes - lo, counts, hi - lo).astype(np.float64)
        before = np.cumsum(records)[:-1]
        total = float(records.sum())
        possible = np.flatnonzero(self._cuttable(j, lo, hi))
        if node.closed:
            possible = possible[(before[possible] > 0) & (before[possible] < total)]
        if not len(possible):
            return []
        best = int(possible[np.argmin(np.abs(2 * before[possible] - total))])
        share = min(float(before[best]), total - float(before[best])) / max(total, 1)
        there = lo + np.flatnonzero(records).astype(np.int32)
        attribute = self._problem.quasi[j]
        width = attribute.weight * float(relative_widths(attribute.taxonomy, there[:1], there[-1:] + 1).sum())
        return [(share < _EVEN, width, j, lo + best)]

    def _cuttable(self, j: int, lo: int, hi: int) -> BoolArray:
        if not self._by_nodes:
            return np.ones(hi - lo - 1, dtype=np.bool_)
        taxonomy = self._problem.quasi[j].taxonomy
        starts = taxonomy.lo[list(taxonomy.children(taxonomy.covering(lo, hi)))]
        cuts = np.zeros(hi - lo - 1, dtype=np.bool_)
        cuts[starts[(starts > lo) & (starts < hi)] - lo - 1] = True
        return cuts

    def _holds(self, cells: IntArray) -> bool:
        counts = self._scale(self._problem.cells.counts[cells])
        size = np.array([counts.sum()])
        for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
            values = None
            if requirement.values is not None:
                values = np.bincount(requirement.values[cells], counts, requirement.n_values)[np.newaxis]
                values = values.astype(np.int64)
            if not requirement.model.holds(ClassHistograms(size, values), whole)[0]:
                return False
        return True

    def _scale(self, counts: IntArray) -> IntArray:
        """Estimate counts of the table from counts of the sample."""
        return np.rint(counts / self._share).astype(np.int64)


class RouteTable(NamedTuple):
    """The nodes of a region tree as arrays."""

    attribute: Codes  # -1: not cut
    cut: Codes
    below: Codes
    above: Codes
    region: Codes


@kernel
def route(
    keys: Keys,
    columns: Ints,
    masks: Keys,
    first: Ints,
    leaf: Codes,
    tree: RouteTable,
    complete: bool,
) -> Codes:
    """Return (n_rows,) the region of each row, or -1 if all values must be *complete* and one is missing.

    Column c is in word ``columns[c, 0]`` of the *keys*, ``columns[c, 1]`` bits from the right; the leaves of its codes
    begin at ``first[c]``. A node of the tree sends leaves of its attribute up to ``cut`` to ``below``.
    """
    n_rows, n_columns = keys.shape[1], len(columns)
    out = np.empty(n_rows, dtype=np.int32)
    for row in range(n_rows):
        whole = True
        if complete:
            for column in range(n_columns):
                code = (keys[columns[column, 0], row] >> np.uint64(columns[column, 1])) & masks[column]
                if code == np.uint64(0):
                    whole = False
                    break
        if not whole:
            out[row] = -1
            continue
        node = 0
        while tree.attribute[node] >= 0:
            column = tree.attribute[node]
            code = (keys[columns[column, 0], row] >> np.uint64(columns[column, 1])) & masks[column]
            under = leaf[first[column] + np.int64(code)] <= tree.cut[node]
            node = tree.below[node] if under else tree.above[node]
        out[row] = tree.region[node]
    return out


@kernel
def tally(region: Codes, values: Codes, counts: Ints) -> None:
    """Count each row's value in its region; rows without region are not counted."""
    for row in range(len(region)):
        if region[row] >= 0:
            counts[region[row], values[row]] += 1

"""The cuts between regions: a tree whose leaves are boxes of quasi values that together cover all there are."""

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
_EVEN = 0.2  # a cut that leaves less than this share on one side is taken only if there is none that is more even


@dataclass(slots=True, eq=False)
class Node:
    """A box, cut in two or not; ``closed`` tells whether it may be a region."""

    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    closed: bool
    attribute: int = -1
    cut: int = 0  # leaves up to this are below
    below: int = -1
    above: int = -1


@dataclass(slots=True, eq=False)
class RegionTree:
    """Nodes, the root first."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def leaves(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if node.attribute < 0]

    def table(self) -> RouteTable:
        """Return what routing needs of each node; regions are numbered as the leaves are."""
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
    """Halve a random *sample* of a table until each box is expected to hold at most so many rows.

    A cut at which both sides meet all requirements, as far as the sample tells, comes before others, and then one of
    the attribute that is widest there, as Mondrian would. *by_nodes*, boxes are nodes of all taxonomies. With
    *generalizes*, requirements do not count that generalized sensitive values meet. Beyond *most_regions* boxes
    only those are cut on that may not stay as they are.
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
        """Cut the largest box again and again."""
        lo, hi = self._problem.bounds
        tree = RegionTree([Node(lo, hi, True)])
        waiting = [(0, np.arange(self._problem.cells.n_cells))]
        n_leaves = 1
        while waiting:
            waiting.sort(key=lambda entry: (tree.nodes[entry[0]].closed, len(entry[1])))
            place = 0 if not tree.nodes[waiting[0][0]].closed else -1  # what may not stay so is cut in any case
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
        """Whether leaves are those of one node, if they must be; other attributes of a box that is cut always are."""
        if not self._by_nodes:
            return True
        taxonomy = self._problem.quasi[attribute].taxonomy
        node = taxonomy.covering(lo, hi)
        return bool(taxonomy.lo[node] == lo and taxonomy.hi[node] == hi)

    def _choose_cut(self, node: Node, cells: IntArray) -> tuple[int, int] | None:
        """Return the attribute and the last leaf below the cut; None if nothing can be cut."""
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
        """Return the most even cut of one attribute: whether it is uneven, how wide the attribute is, and the cut."""
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
        """Return (hi - lo - 1,) whether a cut after each leaf is possible."""
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
        """Return how many records of the table so many of the sample stand for."""
        return np.rint(counts / self._share).astype(np.int64)


class RouteTable(NamedTuple):
    """The nodes of a tree of cuts, the root first."""

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
    """Return the region of each row, or -1 for a row that lacks a value where all must be *complete*.

    Column c stands in word ``columns[c, 0]`` of the *keys*, ``columns[c, 1]`` bits from the right; the leaf of its code
    is at ``first[c]`` and after. A node of the tree sends leaves of its attribute up to ``cut`` to ``below``.
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
    """Add one to the count of each row's value in its region; rows of no region count nowhere."""
    for row in range(len(region)):
        if region[row] >= 0:
            counts[region[row], values[row]] += 1

"""The records of a problem in the order of the Hilbert curve, and groups of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.core import kernels as shared
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.compiled import compiled
from shoal.methods.hilbert import kernels as kernels
from shoal.methods.hilbert.curve import Grid
from shoal.methods.hilbert.kernels import Floats, Ints, Small, Widths, covering, group_widths, label_width
from shoal.methods.hopeless import refuse_hopeless
from shoal.models.base import ClassHistograms
from shoal.plan.plan import WITHHELD, Plan, same_rows
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.widening import has_ranges, range_ends, widen
from shoal.utility.ncp import relative_widths

_HISTOGRAM_ENTRIES = 1 << 22
_UNITS_PER_GROUP = 64  # the optimal cuts look at runs of records, if groups have more records than this


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A grouping of records, no two groups with the same label, numbered along the curve."""

    of: CodeArray  # (n_records,) in curve order, or WITHHELD
    low: CodeArray  # (n_groups, d)
    high: CodeArray  # (n_groups, d) inclusive
    sizes: IntArray  # (n_groups,)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_withheld(self) -> int:
        """Number of records in no group."""
        return len(self.of) - int(self.sizes.sum())


class Line:
    """Records along the curve. Those with equal quasi values stand in random order, whatever the input's was."""

    def __init__(self, problem: Problem, ranges: bool, rng: np.random.Generator, *, by_levels: bool) -> None:
        self._problem = problem
        self.wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        refuse_hopeless(problem, 0)
        order = _curve_order(problem, rng, by_levels)
        self._cells = np.repeat(order, problem.cells.counts[order])  # (n_records,)
        self._codes = np.stack([column[self._cells] for column in problem.quasi_codes], axis=1).astype(np.int32)
        self._widths = _widths(problem.quasi, ranges)

    def __len__(self) -> int:
        return len(self._cells)

    def cut(self, smallest: int) -> Groups:
        """Return the runs of at least *smallest* records whose labels are narrowest in all.

        Ghinita et al.: the optimal one-dimensional k-anonymization. Where groups have very many records, the curve is
        cut between every few records only.
        """
        grain = max(smallest // _UNITS_PER_GROUP, 1)
        unit = (np.arange(len(self)) // grain).astype(np.int32)
        low, high = self._extents(unit, int(unit[-1]) + 1)
        number = kernels.optimal_cuts(low, high, np.bincount(unit), smallest, self._widths)
        return self._gathered(number[unit])

    def shed(self, groups: Groups, smallest: int, most: int) -> Groups:
        """Withhold up to *most* records where that narrows the labels of the rest the most.

        The order of steps does not depend on *most*, every step narrows the table by more than the withheld
        records lose, and the first that does not fit ends it: so a larger budget never gives a wider table.
        """
        while True:
            first, order = shared.grouped(groups.of, len(groups))
            keep, records, gain = shedding(first, order, self._codes, groups.low, groups.high, smallest, self._widths)
            worth = np.flatnonzero(gain)
            worth = worth[np.lexsort((worth, -gain[worth]))]
            affordable = np.cumsum(records[worth]) <= most
            taken = worth[affordable]
            if not len(taken):
                return groups
            most -= int(records[taken].sum())
            chosen = np.zeros(len(groups) + 1, dtype=np.bool_)  # the last is for what is withheld already
            chosen[taken] = True
            at = np.flatnonzero(chosen[groups.of])
            attribute, least, greatest = keep[groups.of[at]].T
            code = self._codes[at, attribute]
            number = groups.of.copy()
            number[at[(code < least) | (code > greatest)]] = WITHHELD
            groups = self._gathered(number)
            if not affordable.all():
                return groups

    def deal(self, values: CodeArray, n_values: int, size: int, cap: int) -> Groups:
        """Return groups of *size* records with any of the cells' *values* on at most *cap* of them."""
        first, queue = shared.grouped(values[self._cells], n_values)
        return self._gathered(kernels.diverse_groups(first, queue, size, cap))

    def parted(self, share: float) -> Groups:
        """Return two groups, the first of which has this share of the curve."""
        return self._gathered((np.arange(len(self)) >= share * len(self)).astype(np.int32))

    def hold(self, groups: Groups) -> bool:
        """Whether every group meets every requirement."""
        return bool(self._holding(groups).all())

    def failing(self, groups: Groups) -> list[int]:
        """Return the places of the requirements that some group fails."""
        together = enumerate(zip(self._problem.requirements, self.wholes, strict=True))
        return [
            place
            for place, (requirement, whole) in together
            if not all(requirement.model.holds(some, whole).all() for _, some in self._histograms(groups, requirement))
        ]

    def merged(self, groups: Groups) -> Groups:
        """Return groups that meet every requirement: those that do not join neighbours on the curve until they do.

        The whole table meets all, so this comes to an end, with one group if need be.
        """
        while not (holding := self._holding(groups)).all():
            number = kernels.paired(~holding, groups.low, groups.high, groups.sizes, self._widths)
            groups = self._gathered(np.append(number, np.int32(WITHHELD))[groups.of])
        return groups

    def loss(self, groups: Groups) -> float:
        """Return the total width of the labels over all records in groups."""
        return float(np.dot(kernels.group_widths(groups.low, groups.high, self._widths), groups.sizes))

    def worst(self, groups: Groups, requirement: int) -> float:
        """Return what all groups reach of one requirement."""
        model = self._problem.requirements[requirement].model
        reached = [
            model.worst(some, self.wholes[requirement])
            for _, some in self._histograms(groups, self._problem.requirements[requirement])
        ]
        return min(reached) if model.achieved_is == "at least" else max(reached)

    def plan(self, groups: Groups) -> Plan:
        """Return the groups as classes."""
        lo, hi = self._labels(groups.low, groups.high)
        ones = np.ones(len(self), dtype=np.int64)
        return Plan.of_pieces(lo, hi, self._problem.cells.n_cells, self._cells, groups.of, ones)

    def _extents(self, group: CodeArray, n_groups: int) -> tuple[CodeArray, CodeArray]:
        low = np.full((n_groups, self._codes.shape[1]), np.iinfo(np.int32).max, dtype=np.int32)
        high = np.full_like(low, -1)
        kernels.extents(group, self._codes, low, high)
        return low, high

    def _gathered(self, number: CodeArray) -> Groups:
        """Return groups by their numbers; groups that would publish the same are one, for they would be one class."""
        n_groups = int(number.max()) + 1
        low, high = self._extents(number, n_groups)
        same = _equal_rows(*self._labels(low, high))
        of = np.append(same, np.int32(WITHHELD))[number]
        n_groups = int(same.max()) + 1
        low, high = self._extents(of, n_groups)
        return Groups(of, low, high, np.bincount(of[of >= 0], minlength=n_groups).astype(np.int64))

    def _labels(self, low: CodeArray, high: CodeArray) -> tuple[CodeArray, CodeArray]:
        """Return the leaf ranges to publish, [lo, hi)."""
        lo, hi = low.copy(), high + 1
        for j, attribute in enumerate(self._problem.quasi):
            ranges = bool(self._widths.ranges[j])
            lo[:, j], hi[:, j] = widen(attribute.taxonomy, lo[:, j], hi[:, j], ranges=ranges)
        return lo, hi

    def _holding(self, groups: Groups) -> BoolArray:
        """Return (n_groups,) whether each meets every requirement."""
        holding = np.ones(len(groups), dtype=np.bool_)
        for requirement, whole in zip(self._problem.requirements, self.wholes, strict=True):
            for part, some in self._histograms(groups, requirement):
                holding[part] &= requirement.model.holds(some, whole)
        return holding

    def _histograms(self, groups: Groups, requirement: Requirement) -> Iterator[tuple[slice, ClassHistograms]]:
        """Yield what the requirement sees of some groups at a time."""
        if requirement.values is None:
            yield slice(None), ClassHistograms(groups.sizes)
            return
        first, order = shared.grouped(groups.of, len(groups))
        values = requirement.values[self._cells[order]]
        ones = np.ones(len(values), dtype=np.int64)
        step = max(_HISTOGRAM_ENTRIES // requirement.n_values, 1)
        for start, stop in pairwise([*range(0, len(groups), step), len(groups)]):
            counts = np.zeros((stop - start, requirement.n_values), dtype=np.int64)
            shared.tally_classes(first[start : stop + 1], values, ones, counts)
            yield slice(start, stop), ClassHistograms(groups.sizes[start:stop], counts)


def _curve_order(problem: Problem, rng: np.random.Generator, by_levels: bool) -> IntArray:
    """Return (n_cells,) the cells along the curve, in random order where their quasi values have one place."""
    grid = Grid.of_levels(problem.quasi) if by_levels else Grid.of(problem.quasi)
    keys = grid.keys(problem.quasi_codes)
    order = np.lexsort((*problem.cells.codes, *keys[::-1]))  # the same whatever order the cells come in
    ordered = keys[:, order]
    moved = np.ones(len(order), dtype=np.bool_)
    moved[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return order[np.lexsort((rng.random(len(order)), np.cumsum(moved)))]


def _equal_rows(lo: CodeArray, hi: CodeArray) -> CodeArray:
    """Number the distinct rows of both arrays by their first occurrence; return (n_rows,) the number of each."""
    first, same = same_rows((*lo.T, *hi.T))
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[same]


def _widths(quasi: tuple[Attribute, ...], ranges: bool) -> Widths:
    """Put the taxonomies of all attributes into arrays."""
    d = len(quasi)
    n_nodes = max(attribute.taxonomy.n_nodes for attribute in quasi)
    n_leaves = max(attribute.taxonomy.n_leaves for attribute in quasi)
    widths = Widths(
        ranges=np.array([ranges and has_ranges(attribute.taxonomy) for attribute in quasi]),
        parent=np.zeros((d, n_nodes), dtype=np.int32),
        start=np.zeros((d, n_nodes), dtype=np.int32),
        end=np.zeros((d, n_nodes), dtype=np.int32),
        node=np.zeros((d, n_nodes)),
        first=np.zeros((d, n_leaves), dtype=np.int32),
        last=np.zeros((d, n_leaves), dtype=np.int32),
        place=np.zeros((d, n_leaves)),
        full=np.array([attribute.weight for attribute in quasi]),
    )
    for j, attribute in enumerate(quasi):
        taxonomy, weight = attribute.taxonomy, attribute.weight
        nodes, leaf = slice(taxonomy.n_nodes), np.arange(taxonomy.n_leaves, dtype=np.int32)
        widths.parent[j, nodes] = taxonomy.parent
        widths.start[j, nodes], widths.end[j, nodes] = taxonomy.lo, taxonomy.hi
        widths.node[j, nodes] = weight * relative_widths(taxonomy, taxonomy.lo, taxonomy.hi)
        widths.first[j, leaf], widths.last[j, leaf] = range_ends(taxonomy)
        known = leaf if taxonomy.missing is None else leaf[:-1]
        widths.place[j, leaf] = 2 * weight
        widths.place[j, known] = weight * relative_widths(taxonomy, np.zeros_like(known), known + 1)
    return widths


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

"""The records of a problem along the Hilbert curve, and groups of neighbours that meet all requirements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.kernels import group_items, same_rows, sum_groups, tally_classes
from shoal.core.progress import Progress
from shoal.methods.hilbert.curve import Grid
from shoal.methods.hilbert.kernels import (
    Widths,
    choose_withheld,
    diverse_groups,
    extents,
    group_widths,
    optimal_cuts,
    pair_groups,
)
from shoal.methods.reachability import refuse_unreachable
from shoal.models.base import ClassHistograms, round_up
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.tree import has_ranges, range_ends, widen
from shoal.utility.information import relative_widths

_CONSIDERED = 64  # values of l, one by one, before the steps between them grow
_TRIED = 8  # of those that are promising, likewise
_SHARES = tuple(share / 16 for share in (8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15))  # of the curve
_MERGED = 3  # values of l whose groups are merged, if no l suffices

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
        refuse_unreachable(problem, 0)
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
        number = optimal_cuts(low, high, np.bincount(unit), smallest, self._widths)
        return self._gather(number[unit])

    def withhold(self, groups: Groups, smallest: int, most: int) -> Groups:
        """Withhold up to *most* records where that narrows the labels of the rest the most.

        The order of steps does not depend on *most*, every step narrows the table by more than the withheld
        records lose, and the first that does not fit ends it: so a larger budget never gives a wider table.
        """
        while True:
            first, order = group_items(groups.of, len(groups))
            keep, records, gain = choose_withheld(
                first, order, self._codes, groups.low, groups.high, smallest, self._widths
            )
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
            groups = self._gather(number)
            if not affordable.all():
                return groups

    def deal(self, values: CodeArray, n_values: int, size: int, cap: int) -> Groups:
        """Return groups of *size* records with any of the cells' *values* on at most *cap* of them."""
        first, queue = group_items(values[self._cells], n_values)
        return self._gather(diverse_groups(first, queue, size, cap))

    def part_at(self, share: float) -> Groups:
        """Return two groups, the first of which has this share of the curve."""
        return self._gather((np.arange(len(self)) >= share * len(self)).astype(np.int32))

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

    def merge(self, groups: Groups) -> Groups:
        """Return groups that meet every requirement: those that do not join neighbours on the curve until they do.

        The whole table meets all, so this comes to an end, with one group if need be.
        """
        while not (holding := self._holding(groups)).all():
            number = pair_groups(~holding, groups.low, groups.high, groups.sizes, self._widths)
            groups = self._gather(np.append(number, np.int32(WITHHELD))[groups.of])
        return groups

    def loss(self, groups: Groups) -> float:
        """Return the total width of the labels over all records in groups."""
        return float(np.dot(group_widths(groups.low, groups.high, self._widths), groups.sizes))

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
        extents(group, self._codes, low, high)
        return low, high

    def _gather(self, number: CodeArray) -> Groups:
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
        first, order = group_items(groups.of, len(groups))
        values = requirement.values[self._cells[order]]
        ones = np.ones(len(values), dtype=np.int64)
        step = max(_HISTOGRAM_ENTRIES // requirement.n_values, 1)
        for start, stop in pairwise([*range(0, len(groups), step), len(groups)]):
            counts = np.zeros((stop - start, requirement.n_values), dtype=np.int64)
            tally_classes(first[start : stop + 1], values, ones, counts)
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


def plan_groups(problem: Problem, ranges: bool, only: int | None, rng: np.random.Generator, progress: Progress) -> Plan:
    """Return the groups as a plan; *only* is the l to use, or None for the least that suffices."""
    with progress.step("grouping", problem.cells.n_records, unit="records") as step:
        line = Line(problem, ranges, rng, by_levels=not ranges and only is None)
        if only is None and all(requirement.values is None for requirement in problem.requirements):
            groups, search = _narrowest(line, problem)
        else:
            groups, search = _Diversity(line, problem).search(only)
        step.advance(problem.cells.n_records)
        return replace(line.plan(groups), search={**search, "groups": len(groups)})


def _narrowest(line: Line, problem: Problem) -> tuple[Groups, dict[str, Any]]:
    """Return the cuts of the least total width, without the records that are better withheld."""
    groups = line.cut(problem.smallest_class)
    if problem.max_withheld:
        groups = line.withhold(groups, problem.smallest_class, problem.max_withheld)
    return line.merge(groups), {"withheld": groups.n_withheld}


class _Diversity:
    """The search for the least l whose groups meet all requirements.

    The sensitive values that the first requirement looks at are those that groups have l different ones of.
    """

    def __init__(self, line: Line, problem: Problem) -> None:
        self._line = line
        self._problem = problem
        seen = [(r.values, r.n_values) for r in problem.requirements if r.values is not None]
        if not seen:  # l is given
            codes = np.asarray(problem.cells.codes[len(problem.quasi)], dtype=np.int32)
            seen = [(codes, problem.sensitive[0].taxonomy.n_leaves)]
        self._values, self._n_values = seen[0]
        self._most = len(line) // int(sum_groups(self._values, problem.cells.counts, self._n_values).max())

    def search(self, only: int | None) -> tuple[Groups, dict[str, Any]]:
        """Return groups that meet all requirements, and how they were found; the narrowest of a few.

        Those are the groups of the least l that meet them as they are, or of a few l, merged along the curve until they
        do; and the narrowest runs of the curve, merged likewise, which are those of l = 1.
        """
        if only is not None and only > self._most:
            raise UnreachableError(
                f"method hilbert: l = {only}, but the most frequent sensitive value allows at most l = {self._most}"
            )
        every = _steps(range(2, self._most + 1), _CONSIDERED)
        tried, found = [], []
        for l in _steps(filter(self._promises, every), _TRIED) if only is None else [only]:
            tried.append(l)
            groups = self._groups(l)
            if self._line.hold(groups):
                found = [(l, groups)]
                break
        held = bool(found)
        if not held:
            worth_merging = tried if only is not None else (tried or range(2, self._most + 1))[:_MERGED]
            found = [(l, self._line.merge(self._groups(l))) for l in worth_merging]
        if only is None:
            found.append((1, self._line.merge(self._line.cut(self._problem.smallest_class))))
        l, groups = min(found, key=lambda pair: self._line.loss(pair[1]))
        if len(groups) == 1 and not held:
            groups = self._split_in_two(groups)
        return groups, {"l": l, "tried": tried, "merged": not held or l == 1}

    def _size(self, l: int) -> int:
        """Return the records of a group: a multiple of l, so that each value may have one in l."""
        return l * -(-self._problem.smallest_class // l)

    def _groups(self, l: int) -> Groups:
        size = self._size(l)
        return self._line.deal(self._values, self._n_values, size, size // l)

    def _promises(self, l: int) -> bool:
        """Whether the barest group, l values in equal parts, meets what is asked of these values."""
        counts = (np.arange(self._n_values) < l) * (self._size(l) // l)
        barest = ClassHistograms.of(counts)
        return all(
            bool(requirement.model.holds(barest, whole)[0])
            for requirement, whole in zip(self._problem.requirements, self._line.wholes, strict=True)
            if requirement.values is self._values and not requirement.model.relative_to_whole
        )

    def _split_in_two(self, whole: Groups) -> Groups:
        """Return two parts of the curve if two will do; refuse one class that holds only because it is the table."""
        asked = self._problem.requirements
        if not any(r.model.relative_to_whole for r in asked) or (whole.low == whole.high).all():
            return whole
        if self._problem.box is not None:  # a region is not the table
            return whole
        offers: dict[int, float] = {}  # by the number of the policy's model, where only that one fails
        for share in _SHARES:
            parts = self._line.part_at(share)
            if len(parts) < 2:
                continue
            failing = self._line.failing(parts)
            if not failing:
                return parts
            numbers = {asked[i].number for i in failing}
            if len(numbers) == 1 and all(asked[i].model.relative_to_whole for i in failing):
                reached = max(self._line.worst(parts, i) for i in failing)
                offers[min(numbers)] = min(reached, offers.get(min(numbers), math.inf))
        number = min(offers, key=lambda place: (offers[place], place), default=None)
        models = [r.model for r in asked if r.model.relative_to_whole and number in (None, r.number)]
        offer = "the halves of the curve fail other requirements too"
        if number is not None:
            offer = "no cut of the curve leaves every value of the table in both parts"
            if math.isfinite(offers[number]):
                offer = f"cut in two, the curve reaches {round_up(offers[number], 4)}, so ask for more than that"
        raise UnreachableError(
            f"{models[0].subject if len(models) == 1 else models[0].name} leaves no two groups: it is met only by one "
            f"class in which every quasi attribute is fully generalized; {offer}"
        )


def _steps(numbers: Iterable[int], one_by_one: int) -> Iterator[int]:
    """Yield the first few numbers one by one, then in steps that grow by a quarter.

    >>> list(_steps(range(2, 30), 8))
    [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 19, 24]
    """
    following = 0.0
    for place, number in enumerate(numbers):
        if place < one_by_one or number >= following:
            yield number
            following = number * 1.25

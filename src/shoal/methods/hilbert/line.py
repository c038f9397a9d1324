"""The records of a problem along the Hilbert curve, and groups of neighbours that satisfy all requirements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.kernels import group_items, same_rows, sum_groups
from shoal.core.progress import Progress
from shoal.methods.base import afford, find_blocking, name_together, refuse_unreachable
from shoal.methods.hilbert import curve
from shoal.methods.labels import Trees
from shoal.models.base import ClassHistograms, round_up
from shoal.plan.judging import Judge
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem
from shoal.taxonomies.tree import has_ranges, widen

_CONSIDERED = 64  # values of l that are checked one by one, before the steps between them grow
_TRIED = 8  # the same for the values of l with which groups are made
_SHARES = tuple(share / 16 for share in (8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15))  # of the curve
_CUTS = (0.5, 0.375, 0.625, 0.25, 0.75, 0.125, 0.875)  # of a group
_ROUNDING = 1e-9  # minimum gain of a cut
_MERGED = 3  # values of l with merged groups, if no l suffices
_UNITS_PER_GROUP = 64  # for optimal cuts; larger groups are cut at some records only


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of records with distinct labels, numbered along the curve."""

    of: CodeArray  # (n_records,) in curve order, or WITHHELD
    low: CodeArray  # (n_groups, d)
    high: CodeArray  # (n_groups, d) inclusive
    sizes: IntArray  # (n_groups,)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_withheld(self) -> int:
        return len(self.of) - int(self.sizes.sum())


class Line:
    """Records along the curve; the order of records with equal quasi values is random."""

    def __init__(self, problem: Problem, ranges: bool, rng: np.random.Generator, *, by_levels: bool) -> None:
        self._problem = problem
        self.judges = [Judge.of(requirement, problem.cells.counts) for requirement in problem.requirements]
        refuse_unreachable(problem, 0)
        order = _curve_order(problem, rng, by_levels)
        self._cells = np.repeat(order, problem.cells.counts[order])  # (n_records,)
        self._codes = np.stack([column[self._cells] for column in problem.quasi_codes], axis=1).astype(np.int32)
        self._ranges = [ranges and has_ranges(attribute.taxonomy) for attribute in problem.quasi]
        self._trees = Trees.of(problem.quasi, self._ranges)

    def __len__(self) -> int:
        return len(self._cells)

    def cut(self, smallest: int) -> Groups:
        """Return the runs of at least *smallest* records with the narrowest labels.

        Ghinita et al.: the optimal one-dimensional k-anonymization. For large groups, cuts are only tried every few
        records.
        """
        grain = max(smallest // _UNITS_PER_GROUP, 1)
        unit = (np.arange(len(self)) // grain).astype(np.int32)
        low, high = _find_extents(unit, self._codes, int(unit[-1]) + 1)
        number = curve.optimal_cuts(self._trees, low, high, np.bincount(unit), smallest)
        return self._gather(number[unit])

    def withhold(self, groups: Groups, smallest: int, most: int) -> Groups:
        """Withhold up to *most* records where this narrows the other labels by more than the records lose."""
        while True:
            first, order = group_items(groups.of, len(groups))
            keep, records, gain = curve.choose_withheld(
                self._trees, first, order, self._codes, groups.low, groups.high, smallest
            )
            taken, all_fit = afford(gain, records, most)
            if not len(taken):
                return groups
            most -= int(records[taken].sum())
            chosen = np.zeros(len(groups) + 1, dtype=np.bool_)  # the last entry is for WITHHELD
            chosen[taken] = True
            at = np.flatnonzero(chosen[groups.of])
            attribute, least, greatest = keep[groups.of[at]].T
            code = self._codes[at, attribute]
            number = groups.of.copy()
            number[at[(code < least) | (code > greatest)]] = WITHHELD
            groups = self._gather(number)
            if not all_fit:
                return groups

    def deal(self, values: CodeArray, n_values: int, size: int, cap: int) -> Groups:
        """Return groups of *size* records, at most *cap* of them with the same value among the cells' *values*."""
        first, queue = group_items(values[self._cells], n_values)
        return self._gather(curve.diverse_groups(first, queue, size, cap))

    def part_at(self, share: float) -> Groups:
        return self._gather((np.arange(len(self)) >= share * len(self)).astype(np.int32))

    def failing(self, groups: Groups) -> list[int]:
        return [place for place, judge in enumerate(self.judges) if not judge.holds(*self._items(groups, judge)).all()]

    def merge(self, groups: Groups) -> Groups:
        """Return groups that satisfy every requirement: failing groups join neighbours on the curve until all hold.

        This terminates, with one group in the worst case, because the whole table satisfies all requirements.
        """
        while True:
            verdicts = [judge.holds(*self._items(groups, judge)) for judge in self.judges]
            failing = ~np.logical_and.reduce(verdicts)
            if not failing.any():
                return groups
            number = curve.pair_groups(self._trees, failing, groups.low, groups.high, groups.sizes)
            groups = self._gather(np.append(number, np.int32(WITHHELD))[groups.of])

    def split(self, groups: Groups, smallest: int) -> Groups:
        """Cut groups in two along the curve while both parts satisfy every requirement and are narrower in total.

        This corrects merges of two failing groups that a cut at another position would have avoided.
        """
        changed = np.ones(len(self), dtype=np.bool_)
        while True:
            open_ = np.bincount(groups.of, weights=changed, minlength=len(groups)) > 0
            large = np.flatnonzero(open_ & (groups.sizes >= 2 * smallest))
            at = np.flatnonzero(np.isin(groups.of, large))  # records of the large groups, along the curve
            own = np.searchsorted(large, groups.of[at]).astype(np.int32)
            sizes = groups.sizes[large]
            first, order = group_items(own, len(large))
            rank = np.empty(len(at), dtype=np.int64)
            rank[order] = np.arange(len(at)) - np.repeat(first[:-1], sizes)
            best = sizes * curve.group_widths(self._trees, groups.low[large], groups.high[large]) - _ROUNDING
            chosen = np.zeros(len(large), dtype=np.int64)  # records of the first part
            codes, cells = self._codes[at], self._cells[at]
            for share in _CUTS:
                size = np.clip((share * sizes).astype(np.int64), smallest, sizes - smallest)
                total = self._judge_parts(codes, cells, 2 * own + (rank >= size[own]).astype(np.int32), best)
                chosen, best = np.where(total < best, size, chosen), np.minimum(total, best)
            if not chosen.any():
                return self.merge(groups)  # parts with equal labels have become one group
            changed = np.zeros(len(self), dtype=np.bool_)
            changed[at] = chosen[own] > 0
            number = groups.of.copy()
            behind = at[(chosen[own] > 0) & (rank >= chosen[own])]
            number[behind] += len(groups)
            groups = self._gather(np.unique(number, return_inverse=True)[1].astype(np.int32))

    def _judge_parts(self, codes: CodeArray, cells: IntArray, parts: CodeArray, most: FloatArray) -> FloatArray:
        """Return (n_groups,) the width of both parts of each group over their records; infinite if one fails.

        The records have these *codes* and *cells*; parts 2 g and 2 g + 1 belong to group g. Groups whose width is not
        below *most* are not judged.
        """
        low, high = _find_extents(parts, codes, 2 * len(most))
        widths = curve.group_widths(self._trees, low, high) * np.bincount(parts, minlength=len(low))
        total: FloatArray = widths.reshape(-1, 2).sum(axis=1)
        total[total >= most] = np.inf
        asked = np.flatnonzero(np.isfinite(total))
        number = np.full(len(low), -1, dtype=np.int32)
        number[2 * asked], number[2 * asked + 1] = 2 * np.arange(len(asked)), 2 * np.arange(len(asked)) + 1
        first, order = group_items(number[parts], 2 * len(asked))
        cells, ones = cells[order], np.ones(len(order), dtype=np.int64)
        for judge in self.judges if len(asked) else ():
            values = judge.requirement.values
            holds = judge.holds(first, None if values is None else values[cells], ones)
            total[asked[~holds.reshape(-1, 2).all(axis=1)]] = np.inf
        return total

    def loss(self, groups: Groups) -> float:
        return float(np.dot(curve.group_widths(self._trees, groups.low, groups.high), groups.sizes))

    def worst(self, groups: Groups, requirement: int) -> float:
        """Return the figure that all groups reach for one requirement."""
        judge = self.judges[requirement]
        reached = judge.reach(*self._items(groups, judge))
        return float(reached.min() if judge.requirement.model.achieved_is == "at least" else reached.max())

    def plan(self, groups: Groups) -> Plan:
        lo, hi = self._labels(groups.low, groups.high)
        ones = np.ones(len(self), dtype=np.int64)
        return Plan.of_pieces(lo, hi, self._problem.cells.n_cells, self._cells, groups.of, ones)

    def _gather(self, number: CodeArray) -> Groups:
        """Return groups by their numbers; groups with equal labels become one, because they would be one class."""
        n_groups = int(number.max()) + 1
        low, high = _find_extents(number, self._codes, n_groups)
        lo, hi = self._labels(low, high)
        first, same = same_rows((*lo.T, *hi.T))
        rank = np.empty(len(first), dtype=np.int32)  # by first occurrence along the curve
        rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
        same = rank[same]
        of = np.append(same, np.int32(WITHHELD))[number]
        low, high = _find_extents(of, self._codes, len(first))
        return Groups(of, low, high, np.bincount(of[of >= 0], minlength=len(first)).astype(np.int64))

    def _labels(self, low: CodeArray, high: CodeArray) -> tuple[CodeArray, CodeArray]:
        lo, hi = low.copy(), high + 1
        for j, attribute in enumerate(self._problem.quasi):
            lo[:, j], hi[:, j] = widen(attribute.taxonomy, lo[:, j], hi[:, j], ranges=self._ranges[j])
        return lo, hi

    def _items(self, groups: Groups, judge: Judge) -> tuple[IntArray, CodeArray | None, IntArray]:
        """Return where groups begin, and the values and records of their items, for a judge."""
        first, order = group_items(groups.of, len(groups))
        values = judge.requirement.values
        return first, None if values is None else values[self._cells[order]], np.ones(len(order), dtype=np.int64)


def _find_extents(group: CodeArray, codes: CodeArray, n_groups: int) -> tuple[CodeArray, CodeArray]:
    """Return (n_groups, d) the minimum and maximum codes of each group's records."""
    low = np.full((n_groups, codes.shape[1]), np.iinfo(np.int32).max, dtype=np.int32)
    high = np.full_like(low, -1)
    curve.extents(group, codes, low, high)
    return low, high


def _curve_order(problem: Problem, rng: np.random.Generator, by_levels: bool) -> IntArray:
    """Return (n_cells,) the cells along the curve, in random order if they have the same position."""
    grid = curve.Grid.of_levels(problem.quasi) if by_levels else curve.Grid.of(problem.quasi)
    keys = grid.keys(problem.quasi_codes)
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    same = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    tied = np.flatnonzero(np.append(False, same) | np.append(same, False))
    place, cells = np.cumsum(np.append(True, ~same))[tied], order[tied]
    cells = cells[np.lexsort((*(codes[cells] for codes in problem.cells.codes), place))]  # independent of the input
    order[tied] = cells[np.lexsort((rng.random(len(order))[tied], place))]
    return order


def plan_groups(problem: Problem, ranges: bool, only: int | None, rng: np.random.Generator, progress: Progress) -> Plan:
    """Return the groups as a plan; *only* is the l to use, or None for the smallest that suffices."""
    with progress.step("grouping", problem.cells.n_records, unit="records") as step:
        line = Line(problem, ranges, rng, by_levels=not ranges and only is None)
        if only is None and all(requirement.values is None for requirement in problem.requirements):
            groups = line.cut(problem.smallest_class)
            if problem.max_withheld:
                groups = line.withhold(groups, problem.smallest_class, problem.max_withheld)
            search: dict[str, object] = {"withheld": groups.n_withheld}
            groups = line.merge(groups)
        else:
            groups, search = _search_diverse(line, problem, only)
        step.advance(problem.cells.n_records)
        return replace(line.plan(groups), search={**search, "groups": len(groups)})


def _search_diverse(line: Line, problem: Problem, only: int | None) -> tuple[Groups, dict[str, object]]:
    """Return the narrowest of several groupings that satisfy all requirements, and figures of the search.

    Candidates are the groups of the smallest l that satisfies them or, if there is none, of a few l, merged along the
    curve until they do; and the narrowest runs of the curve, also merged (l = 1). The l different values of a group
    belong to the attribute of the first requirement on sensitive values.
    """
    smallest = problem.smallest_class
    seen = [(r.values, r.n_values) for r in problem.requirements if r.values is not None]
    if not seen:  # l is given
        codes = np.asarray(problem.cells.codes[len(problem.quasi)], dtype=np.int32)
        seen = [(codes, problem.sensitive[0].taxonomy.n_leaves)]
    values, n_values = seen[0]
    most = len(line) // int(sum_groups(values, problem.cells.counts, n_values).max())
    if only is not None and only > most:
        raise UnreachableError(
            f"method hilbert: l = {only}, but the most frequent sensitive value allows at most l = {most}"
        )

    def deal(l: int) -> Groups:
        size = l * -(-smallest // l)  # a multiple of l, because each value may have one record in l
        return line.deal(values, n_values, size, size // l)

    def may_satisfy(l: int) -> bool:
        """Whether the smallest group, l values in equal parts, satisfies the models of these values."""
        barest = ClassHistograms.of((np.arange(n_values) < l) * -(-smallest // l))
        return all(
            bool(judge.requirement.model.holds(barest, judge.whole)[0])
            for judge in line.judges
            if judge.requirement.values is values and not judge.requirement.model.relative_to_whole
        )

    promising = filter(may_satisfy, _steps(range(2, most + 1), _CONSIDERED))
    tried, found = [], []
    for l in _steps(promising, _TRIED) if only is None else [only]:
        tried.append(l)
        groups = deal(l)
        if not line.failing(groups):
            found = [(l, groups)]
            break
    held = bool(found)
    if not held:
        worth_merging = tried if only is not None else (tried or range(2, most + 1))[:_MERGED]
        found = [(l, line.split(line.merge(deal(l)), smallest)) for l in worth_merging]
    if only is None:
        found.append((1, line.split(line.merge(line.cut(smallest)), smallest)))
    l, groups = min(found, key=lambda pair: line.loss(pair[1]))
    if len(groups) == 1 and not held:
        groups = _split_in_two(line, problem, groups)
    return groups, {"l": l, "tried": tried, "merged": not held or l == 1}


def _split_in_two(line: Line, problem: Problem, whole: Groups) -> Groups:
    """Return two parts of the curve that satisfy all requirements, or raise if a model allows only the whole table."""
    relative = [r for r in problem.requirements if r.model.relative_to_whole]
    if not relative or (whole.low == whole.high).all() or problem.box is not None:  # only the whole table is concerned
        return whole
    failures = []
    for share in _SHARES:
        parts = line.part_at(share)
        if len(parts) > 1:
            failing = line.failing(parts)
            if not failing:
                return parts
            failures.append([(problem.requirements[place], line.worst(parts, place)) for place in failing])
    blocking = find_blocking(failures)
    offer = "the halves of the curve fail other requirements too"
    if blocking is not None:
        relative = [requirement for requirement in relative if requirement.number == blocking[0]]
        offer = "no cut of the curve has every value of the table on both sides"
        if math.isfinite(blocking[1]):
            offer = f"cut in two, the curve reaches {round_up(blocking[1], 4)}, so ask for more than that"
    raise UnreachableError(
        f"{name_together(relative)} leaves no two groups: it holds only for one class in which every quasi attribute "
        f"is fully generalized; {offer}"
    )


def _steps(numbers: Iterable[int], one_by_one: int) -> Iterator[int]:
    """Yield the first numbers one by one, then in steps that grow by a quarter.

    >>> list(_steps(range(2, 30), 8))
    [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 19, 24]
    """
    following = 0.0
    for place, number in enumerate(numbers):
        if place < one_by_one or number >= following:
            yield number
            following = number * 1.25

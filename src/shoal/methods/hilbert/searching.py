"""Groups of neighbours on the curve that meet all requirements: the narrowest, or those of the least l."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.core.errors import UnreachableError
from shoal.core.kernels import summed
from shoal.core.progress import Progress
from shoal.methods.hilbert.line import Groups, Line
from shoal.models.base import ClassHistograms, rounded_up
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem

_CONSIDERED = 64  # values of l, one by one, before the steps between them grow
_TRIED = 8  # of those that are promising, likewise
_SHARES = tuple(share / 16 for share in (8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15))  # of the curve
_MERGED = 3  # values of l whose groups are merged, if no l suffices


def planned(problem: Problem, ranges: bool, only: int | None, rng: np.random.Generator, progress: Progress) -> Plan:
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
        groups = line.shed(groups, problem.smallest_class, problem.max_withheld)
    return line.merged(groups), {"withheld": groups.n_withheld}


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
        self._most = len(line) // int(summed(self._values, problem.cells.counts, self._n_values).max())

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
            found = [(l, self._line.merged(self._groups(l))) for l in worth_merging]
        if only is None:
            found.append((1, self._line.merged(self._line.cut(self._problem.smallest_class))))
        l, groups = min(found, key=lambda pair: self._line.loss(pair[1]))
        if len(groups) == 1 and not held:
            groups = self._parted(groups)
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

    def _parted(self, whole: Groups) -> Groups:
        """Return two parts of the curve if two will do; refuse one class that holds only because it is the table."""
        asked = self._problem.requirements
        if not any(r.model.relative_to_whole for r in asked) or (whole.low == whole.high).all():
            return whole
        if self._problem.box is not None:  # a region is not the table
            return whole
        offers: dict[int, float] = {}  # by the number of the policy's model, where only that one fails
        for share in _SHARES:
            parts = self._line.parted(share)
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
                offer = f"cut in two, the curve reaches {rounded_up(offers[number], 4)}, so ask for more than that"
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

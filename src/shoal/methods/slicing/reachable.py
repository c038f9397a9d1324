"""Requirements that no slicing of a table into these parts can meet, told with the group that blocks them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal import kernels as counting
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.errors import UnreachableError
from shoal.judging import Judge
from shoal.models.base import ClassHistograms, PrivacyModel, Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.wording import rounded_down, rounded_up
from shoal.problem import Problem, Requirement
from shoal.slices import Part, sensitive_part

Scalar = TypeVar("Scalar", np.bool_, np.float64)

_MANY = 100  # records that a group has at least to be named by its values
_INSTANTIATIONS: tuple[tuple[str, PrivacyModel], ...] = (
    ("simple", SimpleLDiversity(l=1)),
    ("entropy", EntropyLDiversity(l=1)),
    ("distinct", DistinctLDiversity(l=1)),
)


def reachable_counts(problem: Problem, parts: Sequence[Part], counts: IntArray) -> IntArray:
    """Return (n_cells,) the records that can be published, of *counts*: groups that hold when all are in one bucket.

    Cutting a bucket only takes records away from a group, and what a union of classes cannot break is reached best by
    the whole group. Cells of other groups are withheld if the policy allows so many; else it is told what blocks.
    """
    counts = counts.copy()
    while True:
        fails = np.zeros(len(counts), dtype=np.bool_)
        reason: str | None = None
        for requirement in problem.requirements:
            if requirement.values is not None:
                failing, sentence = _failing(problem, parts, requirement, counts)
                fails |= failing
                reason = reason or sentence
        if reason is None:
            return counts
        counts[fails] = 0
        if problem.cells.n_records - int(counts.sum()) > problem.max_withheld:
            raise UnreachableError(reason)


def _failing(
    problem: Problem, parts: Sequence[Part], requirement: Requirement, counts: IntArray
) -> tuple[BoolArray, str | None]:
    """Return (n_cells,) which cells are in groups that fail, and a sentence on the group that fails worst."""
    groups = _Groups.of(problem, parts, requirement, counts)
    holds = groups.measured(requirement.model.holds)
    fails = np.zeros(len(counts), dtype=np.bool_)
    if holds.all():
        return fails, None
    fails[groups.cells] = ~holds[groups.group_of]
    return fails, _sentence(problem, groups, holds)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The groups of one bucket of all records: those that share the quasi values of the sensitive part."""

    judge: Judge
    part: Part
    cells: IntArray  # (n,) with records, by ascending group
    records: IntArray  # (n,)
    group_of: CodeArray  # (n,)
    first: IntArray  # (n_groups + 1,)

    @classmethod
    def of(cls, problem: Problem, parts: Sequence[Part], requirement: Requirement, counts: IntArray) -> _Groups:
        part = sensitive_part(problem, parts, requirement)
        cells = np.flatnonzero(counts)
        present, group = np.unique(part.values[cells], return_inverse=True)
        first, order = counting.grouped(group.reshape(-1).astype(np.int32), len(present))
        cells = cells[order]
        group_of = np.repeat(np.arange(len(present), dtype=np.int32), np.diff(first))
        return cls(Judge.of(requirement, counts), part, cells, counts[cells], group_of, first)

    def measured(self, measure: Callable[[ClassHistograms, Whole], NDArray[Scalar]]) -> NDArray[Scalar]:
        """Return (n_groups,) what a model says of each group."""
        values = self.judge.requirement.values_at(self.cells)
        blocks = self.judge.histograms(self.first, values, self.records)
        return np.concatenate([measure(classes, self.judge.whole) for classes in blocks])


def _sentence(problem: Problem, groups: _Groups, holds: BoolArray) -> str:
    """Say which group that does not hold is the worst, and what would be reachable."""
    model = groups.judge.requirement.model
    more_is_better = model.achieved_is == "at least"
    reached = groups.measured(model.achieved)
    figures = reached if more_is_better else -reached
    blocking = int(np.where(holds, np.inf, figures).argmin())
    figure = float(reached[blocking])
    first = int(groups.first[blocking])
    size = int(groups.records[first : int(groups.first[blocking + 1])].sum())
    reach = "cannot reach it whatever its parameter is"
    if math.isfinite(figure):
        reach = f"can reach only {rounded_down(figure, 2) if more_is_better else rounded_up(figure, 4)}"
    best = ", ".join(
        f"{name} {rounded_down(float(groups.measured(other.achieved).min()), 2)}" for name, other in _INSTANTIATIONS
    )
    who = _named(problem, groups.part, int(groups.cells[first]), size)
    return (
        f"{model.subject}: not reachable even with all {int(groups.records.sum()):,} records in one bucket: {who} "
        f"{reach}. The largest l of one bucket is {best}. Ask for less or for another kind of diversity, put "
        "fewer quasi attributes into the sensitive part (alpha), generalize columns (column_frequency), or allow "
        "records to be withheld (max_withheld)"
    )


def _named(problem: Problem, part: Part, cell: int, size: int) -> str:
    """Say which records a group are: by its values if they are many, else by its columns only."""
    names = [problem.quasi[place].name for place in part.quasi]
    if not names:
        return f"all {size:,} records together"
    if size == 1:
        return f"a record that alone has its value of {', '.join(names)}"
    if size < _MANY:
        return f"{size:,} records that share one value of {', '.join(names)}"
    if part.lo is None or part.hi is None:
        lows = [int(problem.cells.codes[place][cell]) for place in part.quasi]
        highs = [low + 1 for low in lows]
    else:
        lows, highs = part.lo[part.values[cell]].tolist(), part.hi[part.values[cell]].tolist()
    told = [
        f"{problem.quasi[place].name} = {problem.quasi[place].taxonomy.label(low, high)}"
        for place, low, high in zip(part.quasi, lows, highs, strict=True)
    ]
    return f"the {size:,} records with {', '.join(told)}"

"""Requirements that no slicing of a table into these parts can meet, told with the group that blocks them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shoal import kernels as counting
from shoal.arrays import BoolArray, IntArray
from shoal.errors import UnreachableError
from shoal.judging import Judge
from shoal.methods.slicing.buckets import sensitive_part
from shoal.models.base import PrivacyModel
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.wording import rounded_down, rounded_up
from shoal.problem import Problem, Requirement
from shoal.slices import Part

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
    assert requirement.values is not None  # noqa: S101 - the caller asks for value models only
    part, model = sensitive_part(problem, parts, requirement), requirement.model
    cells = np.flatnonzero(counts)
    judge = Judge.of(requirement, counts, None, counts)
    keys, group = np.unique(part.values[cells], return_inverse=True)
    first, order = counting.grouped(group.reshape(-1).astype(np.int32), len(keys))
    values, records = requirement.values[cells[order]], counts[cells[order]]
    holds: list[BoolArray] = []
    worst: tuple[float, int] | None = None
    sign = 1.0 if model.achieved_is == "at least" else -1.0
    reached = {name: np.inf for name, _ in _INSTANTIATIONS}
    for classes in judge.histograms(first, values, records):
        done = sum(len(block) for block in holds)
        holds.append(model.holds(classes, judge.whole))
        figures = sign * model.achieved(classes, judge.whole)
        if not holds[-1].all():
            place = int(np.where(holds[-1], np.inf, figures).argmin())
            worst = min(filter(None, (worst, (float(figures[place]), done + place))))
        for name, other in _INSTANTIATIONS:
            reached[name] = min(reached[name], other.worst(classes, judge.whole))
    ok = np.concatenate(holds)
    if worst is None:
        return np.zeros(len(counts), dtype=np.bool_), None
    fails = np.zeros(len(counts), dtype=np.bool_)
    fails[cells] = ~ok[group.reshape(-1)]
    figure, blocking = worst
    inside = slice(int(first[blocking]), int(first[blocking + 1]))
    who = _named(problem, part, int(cells[order[inside.start]]), int(records[inside].sum()))
    best = ", ".join(f"{name} {rounded_down(number, 2)}" for name, number in reached.items())
    reach = "cannot reach it whatever its parameter is"
    if math.isfinite(figure):
        reach = f"can reach only {rounded_down(figure, 2) if sign > 0 else rounded_up(-figure, 4)}"
    return fails, (
        f"{model.subject}: not reachable even with all {int(records.sum()):,} records in one bucket: {who} "
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
    told = []
    for column, place in enumerate(part.quasi):
        code = int(problem.cells.codes[place][cell])
        value = int(part.values[cell])
        low, high = (code, code + 1) if part.lo is None or part.hi is None else _region(part, value, column)
        told.append(f"{problem.quasi[place].name} = {problem.quasi[place].taxonomy.label(low, high)}")
    return f"the {size:,} records with {', '.join(told)}"


def _region(part: Part, value: int, column: int) -> tuple[int, int]:
    assert part.lo is not None  # noqa: S101 - the caller has looked
    assert part.hi is not None  # noqa: S101
    return int(part.lo[value, column]), int(part.hi[value, column])

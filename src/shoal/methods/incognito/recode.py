"""Local recoding: what full-domain generalization suppresses is generalized again, by levels of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.arrays import IntArray
from shoal.methods.incognito.solve import Solution
from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem
from shoal.utility.ncp import NormalizedCertaintyPenalty

Solve = Callable[[Problem, int], Solution]


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One search over the cells that were left, and the plan it made."""

    cells: IntArray  # which cells of the problem
    plan: Plan

    def left(self) -> IntArray:
        """Return the cells that this round suppressed."""
        return np.asarray(self.cells[self.plan.assignment.class_of == WITHHELD], dtype=np.int64)


def recoded(problem: Problem, solve: Solve, share: float) -> Plan:
    """Return the classes of all rounds; classes of different rounds that publish the same ranges become one.

    Every round may leave the given share of its records to the next. If too many are left in the end, the last
    round is done again with no more suppression than the policy allows, or the one before it, and so on. Beside that
    stands the search without recoding, whose suppressed records are recoded: of both, the plan with the lower
    normalized certainty penalty is taken, so that recoding never gives a wider table.
    """
    cells = np.flatnonzero(problem.cells.counts > 0)
    plain = solve(_restricted(problem, cells), problem.max_withheld)
    plans = [_joined(problem, _continued(problem, solve, share, cells, plain))]
    rounds = _rounds(problem, solve, share, cells)
    while rounds and _n_left(problem, rounds) > problem.max_withheld:
        again = rounds.pop().cells
        solution = solve(_restricted(problem, again), problem.max_withheld) if rounds else None
        if solution is not None and solution.found:
            rounds += _continued(problem, solve, share, again, solution)
    if rounds:
        plans.append(_joined(problem, rounds))
    return min(plans, key=lambda plan: NormalizedCertaintyPenalty().of(problem, plan))


def _continued(problem: Problem, solve: Solve, share: float, cells: IntArray, solution: Solution) -> list[_Round]:
    """Return a round and those that recode what it suppressed; raise if it found nothing."""
    first = _Round(cells, solution.plan())
    return [first, *_rounds(problem, solve, share, first.left())]


def _rounds(problem: Problem, solve: Solve, share: float, cells: IntArray) -> list[_Round]:
    rounds = []
    while len(cells):
        part = _restricted(problem, cells)
        n_records = part.cells.n_records
        budget = min(int(share * n_records), n_records - problem.smallest_class)
        solution = solve(part, budget) if budget >= 0 else None
        if solution is None or not solution.found:
            break
        rounds.append(_Round(cells, solution.plan()))
        cells = rounds[-1].left()
    return rounds


def _n_left(problem: Problem, rounds: list[_Round]) -> int:
    return int(problem.cells.counts[rounds[-1].left()].sum())


def _restricted(problem: Problem, cells: IntArray) -> Problem:
    """Return the problem of some cells only."""
    requirements = tuple(
        replace(requirement, values=None if requirement.values is None else requirement.values[cells])
        for requirement in problem.requirements
    )
    kept = Cells(tuple(column[cells] for column in problem.cells.codes), problem.cells.counts[cells])
    return replace(problem, cells=kept, requirements=requirements)


def _joined(problem: Problem, rounds: list[_Round]) -> Plan:
    lo = np.concatenate([one.plan.lo for one in rounds])
    hi = np.concatenate([one.plan.hi for one in rounds])
    class_of = np.full(problem.cells.n_cells, WITHHELD, dtype=np.int32)
    first = 0
    for one in rounds:
        classes = one.plan.assignment.class_of
        published = classes != WITHHELD
        class_of[one.cells[published]] = classes[published] + first
        first += one.plan.n_classes
    every = np.arange(problem.cells.n_cells)
    plan = Plan.of_pieces(lo, hi, problem.cells.n_cells, every, class_of, problem.cells.counts)
    if len(rounds) == 1:
        only = rounds[0].plan
        return replace(plan, levels=only.levels, search=only.search, warnings=only.warnings)
    told = [{**one.plan.search, "records": int(one.plan.sizes.sum())} for one in rounds]
    warnings = tuple(dict.fromkeys(text for one in rounds for text in one.plan.warnings))
    return replace(plan, search={"rounds": told}, warnings=warnings)

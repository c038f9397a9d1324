"""Full-domain searches: from the problem to its plan, or to the reason why there is none.

With ``recode``, the records that one search suppresses are generalized again, with other levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Step
from shoal.methods.base import failing_as_one_class, find_blocking, name_together
from shoal.methods.incognito.groups import Groupings, Levels
from shoal.methods.incognito.judge import Judge
from shoal.methods.incognito.measures import MEASURES
from shoal.methods.incognito.search import Search
from shoal.models.base import round_up
from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem, Requirement
from shoal.utility.information import NormalizedCertaintyPenalty


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A search and its problem."""

    problem: Problem
    search: Search

    @classmethod
    def of(cls, problem: Problem, measure: str, budget: int, seconds: float, step: Step, defers: bool) -> Solution:
        """Search the lattice of a problem with at most *budget* records suppressed, or deferred at no cost."""
        judge = make_judge(problem, measure, budget)
        judge.measure.defers = defers
        return cls(problem, Search.of(judge, seconds, step))

    @property
    def found(self) -> bool:
        return self.search.best is not None

    def plan(self) -> Plan:
        """Return the best node's classes with the search's figures, or raise UnreachableError with the reason."""
        best, figures = self.search.best, self.search.as_dict()
        if best is None or best.suppressed is None:
            raise UnreachableError(self._why_none())
        plan = _plan_node(self.problem, self.search.judge.groupings, best.levels, best.suppressed, figures)
        if self.search.complete:
            return plan
        return plan.warn(
            f"the search of {figures['lattice']} combinations of levels ended at its time budget of "
            f"{self.search.seconds:.3g} s with {figures['checked']} checked: {figures['measure']} is "
            f"{figures['optimum']:.6g}, and no combination is better than {figures['bound']:.6g} "
            f"(gap {figures['gap']:.3g}); a larger time_budget may find a better one"
        )

    def _why_none(self) -> str:
        search = self.search
        if not search.complete:
            return (
                f"no combination of levels that satisfies every requirement was found in {search.seconds:.3g} s "
                f"({search.n_checked} of {search.n_nodes} checked); allow a larger time_budget"
            )
        for _, _, reason in failing_as_one_class(self.problem):  # even withholding cannot satisfy it
            return reason
        return self._relative_model_that_blocks() or (
            f"none of the {search.n_nodes} combinations of levels satisfies all requirements "
            f"with at most {search.judge.budget:,} of the records withheld; weaken a requirement, or withhold more"
        )

    def _relative_model_that_blocks(self) -> str:
        """If a model that compares with the whole table fails, explain what tables of several classes reach.

        Only the most general tables are examined, in which one attribute has a lower level, without suppression.
        """
        top = self.search.judge.groupings.ladders.top
        nodes = [(*top[:j], level, *top[j + 1 :]) for j, height in enumerate(top) for level in range(height)]
        blocking = find_blocking(map(self._failing, nodes))
        if blocking is None:
            return ""
        number, reached = blocking
        offer = "in all of these a class lacks a value of the table, which no weaker parameter allows"
        if reached < np.inf:
            offer = f"the best of these reaches {round_up(reached, 4)}, so ask for at least that"
        subject = name_together([r for r in self.problem.requirements if r.number == number])
        return (
            f"{subject} is met only by one class in which every quasi attribute is fully generalized, "
            f"not by tables where one attribute keeps more; {offer}"
        )

    def _failing(self, levels: Levels) -> list[tuple[Requirement, float]]:
        """Return the requirements that a node of several classes fails, with the parameters that it reaches."""
        judge = self.search.judge
        grouping = judge.groupings.at(levels)
        failing = judge.find_failing(grouping) if np.count_nonzero(grouping.sizes) > 1 else []
        reached = []
        for requirement, whole, _ in failing:
            blocks = judge.groupings.blocks(grouping, requirement, grouping.sizes > 0)
            reached.append((requirement, max(requirement.model.worst(classes, whole) for _, classes in blocks)))
        return reached


def _plan_node(
    problem: Problem, groupings: Groupings, levels: Levels, suppressed: BoolArray, figures: Mapping[str, Any]
) -> Plan:
    """Return the classes of a node without the suppressed ones."""
    grouping = groupings.at(levels)
    published = (grouping.sizes > 0) & ~suppressed
    number = np.where(published, np.cumsum(published) - 1, WITHHELD).astype(np.int32)
    lo, hi = groupings.ladders.ranges(grouping.keys[published], levels)
    people = {name: groupings.people(grouping, name)[published] for name in groupings.populations}
    class_of = number[groupings.group_of_cells(grouping)]
    named = dict(zip((attribute.name for attribute in problem.quasi), levels, strict=True))
    plan = Plan.of_cells(lo, hi, class_of, problem.cells.counts, people)
    return replace(plan, levels=named, search={**figures, "levels": named})


def plan_levels(problem: Problem, measure: str, levels: Levels) -> Plan:
    """Return the classes of levels chosen by hand, or raise if they violate a requirement."""
    judge = make_judge(problem, measure, problem.max_withheld)
    verdict = judge.check(levels)
    if verdict.suppressed is None:
        failing = judge.find_failing(judge.groupings.at(levels))
        names = ", ".join(dict.fromkeys(requirement.model.subject for requirement, _, _ in failing))
        raise UnreachableError(
            f"the levels of the policy do not satisfy {names or 'every requirement'} with at most "
            f"{problem.max_withheld:,} of the records withheld; choose higher levels, withhold more, "
            "or leave out levels to search for the best ones"
        )
    figures = {"measure": measure, "chosen": judge.measure.value(verdict.cost)}
    return _plan_node(problem, judge.groupings, levels, verdict.suppressed, figures)


def make_judge(problem: Problem, measure: str, budget: int) -> Judge:
    groupings = Groupings(problem)
    return Judge(problem, groupings, MEASURES[measure](groupings.ladders, len(problem.sensitive)), budget)


Solve = Callable[[Problem, int, bool], Solution]  # the bool is *defers* of Solution.of
Round = tuple[IntArray, Plan]  # the cells that were left, and the plan of one search for them


def recode(problem: Problem, solve: Solve, share: float) -> Plan:
    """Return the classes of all rounds; classes of different rounds that publish the same ranges are merged.

    Every round chooses the most specific levels at which at most the given share of its records is left to the next
    round. If too many records are left in the end, the last round, or an earlier one, is repeated with only the
    suppression that the policy allows. A search without rounds, with its suppressed records recoded, replaces the
    result if its normalized certainty penalty is lower.
    """
    cells = np.flatnonzero(problem.cells.counts > 0)
    first = cells, solve(_restrict(problem, cells), problem.max_withheld, False).plan()
    plans = [_join_rounds(problem, [first, *_rounds(problem, solve, share, _find_left(first))])]
    rounds = _rounds(problem, solve, share, cells)
    while rounds and int(problem.cells.counts[_find_left(rounds[-1])].sum()) > problem.max_withheld:
        again, _ = rounds.pop()
        solution = solve(_restrict(problem, again), problem.max_withheld, False) if rounds else None
        if solution is not None and solution.found:
            rounds.append((again, solution.plan()))
            rounds += _rounds(problem, solve, share, _find_left(rounds[-1]))
    if rounds:
        plans.append(_join_rounds(problem, rounds))
    return min(plans, key=lambda plan: NormalizedCertaintyPenalty().of(problem, plan))


def _rounds(problem: Problem, solve: Solve, share: float, cells: IntArray) -> list[Round]:
    rounds: list[Round] = []
    while len(cells):
        part = _restrict(problem, cells)
        n_records = part.cells.n_records
        budget = min(int(share * n_records), n_records - problem.smallest_class)
        solution = solve(part, budget, True) if budget >= 0 else None
        if solution is None or not solution.found:
            break
        rounds.append((cells, solution.plan()))
        cells = _find_left(rounds[-1])
    return rounds


def _find_left(last: Round) -> IntArray:
    cells, plan = last
    return np.asarray(cells[plan.assignment.class_of == WITHHELD], dtype=np.int64)


def _restrict(problem: Problem, cells: IntArray) -> Problem:
    """Return the problem restricted to some cells."""
    requirements = tuple(
        replace(requirement, values=None if requirement.values is None else requirement.values[cells])
        for requirement in problem.requirements
    )
    kept = Cells(tuple(column[cells] for column in problem.cells.codes), problem.cells.counts[cells])
    return replace(problem, cells=kept, requirements=requirements)


def _join_rounds(problem: Problem, rounds: list[Round]) -> Plan:
    plans = [plan for _, plan in rounds]
    class_of = np.full(problem.cells.n_cells, WITHHELD, dtype=np.int32)
    first = 0
    for cells, plan in rounds:
        published = plan.assignment.class_of != WITHHELD
        class_of[cells[published]] = plan.assignment.class_of[published] + first
        first += plan.n_classes
    lo, hi = np.concatenate([plan.lo for plan in plans]), np.concatenate([plan.hi for plan in plans])
    every = np.arange(problem.cells.n_cells)
    joined = Plan.of_pieces(lo, hi, problem.cells.n_cells, every, class_of, problem.cells.counts)
    if len(plans) == 1:
        return replace(joined, levels=plans[0].levels, search=plans[0].search, warnings=plans[0].warnings)
    figures = [{**plan.search, "records": int(plan.sizes.sum())} for plan in plans]
    return replace(joined, search={"rounds": figures}).warn(
        *dict.fromkeys(text for plan in plans for text in plan.warnings)
    )

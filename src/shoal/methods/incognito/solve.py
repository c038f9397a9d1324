"""One full-domain search from the problem to its plan, or to the reason why there is none.

With local recoding, what one search suppresses is generalized again, by levels of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Step
from shoal.methods.incognito.groups import Groupings, Levels
from shoal.methods.incognito.judge import Judge
from shoal.methods.incognito.measures import MEASURES
from shoal.methods.incognito.search import Outcome, search
from shoal.methods.reachability import failing_as_one_class
from shoal.models.base import Whole, round_up
from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem, Requirement
from shoal.utility.information import NormalizedCertaintyPenalty


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The outcome of a search together with what it searched."""

    problem: Problem
    judge: Judge
    outcome: Outcome
    seconds: float

    @property
    def found(self) -> bool:
        """Whether some node holds."""
        return self.outcome.best is not None

    def plan(self) -> Plan:
        """Return the best node's classes, with the search's figures, or raise what stands in the way."""
        best = self.outcome.best
        if best is None or best.suppressed is None:
            raise UnreachableError(self._why_none())
        groupings = self.judge.groupings
        grouping = groupings.at(best.levels)
        published = (grouping.sizes > 0) & ~best.suppressed
        number = np.where(published, np.cumsum(published) - 1, WITHHELD).astype(np.int32)
        lo, hi = groupings.ladders.ranges(grouping.keys[published], best.levels)
        people = {name: groupings.people(grouping, name)[published] for name in groupings.population_names}
        class_of = number[groupings.group_of_cells(grouping)]
        plan = Plan.of_cells(lo, hi, class_of, self.problem.cells.counts, people)
        levels = dict(zip((attribute.name for attribute in self.problem.quasi), best.levels, strict=True))
        told = self.outcome.as_dict(self.judge)
        return replace(plan, levels=levels, search={**told, "levels": levels}, warnings=self._warnings())

    def _warnings(self) -> tuple[str, ...]:
        if self.outcome.complete:
            return ()
        told = self.outcome.as_dict(self.judge)
        sentence = (
            f"the search of {told['lattice']} combinations of levels ended at its time budget of {self.seconds:.3g} s "
            f"with {told['checked']} checked: {told['measure']} is {told['optimum']:.6g}, and no combination is better "
            f"than {told['bound']:.6g} (gap {told['gap']:.3g}); a larger time_budget may find a better one"
        )
        return (sentence,)

    def _why_none(self) -> str:
        """Say what stands in the way if no node holds."""
        if not self.outcome.complete:
            return (
                f"no combination of levels that keeps every requirement was found in {self.seconds:.3g} s "
                f"({self.outcome.n_checked} of {self.outcome.n_nodes} checked); allow a larger time_budget"
            )
        for _, _, reason in failing_as_one_class(self.problem):  # withholding was thought to help, and does not
            return reason
        return self._relative_model_that_blocks() or (
            f"none of the {self.outcome.n_nodes} combinations of levels keeps every requirement at once "
            f"with at most {self.judge.budget} records withheld; weaken one of them, or withhold more"
        )

    def _relative_model_that_blocks(self) -> str:
        """Say what tables of several classes would reach of a model that compares with the whole, if only that fails.

        These are the most general ones, where one attribute keeps a level; nothing is suppressed in them.
        """
        top = self.judge.groupings.ladders.top
        nodes = [(*top[:j], level, *top[j + 1 :]) for j, height in enumerate(top) for level in range(height)]
        offers: dict[int, float] = {}  # by the number of the policy's model
        for levels in nodes:
            failing = self._failing(levels)
            numbers = {requirement.number for requirement, _ in failing}
            if len(numbers) == 1 and all(requirement.model.relative_to_whole for requirement, _ in failing):
                reached = max(self._measure(levels, requirement, whole) for requirement, whole in failing)
                offers[min(numbers)] = min(reached, offers.get(min(numbers), np.inf))
        if not offers:
            return ""
        number = min(offers, key=lambda place: (offers[place], place))
        models = [requirement.model for requirement in self.problem.requirements if requirement.number == number]
        offer = "in all of these a class lacks a value of the table, which no weaker parameter allows"
        if offers[number] < np.inf:
            offer = f"the best of these reaches {round_up(offers[number], 4)}, so ask for at least that"
        subject = models[0].subject if len(models) == 1 else models[0].name
        return (
            f"{subject} is met only by one class in which every quasi attribute is fully generalized, "
            f"not by tables where one attribute keeps more; {offer}"
        )

    def _failing(self, levels: Levels) -> list[tuple[Requirement, Whole]]:
        """Return the requirements that a node of several classes fails; none if it has but one class."""
        grouping = self.judge.groupings.at(levels)
        if np.count_nonzero(grouping.sizes) < 2:
            return []
        together = zip(self.judge.requirements, self.judge.wholes, strict=True)
        return [(asked, whole) for asked, whole in together if not self.judge.all_keep(grouping, asked, whole)]

    def _measure(self, levels: Levels, requirement: Requirement, whole: Whole) -> float:
        grouping = self.judge.groupings.at(levels)
        blocks = self.judge.groupings.blocks(grouping, requirement, grouping.sizes > 0)
        return max(requirement.model.worst(histograms, whole) for _, histograms in blocks)


def solve(problem: Problem, measure: str, budget: int, seconds: float, step: Step) -> Solution:
    """Search the lattice of a problem with at most *budget* records suppressed."""
    groupings = Groupings(problem)
    judge = Judge(problem, groupings, MEASURES[measure](groupings.ladders, len(problem.sensitive)), budget)
    return Solution(problem, judge, search(judge, seconds, step), seconds)


Solve = Callable[[Problem, int], Solution]


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One search over the cells that were left, and the plan it made."""

    cells: IntArray  # which cells of the problem
    plan: Plan

    def find_left(self) -> IntArray:
        """Return the cells that this round suppressed."""
        return np.asarray(self.cells[self.plan.assignment.class_of == WITHHELD], dtype=np.int64)


def recode(problem: Problem, solve: Solve, share: float) -> Plan:
    """Return the classes of all rounds; classes of different rounds that publish the same ranges become one.

    Every round may leave the given share of its records to the next. If too many are left in the end, the last
    round is done again with no more suppression than the policy allows, or the one before it, and so on. Beside that
    stands the search without recoding, whose suppressed records are recoded: of both, the plan with the lower
    normalized certainty penalty is taken, so that recoding never gives a wider table.
    """
    cells = np.flatnonzero(problem.cells.counts > 0)
    plain = solve(_restrict(problem, cells), problem.max_withheld)
    plans = [_join_rounds(problem, _continue_rounds(problem, solve, share, cells, plain))]
    rounds = _rounds(problem, solve, share, cells)
    while rounds and _n_left(problem, rounds) > problem.max_withheld:
        again = rounds.pop().cells
        solution = solve(_restrict(problem, again), problem.max_withheld) if rounds else None
        if solution is not None and solution.found:
            rounds += _continue_rounds(problem, solve, share, again, solution)
    if rounds:
        plans.append(_join_rounds(problem, rounds))
    return min(plans, key=lambda plan: NormalizedCertaintyPenalty().of(problem, plan))


def _continue_rounds(problem: Problem, solve: Solve, share: float, cells: IntArray, solution: Solution) -> list[_Round]:
    """Return a round and those that recode what it suppressed; raise if it found nothing."""
    first = _Round(cells, solution.plan())
    return [first, *_rounds(problem, solve, share, first.find_left())]


def _rounds(problem: Problem, solve: Solve, share: float, cells: IntArray) -> list[_Round]:
    rounds = []
    while len(cells):
        part = _restrict(problem, cells)
        n_records = part.cells.n_records
        budget = min(int(share * n_records), n_records - problem.smallest_class)
        solution = solve(part, budget) if budget >= 0 else None
        if solution is None or not solution.found:
            break
        rounds.append(_Round(cells, solution.plan()))
        cells = rounds[-1].find_left()
    return rounds


def _n_left(problem: Problem, rounds: list[_Round]) -> int:
    return int(problem.cells.counts[rounds[-1].find_left()].sum())


def _restrict(problem: Problem, cells: IntArray) -> Problem:
    """Return the problem of some cells only."""
    requirements = tuple(
        replace(requirement, values=None if requirement.values is None else requirement.values[cells])
        for requirement in problem.requirements
    )
    kept = Cells(tuple(column[cells] for column in problem.cells.codes), problem.cells.counts[cells])
    return replace(problem, cells=kept, requirements=requirements)


def _join_rounds(problem: Problem, rounds: list[_Round]) -> Plan:
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

"""One full-domain search from the problem to its plan, or to the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal.core.errors import UnreachableError
from shoal.core.progress import Step
from shoal.methods.hopeless import failing_as_one_class
from shoal.methods.incognito.groups import Groupings
from shoal.methods.incognito.judge import Judge
from shoal.methods.incognito.levels import Levels
from shoal.methods.incognito.measures import MEASURES
from shoal.methods.incognito.search import Outcome, search
from shoal.models.base import Whole, rounded_up
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem, Requirement


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
                reached = max(self._reached(levels, requirement, whole) for requirement, whole in failing)
                offers[min(numbers)] = min(reached, offers.get(min(numbers), np.inf))
        if not offers:
            return ""
        number = min(offers, key=lambda place: (offers[place], place))
        models = [requirement.model for requirement in self.problem.requirements if requirement.number == number]
        offer = "in all of these a class lacks a value of the table, which no weaker parameter allows"
        if offers[number] < np.inf:
            offer = f"the best of these reaches {rounded_up(offers[number], 4)}, so ask for at least that"
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
        return [(asked, whole) for asked, whole in together if not self.judge.kept_by_all(grouping, asked, whole)]

    def _reached(self, levels: Levels, requirement: Requirement, whole: Whole) -> float:
        grouping = self.judge.groupings.at(levels)
        blocks = self.judge.groupings.blocks(grouping, requirement, grouping.sizes > 0)
        return max(requirement.model.worst(histograms, whole) for _, histograms in blocks)


def solve(problem: Problem, measure: str, budget: int, seconds: float, step: Step) -> Solution:
    """Search the lattice of a problem with at most *budget* records suppressed."""
    groupings = Groupings(problem)
    judge = Judge(problem, groupings, MEASURES[measure](groupings.ladders, len(problem.sensitive)), budget)
    return Solution(problem, judge, search(judge, seconds, step), seconds)

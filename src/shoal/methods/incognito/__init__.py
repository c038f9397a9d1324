"""Incognito: one level of generalization per attribute, optimal over the whole lattice of levels."""

from __future__ import annotations

import time
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.core.errors import PolicyError, did_you_mean
from shoal.core.progress import Progress
from shoal.methods.base import Method, refuse_unreachable
from shoal.models.base import TableModel
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Incognito(Method):
    """Every value of an attribute is generalized to the same level, and the levels are optimal.

    Full-domain generalization after LeFevre, DeWitt and Ramakrishnan, "Incognito: efficient full-domain
    k-anonymity" (SIGMOD 2005), with record suppression, roll-up and measures as in ARX. The search
    reports the number of nodes, how many were checked, and the bound that proves the optimum.
    """

    name: ClassVar[str] = "incognito"
    title: ClassVar[str] = "generalizes every attribute to one level, the best of all combinations"
    divides = "some"
    counts_people = True
    sees_all_classes = True

    measure: Literal["um", "loss", "ncp", "non-uniform-entropy", "discernibility", "class-size"] = Field(
        default="loss", description="the measure that the best levels minimize; weights apply to um, loss and ncp"
    )
    time_budget: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="seconds after which the best levels found so far are used"
    )
    recode: bool = Field(
        default=False,
        description="publish records in rounds, the first at the most specific levels and others at more general ones",
    )
    round_suppression: float = Field(
        default=0.9, gt=0, le=1, description="with recode: the share of its records that a round may leave to the next"
    )
    levels: dict[str, Annotated[int, Field(ge=0, strict=True)]] = Field(
        default={},
        description="levels chosen by hand; 0, the default for omitted attributes, keeps the original values; "
        "by default the best levels are searched",
    )

    @model_validator(mode="after")
    def _choose_or_recode(self) -> Self:
        if self.levels and self.recode:
            raise ValueError("levels chosen by hand apply to all records; leave out recode or levels")
        return self

    def refuses(self, problem: Problem) -> str | None:
        """Refuse unknown names and levels, and models that the overlapping labels of rounds would violate."""
        self.find_levels(problem)
        for requirement in problem.requirements if self.recode else ():
            model = requirement.model
            of_all = isinstance(model, TableModel) or requirement.population is not None
            if model.relative_to_whole or of_all or not requirement.merge_monotone:
                return (
                    f"recode cannot serve {model.subject}, which depends on more than a class's records; leave it out"
                )
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        from shoal.methods.incognito.solve import Solution, plan_levels, recode

        if all(requirement.merge_monotone for requirement in problem.requirements):
            refuse_unreachable(problem, problem.max_withheld)
        chosen = self.find_levels(problem)
        if chosen is not None:
            return plan_levels(problem, self.measure, chosen)
        end = time.monotonic() + self.time_budget
        with progress.step("searching", unit="nodes") as step:

            def solve_part(part: Problem, budget: int, defers: bool) -> Solution:
                return Solution.of(part, self.measure, budget, max(end - time.monotonic(), 0.0), step, defers)

            if self.recode:
                return recode(problem, solve_part, self.round_suppression)
            return solve_part(problem, problem.max_withheld, False).plan()

    def find_levels(self, problem: Problem) -> tuple[int, ...] | None:
        """Return the level of each quasi attribute if levels are chosen by hand, or None."""
        heights = {attribute.name: attribute.taxonomy.height for attribute in problem.quasi}
        for name, level in self.levels.items():
            if name not in heights:
                found = f"{name!r} is not a quasi attribute of the policy{did_you_mean(name, heights)}"
                raise PolicyError(f"method {self.name}: levels: {found}")
            if level > heights[name]:
                found = f"the taxonomy of {name!r} has the levels 0 to {heights[name]}, not {level}"
                raise PolicyError(f"method {self.name}: levels: {found}")
        return tuple(self.levels.get(name, 0) for name in heights) if self.levels else None

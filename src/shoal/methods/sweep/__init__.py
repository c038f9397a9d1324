"""Sequential Sweep: (tau,l)-diversity by moving records to more general classes, one class at a time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.progress import Progress
from shoal.methods.base import Method
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class SequentialSweep(Method):
    """Every class meets every requirement, on frequencies induced from what is published of sensitive values.

    Tian and Zhang, "Extending l-diversity for better data anonymization", Figure 4. Records that a class cannot keep
    go on to the next more general one; sensitive values are generalized where nothing else helps.
    """

    name: ClassVar[str] = "sweep"
    title: ClassVar[str] = "moves records to more general classes one by one, and generalizes sensitive values too"
    takes_regions = "nodes"
    generalizes_values = True

    improve: bool = Field(
        default=True,
        description="after the sweep, pull records of general classes back into special ones, and exchange records "
        "between classes, while all promises hold",
    )

    defend: bool = Field(
        default=True,
        description="generalize records of other sensitive values too, so that no label of a class tells more of its "
        "records than tau, or than is known of all records of the table; false is the paper's algorithm",
    )

    @property
    def defends_labels(self) -> bool:
        """Whether labels of sensitive values tell no more than the base rate."""
        return self.defend

    def refuses(self, problem: Problem) -> str | None:
        """Models that ask for a least share of a population are refused: somebody may be under several labels."""
        if any(not requirement.model.merge_monotone for requirement in problem.requirements):
            return "its labels overlap, so a share of the population has no lower bound; use mondrian, or a min of 0"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the classes of the sweep as a plan."""
        from shoal.methods.sweep.planning import plan_sweep

        return plan_sweep(problem, self.improve, self.defend, rng, progress)

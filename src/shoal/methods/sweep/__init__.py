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
    """Every class satisfies every requirement, by frequencies induced from the published sensitive values.

    Tian and Zhang, "Extending l-diversity for better data anonymization", Figure 4. Records that break a class move to
    the next more general one, and sensitive values are generalized if nothing else helps. With ``defend``, records do
    not move one by one (docs/adr/0010-sweep.md).
    """

    name: ClassVar[str] = "sweep"
    title: ClassVar[str] = "moves records to more general classes one by one, and generalizes sensitive values too"
    takes_regions = "nodes"
    generalizes_values = True
    divides = "each"

    improve: bool = Field(
        default=True,
        description="with defend, sweep small tables in several ways and keep the most informative result; without it, "
        "move records of general classes back into special ones while all guarantees hold",
    )

    defend: bool = Field(
        default=True,
        description="close a label with all free records under it or not at all, and judge classes by the true values "
        "of their records; false is the paper's algorithm",
    )

    @property
    def defends_labels(self) -> bool:
        """Whether classes satisfy the models by their true values, hidden ones included."""
        return self.defend

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models that need a minimum share of a population, because a person may be under several labels."""
        for attribute in problem.quasi:
            unknown = set(attribute.value_weights or ()) - set(attribute.taxonomy.labels)
            if unknown:
                some = ", ".join(sorted(unknown)[:5])
                return f"value_weights of {attribute.name!r} has labels that are not in its taxonomy ({some})"
        if any(not requirement.model.merge_monotone for requirement in problem.requirements):
            return "its labels overlap, so a share of the population has no lower bound; use mondrian, or a min of 0"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the classes of the sweep as a plan."""
        from shoal.methods.sweep.planning import plan_sweep

        return plan_sweep(problem, self.improve, self.defend, rng, progress)

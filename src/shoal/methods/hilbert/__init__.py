"""Hilbert: sort the records along a curve through their quasi values, and group neighbours."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from shoal.core.progress import Progress
from shoal.methods.base import Labels, Method
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Hilbert(Method):
    """Every class is a group of neighbours on a Hilbert curve through the quasi values and satisfies every requirement.

    Ghinita, Karras, Kalnis and Mamoulis, "Fast data anonymization with low information loss" (VLDB 2007). If only sizes
    matter, the curve is cut to minimize the total width of the labels. With models of sensitive values, each group
    takes the first records on the curve with l different values; l is the smallest number from 2 upwards with which all
    requirements hold.
    """

    name: ClassVar[str] = "hilbert"
    title: ClassVar[str] = "orders people along a curve through their quasi values and groups neighbours"
    takes_regions = "nodes"

    labels: Labels = "levels"
    l: int | None = Field(
        default=None,
        ge=1,
        description="use groups of this many sensitive values; without it, the smallest number that suffices",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models of a population: labels overlap, and people under a label may be in another class."""
        if any(requirement.population is not None for requirement in problem.requirements):
            return "its labels overlap, so it cannot serve a model that counts a population; use mondrian"
        if self.l is not None and not problem.sensitive:
            return "l is given, but the policy has no sensitive attribute; leave l out"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the groups as a plan."""
        from shoal.methods.hilbert.line import plan_groups

        return plan_groups(problem, self.labels == "ranges", self.l, rng, progress)

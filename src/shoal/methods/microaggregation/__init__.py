"""Microaggregation: each record is published with the averages of a group of similar records."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.core.errors import did_you_mean
from shoal.core.progress import Progress
from shoal.methods.base import Method
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Microaggregation(Method):
    """Every class consists of groups of near records, publishes one centre, and satisfies every requirement.

    MDAV of Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation"
    (DMKD 11(2), 2005), with k the smallest size that the models allow. If models of sensitive values require more, a
    group is joined with its nearest until it satisfies them, as in Soria-Comas, Domingo-Ferrer, Sanchez and Martinez,
    "t-closeness through microaggregation" (TKDE 27(11), 2015, Algorithm 1). Records with equal quasi values are
    assigned to groups at random, so groups disclose nothing about sensitive values. A single number is grouped
    optimally (Hansen and Mukherjee, TKDE 15(4), 2003).
    """

    name: ClassVar[str] = "microaggregation"
    title: ClassVar[str] = "publishes each record with the averages of a group of similar people"
    form: ClassVar[str] = "averages"
    averages: ClassVar[bool] = True

    numbers: Literal["mean", "median"] = Field(
        default="mean",
        description="the published centre of numbers and dates: their mean, which preserves the column's total, or "
        "their median; the centre of categories is the most frequent one",
    )
    decimals: int = Field(default=1, ge=0, le=9, description="decimals of published numbers; 0 gives whole numbers")
    strata: tuple[str, ...] = Field(
        default=(),
        description="quasi attributes in which all records of a group agree; these keep their values",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse populations, which averages do not cover, and groups of a single record."""
        if any(requirement.population is not None for requirement in problem.requirements):
            return "averages do not cover people in a population, so models that count one cannot hold; use mondrian"
        if problem.smallest_class < 2:
            return "the models allow groups of one record, which would publish its values unchanged; add k-anonymity"
        quasi = [attribute.name for attribute in problem.quasi]
        for name in self.strata:
            if name not in quasi:
                return f"strata names {name!r}, which is not a quasi attribute{did_you_mean(name, quasi)}"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the groups as a plan; classes with equal published centres are merged."""
        from shoal.methods.microaggregation.planning import plan_groups

        return plan_groups(problem, self, rng, progress)

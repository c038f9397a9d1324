"""Mondrian: cut the table in two, again and again, as long as both halves keep every promise."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.methods.base import Method
from shoal.plan import Plan
from shoal.problem import Problem
from shoal.progress import Progress


class Mondrian(Method):
    """Every class is a box of quasi values that meets every requirement and cannot be cut further.

    LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006); the cut is not only the
    median of the widest attribute: in small boxes all cuts of all attributes are tried, and the one taken is
    that which leaves the least total width.
    """

    name: ClassVar[str] = "mondrian"
    title: ClassVar[str] = "cuts the table into small boxes of similar people"
    takes_regions = "boxes"
    counts_people = True

    cuts: Literal["strict", "relaxed"] = Field(
        default="strict",
        description="strict: equal quasi values stay together; relaxed: records at the median go to both sides",
    )
    search_below: int = Field(
        default=300,
        ge=0,
        description="boxes of at most this many cells try every cut; larger ones the most even, widest attribute first",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Relaxed boxes overlap, so that the population under a label is not that of the box."""
        if self.cuts == "relaxed" and any(r.population is not None for r in problem.requirements):
            return "relaxed cuts cannot serve a model that counts a population; use strict cuts"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the boxes as a plan."""
        from shoal.methods.mondrian.tree import MondrianTree

        with (
            progress.step("cutting", problem.cells.n_records, unit="records") as step,
            MondrianTree(problem, self.cuts == "relaxed", self.search_below, rng) as tree,
        ):
            tree.grow(step)
            tree.explain_if_whole()
            if problem.max_withheld and _may_withhold(problem):
                tree.shed(problem.max_withheld, step)
            return tree.plan()


def _may_withhold(problem: Problem) -> bool:
    """Withholding changes the table that some models compare with, and leaves people of a population uncovered."""
    models = [requirement.model for requirement in problem.requirements]
    return all(model.merge_monotone and not model.relative_to_whole for model in models)

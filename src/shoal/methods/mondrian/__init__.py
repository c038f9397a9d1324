"""Mondrian: cut the table into boxes, again and again, as long as every box keeps every promise."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.core.progress import Progress
from shoal.methods.base import Labels, Method
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Mondrian(Method):
    """Every class is a box of quasi values that meets every requirement and cannot be cut further.

    LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006). Here a box is cut into the
    children of its label's node: those that hold become boxes, the others stay together under that label.
    """

    name: ClassVar[str] = "mondrian"
    title: ClassVar[str] = "cuts the table into small boxes of similar people"
    divides = "some"
    takes_regions = "nodes"
    counts_people = True

    labels: Labels = "levels"
    measure: Literal["ncp", "non-uniform-entropy"] | None = Field(
        default=None,
        repr=False,  # the policy's document has it; a longer text would change what every seed draws
        description="what cuts save: ncp, the width of labels, if it is not given; non-uniform-entropy, bits that "
        "labels leave open, which keeps more of the marginals of a table with many quasi-identifiers",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Ranges do not tile the domain, so that the population under a label is not that of the box."""
        if self.labels == "ranges" and self.measure == "non-uniform-entropy":
            return "non-uniform-entropy is that of a taxonomy's values; use labels: levels, or measure: ncp"
        if self.labels == "ranges" and any(r.population is not None for r in problem.requirements):
            return "labels: ranges cannot serve a model that counts a population; use labels: levels"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        """Return the boxes as a plan."""
        from shoal.methods.mondrian.tree import MondrianTree

        with (
            progress.step("cutting", problem.cells.n_records, unit="records") as step,
            MondrianTree(
                problem, ranges=self.labels == "ranges", by_entropy=self.measure == "non-uniform-entropy"
            ) as tree,
        ):
            tree.grow(step)
            tree.explain_if_whole()
            if problem.max_withheld and _may_withhold(problem):
                tree.withhold(problem.max_withheld, step)
            return tree.plan()


def _may_withhold(problem: Problem) -> bool:
    """Withholding changes the table that some models compare with, and leaves people of a population uncovered."""
    models = [requirement.model for requirement in problem.requirements]
    return all(model.merge_monotone and not model.relative_to_whole for model in models)

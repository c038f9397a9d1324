"""Mondrian: cuts the table into boxes repeatedly, as long as every box satisfies every requirement."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.core.progress import Progress
from shoal.methods.base import Labels, Method
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Mondrian(Method):
    """Every class is a box of quasi values that satisfies every requirement and cannot be cut further.

    LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity" (ICDE 2006). Here a box is cut into the
    children of its label's node: children that satisfy the requirements become boxes, and the others form one box
    under the old label.
    """

    name: ClassVar[str] = "mondrian"
    title: ClassVar[str] = "cuts the table into small boxes of similar people"
    divides = "some"
    takes_regions = "nodes"
    counts_people = True

    labels: Labels = "levels"
    measure: Literal["ncp", "non-uniform-entropy"] | None = Field(
        default=None,
        repr=False,  # a longer text would change the draws of every seed
        description="the loss that cuts reduce: ncp (the default), the width of labels; or non-uniform-entropy, the "
        "uncertainty of labels in bits, which preserves more of the marginals if there are many quasi-identifiers",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse ranges for populations: ranges do not tile the domain, so labels and boxes cover different people."""
        if self.labels == "ranges" and self.measure == "non-uniform-entropy":
            return "non-uniform-entropy is defined for values of taxonomies; use labels: levels, or measure: ncp"
        if self.labels == "ranges" and any(r.population is not None for r in problem.requirements):
            return "labels: ranges cannot serve a model that counts a population; use labels: levels"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
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
    """Exclude models that compare with the table, which withholding changes, or that must cover all people."""
    models = [requirement.model for requirement in problem.requirements]
    return all(model.merge_monotone and not model.relative_to_whole for model in models)

"""Plain: rows without generalization, after the techniques on their columns."""

from __future__ import annotations

import numpy as np

from shoal.core.errors import UnreachableError
from shoal.core.kernels import same_rows
from shoal.core.progress import Progress
from shoal.methods.base import Method
from shoal.models.base import PopulationModel, TableModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem

_NOTHING_PROMISED = (
    "this release has no guarantee for people: an adversary with a person's quasi values may find the record; measure "
    "the risk with shoal attack"
)


class Plain(Method):
    """Every value is published as the policy's techniques leave it, and the unchanged table must satisfy the models.

    Records with equal quasi values are a class. The method generalizes no value and withholds no record; it raises if
    the table does not satisfy the models.
    """

    name = "plain"
    title = "publish the rows as the techniques leave them"
    form = "plain"
    models = "optional"
    counts_people = True
    takes_regions = "boxes"

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models of a population."""
        for requirement in problem.requirements:
            if isinstance(requirement.model, PopulationModel):
                return (
                    f"{requirement.model.name} needs classes with labels, which this method does not make; use mondrian"
                )
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        """Return the classes of equal quasi values."""
        with progress.step("comparing", problem.cells.n_records, unit="records") as step:
            n_quasi = len(problem.quasi)
            first, class_of = same_rows(problem.value_codes[:n_quasi])
            lo = np.stack([codes[first].astype(np.int32) for codes in problem.quasi_codes], axis=1)
            plan = Plan.of_cells(lo, lo + 1, class_of, problem.cells.counts)
            for requirement, classes, whole in judge_plan(problem, plan):
                model = requirement.model
                if isinstance(model, TableModel):
                    holds = model.holds_together(plan.sizes)
                else:
                    holds = bool(model.holds(classes, whole).all())
                if not holds:
                    raise UnreachableError(
                        f"{requirement.model.subject}: the unchanged rows do not meet it; use a method that makes "
                        "classes (mondrian, sweep, slicing), or give an empty privacy list, without guarantees"
                    )
            step.advance(problem.cells.n_records)
        return plan if problem.requirements else plan.warn(_NOTHING_PROMISED)

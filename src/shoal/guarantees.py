"""What a plan promises: every model of the policy with what the classes really reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.models.base import ClassHistograms, PrivacyModel
from shoal.plan import Plan
from shoal.policy import Policy
from shoal.problem import Problem, Requirement

_HISTOGRAM_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One model and the strongest main parameter that all classes meet."""

    model: PrivacyModel
    achieved: float

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved}


def achieved(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides."""
    cell, target, records = plan.assignment.pieces(problem.cells.counts)
    published = problem.cells.counts
    if plan.n_withheld:
        published = kernels.summed(np.where(target >= 0, cell, -1).astype(np.int32), records, problem.cells.n_cells)
    first, order = kernels.grouped(target, plan.n_classes)
    cell = cell[order] if len(plan.assignment.split_cells) else order
    records = records[order]
    reached: dict[int, float] = {}
    for requirement in problem.requirements:
        whole = requirement.whole(published)
        values = None if requirement.values is None else requirement.values[cell]
        best = min if requirement.model.achieved_is == "at least" else max
        for classes in _blocks(requirement, plan, first, values, records):
            worst = requirement.model.worst(classes, whole)
            reached[requirement.number] = best(reached.get(requirement.number, worst), worst)
    return tuple(Guarantee(model, reached[i]) for i, model in enumerate(policy.privacy))


def _blocks(
    requirement: Requirement, plan: Plan, first: IntArray, values: CodeArray | None, records: IntArray
) -> Iterator[ClassHistograms]:
    """Yield histograms of some classes at a time, so that memory stays bounded however many there are."""
    step = max(_HISTOGRAM_ENTRIES // max(requirement.n_values, 1), 1)
    population = plan.population_of(requirement)
    for start in range(0, plan.n_classes, step):
        edges = first[start : start + step + 1]
        sizes = np.add.reduceat(records[: edges[-1]], edges[:-1])
        counts = None
        if values is not None:
            counts = np.zeros((len(sizes), requirement.n_values), dtype=np.int64)
            kernels.tally_classes(edges, values, records, counts)
        people = None if population is None else population[start : start + step]
        yield ClassHistograms(sizes, counts, people)

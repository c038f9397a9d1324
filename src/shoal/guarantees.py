"""What a plan promises: every model of the policy with what the classes really reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.induced import Induced
from shoal.models.base import ClassHistograms, PrivacyModel, Whole
from shoal.plan import KEPT, Plan
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
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    published = problem.cells.counts
    if plan.n_withheld:
        published = kernels.summed(np.where(class_of >= 0, cell, -1).astype(np.int32), records, problem.cells.n_cells)
    first, order = kernels.grouped(class_of, plan.n_classes)
    cell = cell[order] if len(plan.assignment.split_cells) else order
    records, target = records[order], target[order]
    reached: dict[int, float] = {}
    for requirement in problem.requirements:
        nodes = published_nodes(requirement, plan, cell, target)
        best = min if requirement.model.achieved_is == "at least" else max
        if nodes is None:
            whole = requirement.whole(published)
            values = None if requirement.values is None else requirement.values[cell]
            blocks = _blocks(requirement, plan, first, values, requirement.n_values, records)
        else:
            induced = requirement.induced(problem.cells.counts)
            whole = induced_whole(induced, nodes, records)
            blocks = (
                induced_classes(induced, classes)
                for classes in _blocks(requirement, plan, first, nodes, induced.taxonomy.n_nodes, records)
            )
        for classes in blocks:
            worst = requirement.model.worst(classes, whole)
            reached[requirement.number] = best(reached.get(requirement.number, worst), worst)
    return tuple(Guarantee(model, reached[i]) for i, model in enumerate(policy.privacy))


def published_nodes(requirement: Requirement, plan: Plan, cell: IntArray, target: CodeArray) -> CodeArray | None:
    """Return (n_pieces,) the node that each piece publishes of the requirement's attribute; None if all keep theirs."""
    targets, taxonomy, values = plan.targets, requirement.taxonomy, requirement.values
    if targets is None or taxonomy is None or values is None or requirement.place is None:
        return None
    lo, hi = targets.lo[:, requirement.place], targets.hi[:, requirement.place]
    if (lo == KEPT).all():
        return None
    nodes = np.where(lo == KEPT, KEPT, taxonomy.lowest_nodes(np.maximum(lo, 0), np.maximum(hi, 1)))
    return np.where(nodes[target] == KEPT, values[cell], nodes[target]).astype(np.int32)


def induced_whole(induced: Induced, nodes: CodeArray, records: IntArray) -> Whole:
    """Return the published table as one class, in units."""
    by_node = kernels.summed(nodes, records, induced.taxonomy.n_nodes)
    return Whole(
        size=int(records.sum()) * induced.factor,
        counts=induced.counts(by_node[np.newaxis, :])[0],
        taxonomy=induced.taxonomy,
        unit=induced.factor,
    )


def induced_classes(induced: Induced, by_node: ClassHistograms) -> ClassHistograms:
    """Return histograms over base values in units, given those over nodes."""
    assert by_node.counts is not None  # noqa: S101 - for the type checker
    return ClassHistograms(
        by_node.sizes * induced.factor, induced.counts(by_node.counts), by_node.population, unit=induced.factor
    )


def _blocks(
    requirement: Requirement,
    plan: Plan,
    first: IntArray,
    values: CodeArray | None,
    n_values: int,
    records: IntArray,
) -> Iterator[ClassHistograms]:
    """Yield histograms of some classes at a time, so that memory stays bounded however many there are."""
    step = max(_HISTOGRAM_ENTRIES // max(n_values, 1), 1)
    population = plan.population_of(requirement)
    for start in range(0, plan.n_classes, step):
        edges = first[start : start + step + 1]
        sizes = np.add.reduceat(records[: edges[-1]], edges[:-1])
        counts = None
        if values is not None:
            counts = np.zeros((len(sizes), n_values), dtype=np.int64)
            kernels.tally_classes(edges, values, records, counts)
        people = None if population is None else population[start : start + step]
        yield ClassHistograms(sizes, counts, people)

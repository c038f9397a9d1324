"""Histograms of classes for the models: of the true values, or induced from published labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.models.base import ClassHistograms, Whole
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import InducedFrequency, Problem, Requirement

_HISTOGRAM_ENTRIES = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """One requirement with the whole table, and how labels of its attribute spread over the values.

    Without ``induced``, every record counts as its own value.
    """

    requirement: Requirement
    induced: InducedFrequency | None
    whole: Whole

    @classmethod
    def of(cls, requirement: Requirement, counts: IntArray, *, induced: bool = False) -> Judge:
        """Prepare for a table of *counts* records of each cell; *induced* if some publish generalized values."""
        return cls(requirement, requirement.induce(counts) if induced else None, requirement.whole(counts))

    def holds(
        self, first: IntArray, values: CodeArray | None, records: IntArray, population: IntArray | None = None
    ) -> BoolArray:
        """Return (n_classes,) whether each class satisfies the requirement; arguments as in ``histograms``."""
        blocks = self.histograms(first, values, records, population)
        holding = [self.requirement.model.holds(classes, self.whole) for classes in blocks]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *holding])

    def reach(self, first: IntArray, values: CodeArray | None, records: IntArray) -> FloatArray:
        """Return (n_classes,) the strongest main parameter that each class satisfies."""
        blocks = self.histograms(first, values, records)
        return np.concatenate([np.zeros(0), *(self.requirement.model.reach(some, self.whole) for some in blocks)])

    def histograms(
        self, first: IntArray, values: CodeArray | None, records: IntArray, population: IntArray | None = None
    ) -> Iterator[ClassHistograms]:
        """Yield the histograms of classes in batches, which bounds memory for any number of classes.

        Class c has the items ``first[c]:first[c + 1]``; *values* are their nodes, or their values without ``induced``.
        """
        n_values = self.requirement.n_values if self.induced is None else self.induced.taxonomy.n_nodes
        step = max(_HISTOGRAM_ENTRIES // max(n_values, 1), 1)
        for start in range(0, len(first) - 1, step):
            edges = first[start : start + step + 1]
            sizes = np.add.reduceat(records[: edges[-1]], edges[:-1])
            people = None if population is None else population[start : start + step]
            if values is None:
                yield ClassHistograms(sizes, None, people)
                continue
            counts = np.zeros((len(sizes), n_values), dtype=np.int64)
            kernels.tally_classes(edges, values, records, counts)
            if self.induced is None:
                yield ClassHistograms(sizes, counts, people)
            else:
                unit = self.induced.factor
                yield ClassHistograms(sizes * unit, self.induced.counts(counts), people, unit)


def judge_plan(problem: Problem, plan: Plan) -> Iterator[tuple[Requirement, ClassHistograms, Whole]]:
    """Yield the classes of a plan as published, in batches, for every requirement."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    published = problem.cells.counts
    if plan.n_withheld:
        shown = np.where(class_of >= 0, cell, -1).astype(np.int32)
        published = kernels.sum_groups(shown, records, problem.cells.n_cells)
    first, order = kernels.group_items(class_of, plan.n_classes)
    cell = cell[order] if len(plan.assignment.split_cells) else order  # otherwise the pieces are the cells
    records, target = records[order], target if plan.targets is None else target[order]
    for requirement in problem.requirements:
        if requirement.people is not None:
            whole = requirement.whole(published)
            for classes in people_of_classes(requirement, first, cell):
                yield requirement, classes, whole
            continue
        nodes = find_nodes(requirement, plan, cell, target)
        if nodes is None:
            judge = Judge.of(requirement, published)
            values = None if requirement.values is None else requirement.values[cell]
        else:
            judge, values = Judge.of(requirement, problem.cells.counts, induced=True), nodes
        for classes in judge.histograms(first, values, records, plan.population_of(requirement)):
            yield requirement, classes, judge.whole


def people_of_classes(requirement: Requirement, first: IntArray, cell: IntArray) -> Iterator[ClassHistograms]:
    """Yield the histograms of classes in batches for a requirement that counts people.

    Class c has the items ``first[c]:first[c + 1]``, and item i belongs to ``cell[i]``.
    """
    step = max(_HISTOGRAM_ENTRIES // max(requirement.n_values, 1), 1)
    for start in range(0, len(first) - 1, step):
        edges = first[start : start + step + 1]
        owner = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        yield requirement.histograms_of_people(owner, cell[edges[0] : edges[-1]], len(edges) - 1)


def find_nodes(requirement: Requirement, plan: Plan, cell: IntArray, target: CodeArray) -> CodeArray | None:
    """Return (n_pieces,) the published node of the requirement's attribute, or None if none is generalized."""
    targets, taxonomy, values = plan.targets, requirement.taxonomy, requirement.values
    if targets is None or taxonomy is None or values is None or requirement.place is None:
        return None
    lo, hi = targets.lo[:, requirement.place], targets.hi[:, requirement.place]
    if (lo == KEPT).all():
        return None
    nodes = np.where(lo == KEPT, KEPT, taxonomy.lowest_nodes(np.maximum(lo, 0), np.maximum(hi, 1)))
    return np.where(nodes[target] == KEPT, values[cell], nodes[target]).astype(np.int32)

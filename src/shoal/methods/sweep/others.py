"""Models that the sweep's compiled loops do not know: they judge classes themselves, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.judging import Judge
from shoal.methods.sweep.rules import TreeTables
from shoal.methods.sweep.state import Bound, Parts, grouped_cells
from shoal.plan import same_rows
from shoal.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """The other models of a problem, with the table that they compare classes with."""

    bound: tuple[Bound, ...]
    judges: tuple[Judge, ...]  # (n_others,)

    @classmethod
    def of(cls, problem: Problem, bound: Sequence[Bound]) -> Others:
        """Prepare them for the table."""
        return cls(tuple(bound), tuple(Judge.of(other.requirement, problem.cells.counts) for other in bound))

    def hold(
        self, first: IntArray, members: Parts, records: IntArray, population: Sequence[IntArray]
    ) -> tuple[BoolArray, IntArray]:
        """Return whether classes meet all models, and the rule of the first that each does not meet.

        Class c has the parts ``first[c]:first[c + 1]`` with *records* of each; *population* are the people under the
        labels of all classes, for each model.
        """
        n = len(first) - 1
        holds, rule = np.ones(n, dtype=np.bool_), np.full(n, -1, dtype=np.int64)
        for other, judge, people in zip(self.bound, self.judges, population, strict=True):
            verdicts = [
                other.requirement.model.holds(classes, judge.whole)
                for classes in judge.histograms(first, values_of(other, members), records, people)
            ]
            verdict = np.concatenate([holds[:0], *verdicts])
            rule[holds & ~verdict] = other.rule
            holds &= verdict
        return holds, rule

    def accept(self, members: Parts) -> bool:
        """Whether one class under the root of all taxonomies meets all models."""
        populations = [other.requirement.population for other in self.bound]
        people = [np.array([0 if population is None else population.sum()]) for population in populations]
        holds, _ = self.hold(np.array([0, len(members.cell)]), members, members.records, people)
        return bool(holds[0])

    def population_under(self, trees: TreeTables, levels: CodeArray, nodes: CodeArray) -> list[IntArray]:
        """Return for each model (n_classes,) the people under the labels of one item; 0 where it counts none."""
        return [population_under(trees, other, levels, nodes) for other in self.bound]


def values_of(other: Bound, members: Parts) -> CodeArray | None:
    """Return what a model sees of parts: values, which are never generalized where it looks, or nothing."""
    values = other.requirement.values
    return None if values is None else values[members.cell]


def population_under(trees: TreeTables, other: Bound, levels: CodeArray, nodes: CodeArray) -> IntArray:
    """Return (n_classes,) the people of a model's population under the labels of one item."""
    population = other.requirement.population
    if population is None:
        return np.zeros(len(nodes), dtype=np.int64)
    cells = np.flatnonzero(population)
    group, labels = grouped_cells(trees, levels, cells, population[cells])
    people = kernels.summed(group, population[cells], len(labels))
    _, same = same_rows((*np.concatenate([nodes, labels]).T,))
    total = np.zeros(int(same.max()) + 1, dtype=np.int64)
    total[same[len(nodes) :]] = people
    return total[same[: len(nodes)]]

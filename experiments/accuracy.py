"""How well a decision tree that learned from a release tells the sensitive value of people it never saw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from experiments.classes import sensitive_weights
from experiments.learning.id3 import DecisionTree, Examples, learn
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress, Silent
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem


class Generalizing(Protocol):
    """A method whose classes publish ranges of values, from which a tree can learn."""

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return a generalization, or raise UnreachableError."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """The records of one table dealt into folds, the same for everything that is learned from it.

    A method anonymizes all folds but one, a tree learns from what that publishes, and it is asked about the original
    records of the last fold: these had no part in the release. ``baseline`` is the accuracy, fold by fold, of trees
    that learned from the original records.
    """

    held: tuple[IntArray, ...]  # n_folds x (n_cells,) records of each cell
    points: CodeArray  # (n_points, n_quasi) distinct base values of the quasi attributes
    point: IntArray  # (n_cells,) the point of each cell
    value: IntArray  # (n_cells,) the sensitive value of each cell
    n_values: int
    n_leaves: tuple[int, ...]
    baseline: tuple[float, ...]

    @classmethod
    def of(cls, problem: Problem, n_folds: int, rng: np.random.Generator) -> CrossValidation:
        """Deal the records and learn from the original ones."""
        cells = problem.cells
        fold = rng.permutation(cells.n_records) % n_folds
        cell = np.repeat(np.arange(cells.n_cells), cells.counts)
        held = tuple(np.bincount(cell[fold == number], minlength=cells.n_cells) for number in range(n_folds))
        codes = np.stack([np.asarray(column, dtype=np.int32) for column in problem.quasi_codes], axis=1)
        points, point = np.unique(codes, axis=0, return_inverse=True)
        dealt = cls(
            held=held,
            points=points,
            point=point.reshape(-1),
            value=np.asarray(cells.codes[len(problem.quasi)], dtype=np.int64),
            n_values=problem.sensitive[0].taxonomy.n_leaves,
            n_leaves=tuple(attribute.taxonomy.n_leaves for attribute in problem.quasi),
            baseline=(),
        )
        trees = (
            learn(Examples.of_base_values(points, dealt._at_points(cells.counts - records), dealt.n_leaves))
            for records in held
        )
        found = tuple(dealt._accuracy(tree, records) for tree, records in zip(trees, held, strict=True))
        return replace(dealt, baseline=found)

    @property
    def commonest(self) -> float:
        """The share of the commonest sensitive value: what one is right about without learning anything."""
        of_value = self._at_points(np.sum(self.held, axis=0)).sum(axis=0)
        return float(of_value.max() / of_value.sum())

    def ratio(self, method: Generalizing, problem: Problem, rng: np.random.Generator) -> float | None:
        """Return the accuracy relative to that of learning from original records.

        Folds whose others alone cannot meet the requirement are left out; None if that is so for all.
        """
        found, originally = [], []
        for records, baseline in zip(self.held, self.baseline, strict=True):
            part = without(problem, records)
            try:
                plan = method.plan(part, rng, Silent())
            except UnreachableError:
                continue
            lo, hi = plan.lo.astype(np.int32), plan.hi.astype(np.int32)
            tree = learn(Examples(lo, hi, sensitive_weights(part, plan), self.n_leaves))
            found.append(self._accuracy(tree, records))
            originally.append(baseline)
        return sum(found) / sum(originally) if found else None

    def _accuracy(self, tree: DecisionTree, records: IntArray) -> float:
        return tree.accuracy(self.points, self._at_points(records))

    def _at_points(self, records: IntArray) -> FloatArray:
        """Return (n_points, n_values) the records of each sensitive value at each point, given those of each cell."""
        size = len(self.points) * self.n_values
        flat = np.bincount(self.point * self.n_values + self.value, records, minlength=size)
        return flat.reshape(len(self.points), self.n_values).astype(np.float64)


def without(problem: Problem, records: IntArray) -> Problem:
    """Return the problem of the same table with so many records of each cell taken out."""
    counts = problem.cells.counts - records
    kept = np.flatnonzero(counts)
    return replace(
        problem,
        cells=Cells(tuple(column[kept] for column in problem.cells.codes), counts[kept]),
        requirements=tuple(
            requirement if requirement.values is None else replace(requirement, values=requirement.values[kept])
            for requirement in problem.requirements
        ),
    )

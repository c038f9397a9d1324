"""association-kept: how much of the dependence between attributes is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure, ratio
from shoal.utility.rows import Rows, original_rows, rows_published

_NONE = 1e-9  # mean-square contingency below which two attributes are independent but for rounding


class AssociationKept(ExpensiveMeasure):
    """The mean over pairs of attributes of Cramer's V in the release, relative to V in the original table.

    The release's contingency tables are the expected ones if records lie evenly in their published ranges. Both V are
    normalised by the number of values in the original. Attributes of more than 64 leaves are cut into 64 bins. Pairs
    without association in the original do not count; chance may make an association stronger, so the mean can pass 1.
    """

    name = "association-kept"
    title = "share of the association between pairs of attributes that is kept (Cramer's V after / before)"
    better = "higher"

    def applies(self, problem: Problem) -> bool:
        """There must be a pair of attributes."""
        return len(problem.quasi) + len(problem.sensitive) > 1

    def of(self, problem: Problem, plan: Plan) -> float:
        """Compare both tables."""
        return association_kept(original_rows(problem), rows_published(problem, plan))


def compare_pairs(problem: Problem, after: Callable[[], Rows], most_work: float) -> list[dict[str, Any]] | None:
    """Return Cramer's V of every pair of attributes before and after; None if that takes more than *most_work* steps.

    Both are normalised by the number of values in the original, so that they can be compared.
    """
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    if problem.cells.n_cells * math.comb(len(names), 2) > most_work:
        return None
    before, published, found = original_rows(problem), after(), []
    for first, second in combinations(range(len(names)), 2):
        crossed = before.cross(first, second)
        fewer = min(int((crossed.sum(axis=axis) > 0).sum()) for axis in (0, 1))
        if fewer > 1:
            was, left = contingency(crossed), contingency(published.cross(first, second))
            pair = {"before": math.sqrt(was / (fewer - 1)), "after": math.sqrt(left / (fewer - 1))}
            found.append({"pair": [names[first], names[second]], **pair})
    return found


def association_kept(before: Rows, after: Rows) -> float:
    """Return the mean ratio of the associations of two tables, pair by pair; the normalisation cancels out."""
    kept = []
    for first, second in combinations(range(len(before.columns)), 2):
        was = contingency(before.cross(first, second))
        if was > _NONE:
            kept.append(math.sqrt(ratio(contingency(after.cross(first, second)), was)))
    return float(np.mean(kept)) if kept else 1.0


def contingency(table: FloatArray) -> float:
    """Return the mean-square contingency (chi squared / n) of a table of counts.

    >>> contingency(np.array([[3.0, 0.0], [0.0, 1.0]])), contingency(np.array([[2.0, 2.0], [1.0, 1.0]]))
    (1.0, 0.0)
    """
    total = table.sum()
    if not total > 0:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    there = expected > 0
    return float(((table - expected)[there] ** 2 / expected[there]).sum() / total)

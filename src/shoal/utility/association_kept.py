"""association-kept: how much of the dependence between attributes is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure
from shoal.utility.marginals import Comparison
from shoal.utility.rows import Rows, view_plan

_NONE = 1e-9  # sum of V of all pairs below which there is no association but for rounding


class AssociationKept(ExpensiveMeasure):
    """One less the change of the association of all pairs of attributes, relative to the association in the source.

    Association is Cramer's V, corrected for what chance makes of few records, over the bins of marginals. Changes are
    summed over pairs: strong association counts most, and association that was made up counts against the release. A
    change of as much as there was, or more, is 0.
    """

    name = "association-kept"
    title = "share of the association between pairs of attributes that is kept: 1 less the change of Cramer's V"
    better = "higher"
    within = (0.0, 1.0)

    def applies(self, problem: Problem) -> bool:
        """There must be a pair of attributes."""
        return len(problem.quasi) + len(problem.sensitive) > 1

    def of(self, problem: Problem, plan: Plan) -> float:
        return association_kept(problem, view_plan(problem, plan))


def association_kept(problem: Problem, rows: Rows) -> float:
    """Return the share of the association that rows keep, 1 if there is none to keep."""
    pairs = compare_pairs(problem, lambda: rows, math.inf) or []
    before = np.array([pair["before"] for pair in pairs])
    changed = np.abs(np.array([pair["after"] for pair in pairs]) - before).sum()
    return max(0.0, 1.0 - float(changed / before.sum())) if before.sum() > _NONE else 1.0


def compare_pairs(problem: Problem, after: Callable[[], Rows], most_work: float) -> list[dict[str, object]] | None:
    """Return Cramer's V of every pair of attributes before and after; None if that takes more than *most_work* steps.

    An attribute that has one value in the source is in no pair.
    """
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    if problem.cells.n_cells * math.comb(len(names), 2) > most_work:
        return None
    compared, found = Comparison.of(problem, after()), []
    varying = [place for place in range(len(names)) if (compared.count((place,)) > 0).sum() > 1]
    for pair in combinations(varying, 2):
        before, left = cramers_v(compared.count(pair)), cramers_v(compared.published.expect(pair))
        found.append({"pair": [names[place] for place in pair], "before": before, "after": left})
    return found


def cramers_v(counts: FloatArray) -> float:
    """Return V of a table of counts, 0 for independence and 1 where one value tells the other.

    It is corrected for what chance makes of few records (Bergsma, "A bias-correction for Cramer's V and Tschuprow's
    T", JKSS 42, 2013).

    >>> round(cramers_v(np.array([[500.0, 0], [0, 500]])), 3), cramers_v(np.array([[9.0, 11], [11, 9]]))
    (1.0, 0.0)
    """
    table = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    n, rows, columns = float(table.sum()), table.shape[0], table.shape[1]
    if n < 2 or min(rows, columns) < 2:
        return 0.0
    square = max(0.0, contingency(table) - (rows - 1) * (columns - 1) / (n - 1))
    corrected = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1))
    return min(1.0, math.sqrt(square / (corrected - 1))) if corrected > 1 else 0.0


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

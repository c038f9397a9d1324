"""What the classes of a plan show of the sensitive attribute, and whether that meets what is asked for."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.judging import judged
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem


def sensitive_weights(problem: Problem, plan: Plan) -> FloatArray:
    """Return (n_classes, n_values) records of each value of the first sensitive attribute, as a reader sees them.

    A record whose value is generalized counts in equal parts for the values below that occur in the table (Tian
    and Zhang, Definition 2, with the default weights).
    """
    cell, owner, records, target = plan.pieces(problem.cells.counts)
    values = np.asarray(problem.cells.codes[len(problem.quasi)], dtype=np.int64)
    n_values = problem.sensitive[0].taxonomy.n_leaves
    published = owner >= 0
    general = np.zeros(len(cell), dtype=np.bool_)
    if plan.targets is not None:
        general[published] = plan.targets.lo[target[published], 0] != KEPT
    exact = published & ~general
    place = owner[exact] * np.int64(n_values) + values[cell[exact]]
    flat = np.bincount(place, records[exact], minlength=plan.n_classes * n_values)
    weights = flat.reshape(plan.n_classes, n_values).astype(np.float64)
    if plan.targets is None or not general.any():
        return weights
    occurs = np.bincount(values, problem.cells.counts, minlength=n_values) > 0
    bounds = np.stack([plan.targets.lo[:, 0], plan.targets.hi[:, 0]], axis=1)[target[general]]
    for lo, hi in np.unique(bounds, axis=0).tolist():
        these = np.flatnonzero(general)[(bounds == (lo, hi)).all(axis=1)]
        spread = occurs & (np.arange(n_values) >= lo) & (np.arange(n_values) < hi)
        in_class = np.bincount(owner[these], records[these], minlength=plan.n_classes)
        weights += np.outer(in_class, spread / spread.sum())
    return weights


def meets(problem: Problem, plan: Plan) -> bool:
    """Whether every class of the plan, as it would be published, keeps every requirement of the problem; exact."""
    return all(bool(asked.model.holds(classes, whole).all()) for asked, classes, whole in judged(problem, plan))

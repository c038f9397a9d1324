"""What the classes of a plan show of the sensitive attribute, and whether that meets a requirement."""

from __future__ import annotations

import numpy as np

from shoal.arrays import FloatArray
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan import KEPT, Plan
from shoal.problem import Problem

_ROUNDING = 1e-9


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


def cumulative(weights: FloatArray) -> FloatArray:
    """Return (n_classes, n_values) F(k): the share of the k most frequent values.

    >>> cumulative(np.array([[1.0, 2.0, 1.0, 0.0]])).tolist()
    [[0.5, 0.75, 1.0, 1.0]]
    """
    ordered = -np.sort(-weights, axis=1)
    return np.asarray(np.cumsum(ordered, axis=1) / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def psi(requirement: TauLDiversity, n_values: int) -> FloatArray:
    """Return psi(1), ..., psi(n_values)."""
    limits = [float(limit) for limit in requirement.limits[:n_values]]
    return np.array(limits + [1.0] * (n_values - len(limits)), dtype=np.float64)


def meets(weights: FloatArray, requirement: TauLDiversity) -> bool:
    """Whether F(k) <= psi(k) in every class and for every k, up to rounding."""
    return bool((cumulative(weights) <= psi(requirement, weights.shape[1]) + _ROUNDING).all())

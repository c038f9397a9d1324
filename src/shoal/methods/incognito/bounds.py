"""How many records must be suppressed at a node and at all finer ones, whatever these look like.

What remains of a coarse class at a finer node is a union of classes that hold, and holds itself if the model is one
that unions cannot break. So a coarse class that fails has to lose enough records for what remains to hold, and the
sum over classes bounds the suppression of every finer node from below. For models that are a curve, and for
t-closeness with the equal distance, that sum is easily told.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import IntArray
from shoal.methods.incognito.kernels import surely_distant, surely_uneven
from shoal.models.base import Whole
from shoal.models.t_closeness import TCloseness
from shoal.plan.problem import Requirement

_ROUNDING = 1e-6  # of the number of records, against errors of floating point


def has_bound(requirement: Requirement) -> bool:
    """Whether least_suppressed can tell anything about a requirement."""
    model = requirement.model
    if requirement.people is not None:
        return False
    if isinstance(model, TCloseness):
        return model.distance == "equal"
    curve = model.curve
    return (
        requirement.values is not None
        and curve is not None
        and (curve.distinct > 1 or min(curve.limits, default=1) < 1)
    )


def least_suppressed(
    requirement: Requirement, whole: Whole, sizes: IntArray, counts: IntArray, smallest: int, budget: int
) -> float:
    """Return a lower bound of the records that any node as fine as this or finer must suppress.

    t-closeness is measured against what remains of the table, at least the table without the budget.
    """
    enough = budget + _ROUNDING * whole.size
    if isinstance(requirement.model, TCloseness):
        kept_share = 1.0 - budget / max(whole.size, 1)
        reference = whole.counts if whole.counts is not None else counts.sum(axis=0)
        if kept_share <= 0.0:
            return 0.0
        found = surely_distant(sizes, counts, reference, smallest, requirement.model.t, kept_share, enough)
    else:
        curve = requirement.model.curve
        if curve is None:
            return 0.0
        limits = np.array([float(limit) for limit in curve.limits], dtype=np.float64)
        found = surely_uneven(sizes, counts, smallest, limits, curve.distinct, enough)
    return math.floor(found - _ROUNDING * whole.size)

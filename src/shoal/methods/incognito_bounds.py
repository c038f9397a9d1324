"""How many records must be suppressed at a node and at all finer ones, whatever these look like.

What remains of a coarse class at a finer node is a union of classes that hold, and holds itself if the model is one
that unions cannot break. So a coarse class that fails has to lose enough records for what remains to hold, and the
sum over classes bounds the suppression of every finer node from below. For some models that sum is easily told.
"""

from __future__ import annotations

import math

from shoal.arrays import IntArray
from shoal.methods.incognito_kernels import surely_distant, surely_dominated
from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.base import Whole
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.t_closeness import TCloseness
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.problem import Requirement

_ROUNDING = 1e-6  # of the number of records, against errors of floating point


def has_bound(requirement: Requirement) -> bool:
    """Whether least_suppressed can tell anything about a requirement."""
    model = requirement.model
    if isinstance(model, TCloseness):
        return model.distance == "equal"
    return _largest_share(requirement) < 1.0


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
        found = surely_dominated(sizes, counts, smallest, _largest_share(requirement), enough)
    return math.floor(found - _ROUNDING * whole.size)


def _largest_share(requirement: Requirement) -> float:
    model = requirement.model
    if isinstance(model, TauLDiversity):
        return model.tau
    if isinstance(model, AlphaKAnonymity):
        return model.alpha
    if isinstance(model, SimpleLDiversity):
        return 1.0 / model.l
    return 1.0

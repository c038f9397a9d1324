"""excessive-protection: how far below its limit a (tau,l) requirement is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, IntArray
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan import KEPT, Plan
from shoal.problem import Problem, Requirement
from shoal.utility.base import Measure

_BLOCK = 1 << 22


class ExcessiveProtection(Measure):
    """The least total distance between the curve psi and the cumulative frequencies F of a class.

    Tian and Zhang, Definition 8: e = sum over k of |psi(k) - F(k)|, the minimum over classes, on induced
    frequencies. Of several (tau,l) requirements the one that is kept most closely counts.
    """

    name = "excessive-protection"
    title = "how far the class nearest to the (tau,l) limit stays away from it; 0 is no more protection than asked for"
    better = "lower"
    cost = "expensive"
    within = (0.0, math.inf)
    monotone = False
    counts_withheld = False

    def applies(self, problem: Problem) -> bool:
        """There must be a (tau,l) requirement."""
        return any(isinstance(requirement.model, TauLDiversity) for requirement in problem.requirements)

    def of(self, problem: Problem, plan: Plan) -> float:
        """Return the minimum over requirements and classes; 0 if no record is published."""
        least = math.inf
        for requirement in problem.requirements:
            if isinstance(requirement.model, TauLDiversity):
                limits = [float(limit) for limit in requirement.model.limits]
                for counts in _induced(problem, plan, requirement):
                    least = min(least, float(excess(counts, limits).min()))
        return least if math.isfinite(least) else 0.0


def excess(counts: IntArray, limits: list[float]) -> FloatArray:
    """Return (n_classes,) the sum over k of |psi(k) - F(k)|, psi being 1 beyond the given limits.

    >>> excess(np.array([[1, 1, 1, 1], [2, 1, 1, 0]]), [0.5, 0.75, 1.0])
    array([0.75, 0.  ])
    """
    reached = np.cumsum(-np.sort(-counts, axis=1), axis=1) / counts.sum(axis=1, keepdims=True)
    width = max(counts.shape[1], len(limits))
    curve = np.array(limits + [1.0] * (width - len(limits)))
    whole = np.pad(reached, ((0, 0), (0, width - counts.shape[1])), constant_values=1.0)
    return np.asarray(np.abs(curve - whole).sum(axis=1))


def _induced(problem: Problem, plan: Plan, requirement: Requirement) -> Iterator[IntArray]:
    """Yield (some classes, n_values) induced counts of the requirement's values, for classes that have records."""
    if requirement.values is None:
        raise TypeError(f"{requirement.model.subject} needs the codes of sensitive values")
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    first, order = kernels.grouped(class_of, plan.n_classes)
    published = requirement.values[cell[order]]
    width, spread = requirement.n_values, None
    if plan.targets is not None and requirement.place is not None and requirement.taxonomy is not None:
        spread = requirement.induced(problem.cells.counts)
        width = requirement.taxonomy.n_nodes
        lo, hi = (ends[target[order], requirement.place] for ends in (plan.targets.lo, plan.targets.hi))
        nodes = requirement.taxonomy.lowest_nodes(np.maximum(lo, 0), np.maximum(hi, 1))
        published = np.where(lo == KEPT, published, nodes).astype(np.int32)
    records = records[order]
    step = max(_BLOCK // width, 1)
    for start in range(0, plan.n_classes, step):
        edges = first[start : start + step + 1]
        counts = np.zeros((len(edges) - 1, width), dtype=np.int64)
        kernels.tally_classes(edges, published, records, counts)
        counts = counts[counts.any(axis=1)]
        if len(counts):
            yield counts if spread is None else spread.counts(counts)

"""excessive-protection: how far below its limit a (tau,l) requirement is kept."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import Measure


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
        asked = tuple(r for r in problem.requirements if isinstance(r.model, TauLDiversity))
        least = math.inf
        for requirement, classes, _ in judge_plan(replace(problem, requirements=asked), plan):
            if isinstance(requirement.model, TauLDiversity) and classes.counts is not None:
                limits = [float(limit) for limit in requirement.model.limits]
                least = min(least, float(excess(classes.counts[classes.sizes > 0], limits).min(initial=math.inf)))
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

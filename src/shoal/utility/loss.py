"""loss: the generalized loss metric as ARX computes it."""

from __future__ import annotations

import numpy as np

from shoal.arrays import FloatArray
from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import Measure


class GeneralizedLoss(Measure):
    """The geometric mean over quasi attributes of the share of the domain that a published value spans.

    Iyengar (KDD 2002) in the form of ARX: an attribute of d leaves loses v = (sum of its leaf shares - n/d) /
    (n - n/d), and the measure is prod(1 + v)^(1/attributes) - 1. A withheld record spans whole domains.
    """

    name = "loss"
    title = "generalized loss: mean share of the domain that published values span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def of(self, problem: Problem, plan: Plan) -> float:
        """Take the geometric mean over attributes."""
        return float(np.expm1(np.log1p(quasi_losses(problem, plan)).mean()))


def quasi_losses(problem: Problem, plan: Plan) -> FloatArray:
    """Return (n_quasi,) the loss of each quasi attribute, from 0 to 1."""
    widths = np.dot(plan.sizes.astype(np.float64), plan.hi - plan.lo)  # (n_quasi,) leaves under published values
    leaves = np.array([attribute.taxonomy.n_leaves for attribute in problem.quasi], dtype=np.float64)
    return lost_share(widths, leaves, problem.cells.n_records, plan.n_withheld)


def lost_share(widths: FloatArray, leaves: FloatArray, n_records: int, n_withheld: int) -> FloatArray:
    """Return the loss of attributes, given the sum over published records of the leaves under their values.

    >>> lost_share(np.array([6.0]), np.array([4.0]), n_records=3, n_withheld=1)  # widths 2, 4 and all
    array([0.77777778])
    """
    most = n_records * (leaves - 1)
    lost = widths + n_withheld * leaves - n_records
    return np.divide(lost, most, out=np.zeros(len(leaves)), where=most > 0)

"""discernibility: how many records each record cannot be told from."""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import PooledMeasure, Total


class Discernibility(PooledMeasure):
    """The sum over records of the size of their class; a withheld record counts as one among all.

    Bayardo and Agrawal (ICDE 2005).
    """

    name = "discernibility"
    title = "discernibility: sum over records of the records they cannot be told from"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 2

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        """Add up squared class sizes."""
        sizes = plan.sizes.astype(np.float64)
        return np.array([np.dot(sizes, sizes)])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Add what the withheld records count."""
        return float(sums[0]) + float(total.n_withheld) * total.n_records

"""class-size and discernibility: how many records a record is published among."""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import PooledMeasure, Total


class ClassSize(PooledMeasure):
    """The average number of records in a class, the withheld ones being one class more.

    LeFevre, DeWitt and Ramakrishnan (ICDE 2006), not divided by k; ARX counts withheld records in this way too.
    """

    name = "class-size"
    title = "average number of records in a class"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 1
    counts_withheld = False

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        """Count the classes."""
        return np.array([np.count_nonzero(plan.sizes)], dtype=np.float64)

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Divide the records by the classes."""
        classes = int(sums[0]) + (total.n_withheld > 0)
        return total.n_records / max(classes, 1)


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

"""discernibility: how many records each record cannot be told from."""

from __future__ import annotations

import math

import numpy as np

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import Measure


class Discernibility(Measure):
    """The sum over records of the size of their class; a withheld record counts as one among all.

    Bayardo and Agrawal (ICDE 2005).
    """

    name = "discernibility"
    title = "discernibility: sum over records of the records they cannot be told from"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 2

    def of(self, problem: Problem, plan: Plan) -> float:
        """Add up squared class sizes."""
        sizes = plan.sizes.astype(np.float64)
        return float(np.dot(sizes, sizes)) + float(plan.n_withheld) * problem.cells.n_records

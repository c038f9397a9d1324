"""class-size: the average number of records in a class."""

from __future__ import annotations

import math

import numpy as np

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import Measure


class ClassSize(Measure):
    """The average number of records in a class, the withheld ones being one class more.

    LeFevre, DeWitt and Ramakrishnan (ICDE 2006), not divided by k; ARX counts withheld records in this way too.
    """

    name = "class-size"
    title = "average number of records in a class"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 1
    counts_withheld = False

    def of(self, problem: Problem, plan: Plan) -> float:
        """Divide the records by the classes."""
        classes = int(np.count_nonzero(plan.sizes)) + (plan.n_withheld > 0)
        return problem.cells.n_records / max(classes, 1)

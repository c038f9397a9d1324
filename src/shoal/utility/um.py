"""um: the share of the table's information that a release keeps."""

from __future__ import annotations

import numpy as np

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import Measure


class Um(Measure):
    """The mean over records and attributes of 1 / (leaves that the published value covers).

    Tian and Zhang, Definition 5. Quasi and sensitive attributes count alike; leaves are those of the taxonomy.
    """

    name = "um"
    title = "share of the original information that is kept; 1 is everything"
    better = "higher"

    def of(self, problem: Problem, plan: Plan) -> float:
        """Sum the information of classes, weighted by their records."""
        kept = plan.sizes
        quasi = (1.0 / (plan.hi - plan.lo)).sum(axis=1)  # (n_classes,)
        information = float(np.dot(kept, quasi)) + float(kept.sum()) * len(problem.sensitive)
        return information / (problem.cells.n_records * (len(problem.quasi) + len(problem.sensitive)))

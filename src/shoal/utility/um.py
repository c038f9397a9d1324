"""um: the share of the table's information that a release keeps."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import KEPT, Plan, Targets
from shoal.plan.problem import Problem
from shoal.utility.base import PooledMeasure, Total


class Um(PooledMeasure):
    """The mean over records and attributes of 1 / (leaves that the published value covers).

    Tian and Zhang, Definition 5. Quasi and sensitive attributes count alike; leaves are those of the taxonomy.
    A withheld record keeps nothing.
    """

    name = "um"
    title = "share of the original information that is kept; 1 is everything"
    better = "higher"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Sum the information of classes, weighted by their records."""
        kept = plan.sizes
        quasi = (1.0 / (plan.hi - plan.lo)).sum(axis=1)  # (n_classes,)
        information = float(np.dot(kept, quasi))
        if plan.targets is None:
            information += float(kept.sum()) * len(problem.sensitive)
        else:
            information += float(np.dot(plan.targets.records, 1.0 / sensitive_widths(plan.targets)).sum())
        return np.array([information])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Divide by what there was."""
        return float(sums[0]) / (total.n_records * (len(total.quasi) + len(total.sensitive)))


def sensitive_widths(targets: Targets) -> FloatArray:
    """Return (n_targets, n_sensitive) the leaves under each published sensitive value."""
    return np.where(targets.lo == KEPT, 1, targets.hi - targets.lo).astype(np.float64)

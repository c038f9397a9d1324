"""ncp: how wide the published values are, compared with their attributes' domains."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.taxonomies.tree import Taxonomy
from shoal.utility import kernels
from shoal.utility.base import PooledMeasure, Total


class NormalizedCertaintyPenalty(PooledMeasure):
    """The mean over records and quasi attributes of the published width relative to the domain.

    Xu et al., "Utility-based anonymization using local recoding" (KDD 2006): a number's width is its range
    relative to the domain's range, a category's (leaves - 1) / (all leaves - 1). A value that may also be missing,
    and every value of a withheld record, counts as fully lost.
    """

    name = "ncp"
    title = "normalized certainty penalty: mean width of the published values; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Sum the widths of classes, weighted by their records."""
        kept = plan.sizes.astype(np.float64)
        spanned = sum(
            float(np.dot(relative_widths(attribute.taxonomy, plan.lo[:, j], plan.hi[:, j]), kept))
            for j, attribute in enumerate(problem.quasi)
        )
        return np.array([spanned])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Average over records and attributes."""
        n_kept = float(total.n_records - total.n_withheld)
        return (float(sums[0]) / len(total.quasi) + total.n_records - n_kept) / total.n_records


def relative_widths(taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray) -> FloatArray:
    """Return (n_classes,) the width of each leaf range as a share of the whole domain's."""
    leaves = taxonomy.n_leaves - (taxonomy.missing is not None)
    places = taxonomy.positions
    line = np.arange(leaves, dtype=np.float64) if places is None else np.asarray(places[:leaves], dtype=np.float64)
    return kernels.spans(lo, hi, line)

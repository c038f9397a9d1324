"""attribute-loss: what each attribute loses."""

from __future__ import annotations

import numpy as np

from shoal.arrays import FloatArray
from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import PooledMeasure, Total
from shoal.utility.loss import lost_share, quasi_widths
from shoal.utility.um import sensitive_widths


class AttributeLoss(PooledMeasure):
    """The loss of the attribute that loses most; in detail, of every quasi and sensitive attribute.

    An attribute's loss is the one of which ``loss`` is the geometric mean: 0 if all values are published as they
    are, 1 if none is more than the root. Sensitive values lose where they are generalized or withheld.
    """

    name = "attribute-loss"
    title = "share of the domain that published values of an attribute span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Return (n_attributes,) the leaves under published values, quasi attributes first."""
        if plan.targets is None:
            widths = np.full(len(problem.sensitive), float(problem.cells.n_records - plan.n_withheld))
        else:
            widths = np.dot(plan.targets.records.astype(np.float64), sensitive_widths(plan.targets))
        return np.concatenate([quasi_widths(plan), widths])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Return the largest loss of an attribute."""
        return max(self.detail_of_sums(total, sums).values())

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the loss of every attribute by its name."""
        return self.detail_of_sums(Total.of(problem, plan), self.sums(problem, plan))

    def detail_of_sums(self, total: Total, sums: FloatArray) -> dict[str, float]:
        """Return the loss of every attribute by its name."""
        attributes = (*total.quasi, *total.sensitive)
        leaves = np.array([attribute.taxonomy.n_leaves for attribute in attributes], dtype=np.float64)
        losses = lost_share(sums, leaves, total.n_records, total.n_withheld).tolist()
        return {attribute.name: loss for attribute, loss in zip(attributes, losses, strict=True)}

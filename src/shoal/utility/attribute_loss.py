"""attribute-loss: what each attribute loses."""

from __future__ import annotations

import numpy as np

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.utility.base import Measure
from shoal.utility.loss import lost_share, quasi_losses
from shoal.utility.um import sensitive_widths


class AttributeLoss(Measure):
    """The loss of the attribute that loses most; in detail, of every quasi and sensitive attribute.

    An attribute's loss is the one of which ``loss`` is the geometric mean: 0 if all values are published as they
    are, 1 if none is more than the root. Sensitive values lose where they are generalized or withheld.
    """

    name = "attribute-loss"
    title = "share of the domain that published values of an attribute span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def of(self, problem: Problem, plan: Plan) -> float:
        """Return the largest loss of an attribute."""
        return max(self.detail(problem, plan).values())

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the loss of every attribute by its name."""
        n_records = problem.cells.n_records
        leaves = np.array([attribute.taxonomy.n_leaves for attribute in problem.sensitive], dtype=np.float64)
        if plan.targets is None:
            widths = np.full(len(leaves), float(n_records - plan.n_withheld))
        else:
            widths = np.dot(plan.targets.records.astype(np.float64), sensitive_widths(plan.targets))
        losses = np.concatenate(
            [quasi_losses(problem, plan), lost_share(widths, leaves, n_records, plan.n_withheld)]
        ).tolist()
        return {
            attribute.name: loss for attribute, loss in zip((*problem.quasi, *problem.sensitive), losses, strict=True)
        }

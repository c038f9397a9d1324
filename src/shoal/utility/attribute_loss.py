"""attribute-loss: what each attribute loses."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import PooledMeasure, Total
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


class GeneralizedLoss(PooledMeasure):
    """The geometric mean over quasi attributes of the share of the domain that a published value spans.

    Iyengar (KDD 2002) in the form of ARX: an attribute of d leaves loses v = (sum of its leaf shares - n/d) /
    (n - n/d), and the measure is prod(1 + v)^(1/attributes) - 1. A withheld record spans whole domains.
    """

    name = "loss"
    title = "generalized loss: mean share of the domain that published values span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        """Return (n_quasi,) the leaves under published values."""
        return quasi_widths(plan)

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Take the geometric mean over attributes."""
        leaves = np.array([attribute.taxonomy.n_leaves for attribute in total.quasi], dtype=np.float64)
        return float(np.expm1(np.log1p(lost_share(sums, leaves, total.n_records, total.n_withheld)).mean()))


def quasi_widths(plan: Plan) -> FloatArray:
    """Return (n_quasi,) the sum over published records of the leaves under their values."""
    return np.asarray(np.dot(plan.sizes.astype(np.float64), plan.hi - plan.lo))


def lost_share(widths: FloatArray, leaves: FloatArray, n_records: int, n_withheld: int) -> FloatArray:
    """Return the loss of attributes, given the sum over published records of the leaves under their values.

    >>> lost_share(np.array([6.0]), np.array([4.0]), n_records=3, n_withheld=1)  # widths 2, 4 and all
    array([0.77777778])
    """
    most = n_records * (leaves - 1)
    lost = widths + n_withheld * leaves - n_records
    return np.divide(lost, most, out=np.zeros(len(leaves)), where=most > 0)

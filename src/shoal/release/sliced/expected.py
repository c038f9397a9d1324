"""What a sliced plan leads one to expect of the original table if every linking is as likely, and what is lost."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.utility.analyses import measure_rows
from shoal.utility.base import Utility
from shoal.utility.information import (
    AttributeLoss,
    GeneralizedLoss,
    NormalizedCertaintyPenalty,
    Um,
    relative_widths,
    share_lost,
)
from shoal.utility.rows import SlicedRows, sum_weights


def measure_slices(problem: Problem, plan: SlicedPlan, *, expensive: bool) -> Utility:
    """Return the measures of a sliced plan by the names that they have for generalized tables.

    ``um``, ``ncp``, ``loss`` and ``attribute-loss`` tell what generalizing the values of parts and withholding records
    lost: values that are published as they are lose nothing. What cutting the ties between parts costs is given by the
    expensive ones, which take the tables, counts and predictions that one expects if every linking within buckets is as
    likely. Measures of equivalence classes have no meaning here.
    """
    rows = SlicedRows.of(problem, plan)
    found = _of_values(problem, plan, rows)
    if expensive:
        found |= measure_rows(problem, rows)
    return found


def _of_values(problem: Problem, plan: SlicedPlan, rows: SlicedRows) -> Utility:
    """Return the measures of single values."""
    n_records, n_quasi = problem.cells.n_records, len(problem.quasi)
    attributes = (*problem.quasi, *problem.sensitive)
    records = [sum_weights(column.item, rows.records, len(column.lo)) for column in rows.columns]  # of each item
    widths = [(column.hi - column.lo).astype(np.float64) for column in rows.columns]
    kept = sum(float(np.dot(own, 1.0 / width)) for own, width in zip(records, widths, strict=True))
    spanned = sum(
        float(np.dot(own, relative_widths(attribute.taxonomy, column.lo, column.hi)))
        for attribute, column, own in zip(problem.quasi, rows.columns, records, strict=False)
    )
    leaves = np.array([attribute.taxonomy.n_leaves for attribute in attributes], dtype=np.float64)
    summed = np.array([float(np.dot(own, width)) for own, width in zip(records, widths, strict=True)])
    losses: FloatArray = share_lost(summed, leaves, n_records, plan.n_withheld)
    return {
        AttributeLoss.name: {a.name: loss for a, loss in zip(attributes, losses.tolist(), strict=True)},
        GeneralizedLoss.name: float(np.expm1(np.log1p(losses[:n_quasi]).mean())),
        NormalizedCertaintyPenalty.name: (spanned / n_quasi + plan.n_withheld) / n_records,
        Um.name: kept / (n_records * len(attributes)),
    }

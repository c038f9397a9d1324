"""count-error: how wrong counts are that somebody takes from the release, by the size of the count."""

from __future__ import annotations

import numpy as np

from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure
from shoal.utility.marginals import LARGEST, Comparison, choose_sets
from shoal.utility.rows import Rows, view_plan

SIZES = (10, 100, 1000)  # from which on counts are small, middling and large
_MOST_SETS = 200  # of attributes, of each size
_SPANS = ("10 to 99", "100 to 999", "1,000 or more")


def _title(share: str, span: str) -> str:
    return f"relative error that {share} of the counts of {span} records in tables of up to three columns stay under"


class CountError(ExpensiveMeasure):
    """The median relative error of counts in tables of one to three attributes, as shares of all records.

    The counts are those of the cells of :mod:`shoal.utility.marginals`; those of fewer than ten records do not count
    unless there are no others. Further figures are the medians and the 95th percentiles by the size of the count.
    """

    name = "count-error"
    title = "median relative error of counts of 10 or more records in tables of up to three columns"
    better = "lower"
    figure_titles = {  # noqa: RUF012
        f"count-error-{size}{end}": _title(share, span)
        for size, span in zip(SIZES, _SPANS, strict=True)
        for end, share in (("", "half"), ("-95", "95%"))
    }

    def of(self, problem: Problem, plan: Plan) -> float:
        return count_errors(problem, view_plan(problem, plan))[self.name]

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the median, and the figures by sizes of counts that there are."""
        return count_errors(problem, view_plan(problem, plan))


def count_errors(problem: Problem, rows: Rows) -> dict[str, float]:
    """Return the median relative error of counts, and median and 95th percentile for each size that occurs."""
    compared, rng = Comparison.of(problem, rows), np.random.default_rng(0)
    counts, errors = [], []
    for size in range(1, min(LARGEST, compared.n_attributes) + 1):
        for places in choose_sets(compared.n_attributes, size, _MOST_SETS, rng):
            true, found = compared.count(places), compared.published.expect(places)
            there = true >= 1
            scale = true.sum() / found.sum() if found.sum() > 0 else 0.0
            counts.append(true[there])
            errors.append(np.abs(found[there] * scale - true[there]) / true[there])
    count, error = np.concatenate(counts), np.concatenate(errors)
    least = SIZES[0] if (count >= SIZES[0]).any() else 1
    figures = {CountError.name: float(np.median(error[count >= least]))}
    for size, end in zip(SIZES, (*SIZES[1:], np.inf), strict=True):
        if len(own := error[(count >= size) & (count < end)]):
            median, high = np.quantile(own, [0.5, 0.95]).tolist()
            figures |= {f"{CountError.name}-{size}": median, f"{CountError.name}-{size}-95": high}
    return figures

"""regression-overlap, subgroup-error: whether a regression and means of subgroups say what they say of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.association_kept import association_kept
from shoal.utility.base import ExpensiveMeasure, Utility
from shoal.utility.count_error import count_errors
from shoal.utility.marginals import Comparison
from shoal.utility.rows import Rows, sum_weights, view_plan

MOST_PREDICTORS = 12
FEWEST = 10  # records of a subgroup
_NORMAL = 1.96  # standard errors of a 95% confidence interval
_LITTLE = 1e-9


class RegressionOverlap(ExpensiveMeasure):
    """The mean overlap of 95% confidence intervals of regression coefficients from the release and from the source.

    Karr, Kohnen, Oganian, Reiter and Sanil, "A framework for evaluating the utility of data altered to protect
    confidentiality" (American Statistician 60, 2006): the overlap is relative to the length of both intervals, 0 if
    there is none. The outcome, which is the first sensitive attribute or else the last one, is explained by the other
    attributes, at most twelve, by least squares. A number or date counts as it is, of a category whether it is the
    commonest value. Subgroups are the bins of every other attribute that have ten records or more in the source.
    """

    name = "regression-overlap"
    title = "mean overlap of the confidence intervals of regression coefficients with those of the source"
    better = "higher"
    within = (0.0, 1.0)
    figure_titles = {  # noqa: RUF012
        "subgroup-error": "median error of the outcome's mean in subgroups, in its standard deviations",
        "subgroup-error-95": "error that 95% of these means stay under",
    }

    def applies(self, problem: Problem) -> bool:
        """There must be an outcome, and something that may explain it."""
        return len(problem.quasi) + len(problem.sensitive) > 1

    def of(self, problem: Problem, plan: Plan) -> float:
        return analyse(problem, view_plan(problem, plan))[self.name]

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return analyse(problem, view_plan(problem, plan))


def measure_rows(problem: Problem, rows: Rows) -> Utility:
    """Return what analysts find in rows of any form; nothing of a single attribute but its counts."""
    found: Utility = dict(count_errors(problem, rows))
    if len(problem.quasi) + len(problem.sensitive) > 1:
        found |= {"association-kept": association_kept(problem, rows), **analyse(problem, rows)}
    return found


def analyse(problem: Problem, rows: Rows) -> dict[str, float]:
    """Return the overlap of coefficients, and median and 95th percentile of the errors of means of subgroups."""
    compared = Comparison.of(problem, rows)
    scores = score_bins(problem, compared)
    outcome = len(problem.quasi) if problem.sensitive else compared.n_attributes - 1
    others = [place for place in range(compared.n_attributes) if place != outcome]
    used = [place for place in others if scores[place].any()][:MOST_PREDICTORS]
    tables = compared.count, compared.published.expect
    (low, high), (below, above) = (find_intervals(table, scores, [*used, outcome]) for table in tables)
    common = np.minimum(high, above) - np.maximum(low, below)
    overlap = np.clip(common / 2 * (1 / (high - low) + 1 / (above - below)), 0.0, 1.0)
    errors = []
    for place in others:
        true, found = (table((place, outcome)) for table in tables)
        large = true.sum(axis=1) >= FEWEST
        means = [each[large] @ scores[outcome] / np.maximum(each[large].sum(axis=1), _LITTLE) for each in (true, found)]
        errors.append(np.abs(means[0] - means[1]))
    median, most = np.quantile(np.concatenate([*errors, [0.0]]), [0.5, 0.95]).tolist()
    mean = float(overlap.mean()) if len(used) else 1.0
    return {RegressionOverlap.name: mean, "subgroup-error": median, "subgroup-error-95": most}


def score_bins(problem: Problem, compared: Comparison) -> list[FloatArray]:
    """Return a number for each bin of each attribute: mean 0 and variance 1 in the source, or 0 if it is constant."""
    found = []
    for place, attribute in enumerate((*problem.quasi, *problem.sensitive)):
        share = compared.count((place,)) / compared.records.sum()
        places = attribute.taxonomy.positions
        score = np.zeros(len(share))
        score[share.argmax()] = 1.0
        if places is not None:
            own = np.where(np.isnan(places), np.nanmean(places), places)[problem.cells.codes[place]]
            summed = sum_weights(compared.bins[place], own * compared.records, len(share))
            score = summed / np.maximum(share * compared.records.sum(), _LITTLE)
        centred = score - share @ score
        spread = float(np.sqrt(share @ centred**2))
        found.append(centred / spread if spread > _LITTLE else np.zeros(len(share)))
    return found


def find_intervals(
    table: Callable[[Sequence[int]], FloatArray], scores: Sequence[FloatArray], places: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the confidence intervals of all coefficients of the last attribute on the others."""
    n = max(float(table(places[:1]).sum()), _LITTLE)
    moments = np.eye(len(places) + 1)  # of the constant and the attributes
    for i, one in enumerate(places):
        alone = table((one,)) / n
        moments[0, i + 1] = moments[i + 1, 0] = alone @ scores[one]
        moments[i + 1, i + 1] = alone @ scores[one] ** 2
        for j, other in enumerate(places[:i]):
            moments[i + 1, j + 1] = moments[j + 1, i + 1] = scores[one] @ (table((one, other)) / n) @ scores[other]
    inverse = np.linalg.pinv(moments[:-1, :-1], hermitian=True)
    slopes = inverse @ moments[:-1, -1]
    left = max(float(moments[-1, -1] - slopes @ moments[:-1, -1]), 0.0)
    error = _NORMAL * np.sqrt(left * np.maximum(np.diag(inverse), 0.0) / max(n - len(places), 1.0)) + _LITTLE
    return (slopes - error)[1:], (slopes + error)[1:]

"""Measures of the errors of analyses: counts, numbers, associations, regressions and means of subgroups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure, Utility
from shoal.utility.marginals import LARGEST, Comparison, choose_sets
from shoal.utility.rows import Rows, sum_weights, view_plan

MOST_PREDICTORS = 12
FEWEST = 10  # records of a subgroup
SIZES = {10: "10 to 99", 100: "100 to 999", 1000: "1,000 or more"}  # smallest count of each size
_MOST_SETS = 200  # of attributes, of each size
_NORMAL = 1.96  # standard errors of a 95% confidence interval
_LITTLE = 1e-9


class CountError(ExpensiveMeasure):
    """The median relative error of counts in tables of one to three attributes, as shares of all records.

    The tables come from :mod:`shoal.utility.marginals`. Counts below ten are ignored unless all are. Further figures
    are the medians and the 95th percentiles by the size of the count.
    """

    name = "count-error"
    title = "median relative error of counts of 10 or more records in tables of up to three columns"
    better = "lower"
    figure_titles = {  # noqa: RUF012
        f"count-error-{size}{end}": (
            f"relative error that {share} of the counts of {span} records in tables of up to three columns stay under"
        )
        for size, span in SIZES.items()
        for end, share in (("", "half"), ("-95", "95%"))
    }

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
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
    least = min(SIZES) if (count >= min(SIZES)).any() else 1
    figures = {CountError.name: float(np.median(error[count >= least]))}
    for size, end in zip(SIZES, (*list(SIZES)[1:], np.inf), strict=True):
        if len(own := error[(count >= size) & (count < end)]):
            median, high = np.quantile(own, [0.5, 0.95]).tolist()
            figures |= {f"{CountError.name}-{size}": median, f"{CountError.name}-{size}-95": high}
    return figures


class NumberLoss(ExpensiveMeasure):
    """IL1s: the mean distance of published numbers from the original ones, divided by sqrt(2) standard deviations.

    Mateo-Sanz, Sebe and Domingo-Ferrer, "Outlier protection in continuous microdata masking" (PSD 2004). It covers
    the quasi-identifiers that are numbers or dates; an interval is represented by its middle. If there are several, a
    further figure compares the eigenvalues of the two covariance matrices (Templ and Meindl, PSD 2008), in standard
    deviations of the source: the sum of their differences divided by the sum of the source's.
    """

    name = "il1s"
    title = "mean distance of published numbers from the original ones, in sqrt(2) standard deviations"
    better = "lower"
    figure_titles = {  # noqa: RUF012
        "eigenvalue-loss": "relative change of the eigenvalues of the numbers' covariance matrix"
    }

    def applies(self, problem: Problem) -> bool:
        return any(attribute.taxonomy.positions is not None for attribute in problem.quasi)

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return measure_numbers(problem, plan)


def measure_numbers(problem: Problem, plan: Plan) -> dict[str, float]:
    """Return IL1s and, if there are several numbers, the change of eigenvalues; 0 if no record is published."""
    cell, class_of, records, _ = plan.pieces(problem.cells.counts)
    shown = class_of >= 0
    cell, class_of, weights = cell[shown], class_of[shown], records[shown].astype(np.float64)
    true, published, losses = [], [], []
    for place, attribute in enumerate(problem.quasi):
        if (places := attribute.taxonomy.positions) is None or not len(cell):
            continue
        own = places[problem.quasi_codes[place][cell]]
        lo, last = plan.lo[:, place], plan.hi[:, place] - 1
        if np.isnan(places[-1]):  # the leaf of missing values is the last one and has no position
            last = np.where(last > lo, np.minimum(last, len(places) - 2), last)
        read = ((places[lo] + places[last]) / 2)[class_of]
        known = np.isfinite(own) & np.isfinite(read)
        if not known.any():
            continue
        mean = np.average(own[known], weights=weights[known])
        spread = float(np.sqrt(np.average((own[known] - mean) ** 2, weights=weights[known])))
        if spread <= _LITTLE * max(abs(float(mean)), 1.0):
            continue
        own, read = ((np.where(known, numbers, mean) - mean) / spread for numbers in (own, read))
        true.append(own)
        published.append(read)
        losses.append(float(np.average(np.abs(own - read)[known], weights=weights[known]) / np.sqrt(2.0)))
    found = {NumberLoss.name: float(np.mean(losses)) if losses else 0.0}
    if len(true) > 1:
        before, after = (
            np.linalg.eigvalsh(np.atleast_2d(np.cov(np.stack(numbers), aweights=weights, ddof=0)))
            for numbers in (true, published)
        )
        found["eigenvalue-loss"] = float(np.abs(before - after).sum() / before.sum())
    return found


class AssociationKept(ExpensiveMeasure):
    """1 minus the change of the association of all pairs of attributes, relative to the association in the source.

    Association is Cramer's V over the bins of marginals, with a bias correction. Changes are summed over pairs, so
    strong associations weigh most, and spurious ones count against the release. The measure is never negative.
    """

    name = "association-kept"
    title = "share of the association between pairs of attributes that is kept: 1 minus the change of Cramer's V"
    better = "higher"
    within = (0.0, 1.0)

    def applies(self, problem: Problem) -> bool:
        return len(problem.quasi) + len(problem.sensitive) > 1

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return {self.name: association_kept(problem, view_plan(problem, plan))}


def association_kept(problem: Problem, rows: Rows) -> float:
    """Return the share of the association that rows keep; 1 if the source has no association."""
    pairs = compare_pairs(problem, lambda: rows, math.inf) or []
    before = np.array([pair["before"] for pair in pairs])
    changed = np.abs(np.array([pair["after"] for pair in pairs]) - before).sum()
    return max(0.0, 1.0 - float(changed / before.sum())) if before.sum() > _LITTLE else 1.0


def compare_pairs(problem: Problem, after: Callable[[], Rows], most_work: float) -> list[dict[str, object]] | None:
    """Return Cramer's V of every pair of attributes before and after; None if that takes more than *most_work* steps.

    Attributes that are constant in the source are left out.
    """
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    if problem.cells.n_cells * math.comb(len(names), 2) > most_work:
        return None
    compared, found = Comparison.of(problem, after()), []
    varying = [place for place in range(len(names)) if (compared.count((place,)) > 0).sum() > 1]
    for pair in combinations(varying, 2):
        before, left = cramers_v(compared.count(pair)), cramers_v(compared.published.expect(pair))
        found.append({"pair": [names[place] for place in pair], "before": before, "after": left})
    return found


def cramers_v(counts: FloatArray) -> float:
    """Return Cramer's V of a table of counts: 0 for independence, 1 if one attribute determines the other.

    It has the bias correction of Bergsma, "A bias-correction for Cramer's V and Tschuprow's T" (JKSS 42, 2013).

    >>> round(cramers_v(np.array([[500.0, 0], [0, 500]])), 3), cramers_v(np.array([[9.0, 11], [11, 9]]))
    (1.0, 0.0)
    """
    table = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    n, rows, columns = float(table.sum()), table.shape[0], table.shape[1]
    if n < 2 or min(rows, columns) < 2:
        return 0.0
    square = max(0.0, contingency(table) - (rows - 1) * (columns - 1) / (n - 1))
    corrected = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1))
    return min(1.0, math.sqrt(square / (corrected - 1))) if corrected > 1 else 0.0


def contingency(table: FloatArray) -> float:
    """Return the mean-square contingency (chi squared / n) of a table of counts.

    >>> contingency(np.array([[3.0, 0.0], [0.0, 1.0]])), contingency(np.array([[2.0, 2.0], [1.0, 1.0]]))
    (1.0, 0.0)
    """
    total = table.sum()
    if not total > 0:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    there = expected > 0
    return float(((table - expected)[there] ** 2 / expected[there]).sum() / total)


class RegressionOverlap(ExpensiveMeasure):
    """The mean overlap of 95% confidence intervals of regression coefficients from the release and from the source.

    Karr, Kohnen, Oganian, Reiter and Sanil, "A framework for evaluating the utility of data altered to protect
    confidentiality" (American Statistician 60, 2006): the overlap is relative to the length of both intervals, and 0
    if they are disjoint. The outcome is the first sensitive attribute or, without one, the last attribute. It is
    regressed by least squares on at most twelve of the other attributes. Numbers and dates enter as they are;
    a category enters as the indicator of its most frequent value. Subgroups are the bins of every other attribute with
    at least ten records in the source.
    """

    name = "regression-overlap"
    title = "mean overlap of the confidence intervals of regression coefficients in the release and in the source"
    better = "higher"
    within = (0.0, 1.0)
    figure_titles = {  # noqa: RUF012
        "subgroup-error": "median error of the outcome's mean in subgroups, in its standard deviations",
        "subgroup-error-95": "error that 95% of these means stay under",
    }

    def applies(self, problem: Problem) -> bool:
        return len(problem.quasi) + len(problem.sensitive) > 1

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return analyse(problem, view_plan(problem, plan))


def measure_rows(problem: Problem, rows: Rows) -> Utility:
    """Return the errors of analyses of any rows; a single attribute has only errors of counts."""
    found: Utility = dict(count_errors(problem, rows))
    if len(problem.quasi) + len(problem.sensitive) > 1:
        found |= {AssociationKept.name: association_kept(problem, rows), **analyse(problem, rows)}
    return found


def analyse(problem: Problem, rows: Rows) -> dict[str, float]:
    """Return the overlap of coefficients, and median and 95th percentile of the errors of subgroup means."""
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
    """Return the ends of the confidence intervals of the coefficients of the last attribute on the others."""
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

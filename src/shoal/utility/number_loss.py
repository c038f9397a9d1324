"""il1s, eigenvalue-loss: how far published numbers are from the records' own, and how their covariances changed."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure

_LITTLE = 1e-9


class NumberLoss(ExpensiveMeasure):
    """IL1s: the mean distance of published numbers from the records' own, over sqrt(2) standard deviations of these.

    Mateo-Sanz, Sebe and Domingo-Ferrer, "Outlier protection in continuous microdata masking" (PSD 2004). Numbers are
    the quasi attributes that are numbers or dates; an interval is read as its middle. With two or more of them a
    further figure compares the eigenvalues of both covariance matrices (Templ and Meindl, PSD 2008), in standard
    deviations of the source: the sum of their differences over the sum of the source's.
    """

    name = "il1s"
    title = "mean distance of published numbers from the records' own, in sqrt(2) standard deviations"
    better = "lower"
    figure_titles = {  # noqa: RUF012
        "eigenvalue-loss": "relative change of the eigenvalues of the numbers' covariance matrix"
    }

    def applies(self, problem: Problem) -> bool:
        """There must be a number."""
        return any(attribute.taxonomy.positions is not None for attribute in problem.quasi)

    def of(self, problem: Problem, plan: Plan) -> float:
        return measure_numbers(problem, plan)[self.name]

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return measure_numbers(problem, plan)


def measure_numbers(problem: Problem, plan: Plan) -> dict[str, float]:
    """Return IL1s and, of several numbers, the change of eigenvalues; 0 where nothing is published."""
    cell, class_of, records, _ = plan.pieces(problem.cells.counts)
    shown = class_of >= 0
    cell, class_of, weights = cell[shown], class_of[shown], records[shown].astype(np.float64)
    true, published, losses = [], [], []
    for place, attribute in enumerate(problem.quasi):
        if (places := attribute.taxonomy.positions) is None or not len(cell):
            continue
        own = places[problem.quasi_codes[place][cell]]
        read = _middles(places, plan, place)[class_of]
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


def _middles(places: FloatArray, plan: Plan, place: int) -> FloatArray:
    """Return (n_classes,) the middle of what each class publishes of an attribute; NaN if that is missing."""
    lo, last = plan.lo[:, place], plan.hi[:, place] - 1
    if np.isnan(places[-1]):  # the leaf of missing values comes last, and has no place on the line
        last = np.where(last > lo, np.minimum(last, len(places) - 2), last)
    return np.asarray((places[lo] + places[last]) / 2)

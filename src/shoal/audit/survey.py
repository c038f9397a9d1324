"""The risk of records in a sample: uniqueness in the population, and the probability that a match is right.

Estimates from log-linear models of the quasi values: Skinner and Shlomo, "Assessing identification risk in survey
microdata using log-linear models", JASA 103, 2008. In contrast to models of class sizes these use the values: a unique
record with frequent values is less at risk. The individual risk is for surveys with weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod, sqrt

import numpy as np

from shoal.audit.raw import RawTable
from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.core.progress import Progress
from shoal.core.results import Figures
from shoal.engines.local import LocalEngine
from shoal.sources.base import Source
from shoal.utility.marginals import read_weights
from shoal.utility.rows import sum_weights

MOST_CELLS = 2_000_000  # combinations of values that are fitted
_SWEEPS, _CLOSE = 200, 1e-3  # of iterative proportional fitting: the most sweeps; the share of records misplaced
_UNDERFITS = 1.96  # standard errors


@dataclass(frozen=True, slots=True)
class LogLinearRisk(Figures):
    """A model of main effects and some two-way interactions, the strongest first, or why it was not fitted."""

    interactions: int  # pairs of attributes: none (independence), enough, or all
    population_uniques: float | None = None  # tau1: unique records expected to be unique in the population
    correct_matches: float | None = None  # tau2: expected right matches if each is matched with one candidate
    misfit: float | None = None  # B1 over its standard error: above 1.96 the model underfits, and overstates the risk
    misfit_of_matches: float | None = None  # B2, the same for tau2
    chosen: bool = False  # the simplest model that does not underfit
    refusal: str | None = None


def estimate_loglinear(codes: Sequence[AnyIntArray], sizes: IntArray, fraction: float) -> tuple[LogLinearRisk, ...]:
    """Fit independence, all pairs, and by forward selection the model between them that does not underfit.

    *codes* are the (n_classes,) quasi values of the sample's classes, *sizes* their records. The necessary number of
    pairs is found by bisection: estimates fall with every pair, and so does the statistic of misfit.

    >>> codes = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    >>> found, _ = estimate_loglinear(codes, np.array([9, 1, 3, 2]), 0.5)
    >>> found.chosen, round(found.population_uniques, 4), round(found.correct_matches, 4)
    (True, 0.1353, 0.4323)
    """
    folded = [np.unique(column, return_inverse=True) for column in codes]
    shape = tuple(len(values) for values, _ in folded)
    place = tuple(inverse.reshape(-1) for _, inverse in folded)
    pairs = list(combinations(range(len(shape)), 2))
    if prod(shape) > MOST_CELLS:
        margins = [np.bincount(own, weights=sizes) / sizes.sum() for own in place]
        expected = sizes.sum() * np.prod([margin[own] for margin, own in zip(margins, place, strict=True)], axis=0)
        why = f"the quasi attributes have {prod(shape):,} combinations; at most {MOST_CELLS:,} are fitted"
        return _measure(0, expected, sizes, fraction, None), LogLinearRisk(len(pairs), refusal=why)
    table = np.zeros(shape)
    table[place] = sizes
    pairs.sort(key=lambda pair: -_measure_association(table, pair))

    def fit(n_pairs: int) -> LogLinearRisk:
        fitted = fit_margins(table, [*((axis,) for axis in range(table.ndim)), *pairs[:n_pairs]])
        if fitted is None:
            return LogLinearRisk(n_pairs, refusal=f"the fit did not converge in {_SWEEPS} sweeps")
        return _measure(n_pairs, fitted[place], sizes, fraction, (fitted.ravel(), table.ravel()))

    found = {0: fit(0), len(pairs): fit(len(pairs))}
    low, high = -1, len(pairs)
    while high - low > 1:
        middle = 0 if low < 0 else (low + high) // 2
        one = found.setdefault(middle, found.get(middle) or fit(middle))
        low, high = (low, middle) if one.misfit is not None and one.misfit <= _UNDERFITS else (middle, high)
    found[high] = replace(found[high], chosen=found[high].population_uniques is not None)
    return tuple(found[n_pairs] for n_pairs in sorted({0, high, len(pairs)}))


def _measure_association(table: FloatArray, pair: tuple[int, int]) -> float:
    """Return the mutual information of two attributes."""
    joint = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in pair)) / table.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())


def fit_margins(table: FloatArray, kept: Sequence[tuple[int, ...]]) -> FloatArray | None:
    """Return the maximum likelihood table with the observed margins over these axes; None if fitting does not converge.

    Iterative proportional fitting, after Deming and Stephan: scale the table to one margin after the other.
    """
    others = [tuple(axis for axis in range(table.ndim) if axis not in own) for own in kept]
    margins = [table.sum(axis=gone, keepdims=True) for gone in others]
    fitted = np.full(table.shape, table.sum() / table.size)
    for _ in range(_SWEEPS):
        largest = 0.0
        for gone, margin in zip(others, margins, strict=True):
            now = fitted.sum(axis=gone, keepdims=True)
            largest = max(largest, float(np.abs(now - margin).sum()))
            fitted *= np.divide(margin, now, out=np.zeros_like(now), where=now > 0)
        if largest <= _CLOSE * float(table.sum()):
            return fitted
    return None


def _measure(
    n_pairs: int, expected: FloatArray, sizes: IntArray, fraction: float, cells: tuple[FloatArray, FloatArray] | None
) -> LogLinearRisk:
    """Sum the risks of unique records; *cells* are the fitted and the observed counts of all combinations."""
    unseen = expected[sizes == 1] / fraction * (1 - fraction)  # others in the population, of each unique record
    matches = np.divide(-np.expm1(-unseen), unseen, out=np.ones_like(unseen), where=unseen > 0)
    found = LogLinearRisk(n_pairs, float(np.exp(-unseen).sum()), float(matches.sum()))
    if cells is None or fraction == 1:
        return found
    fitted, observed = (column[cells[0] > 0] for column in cells)
    x = fitted / fraction * (1 - fraction)
    e = np.exp(-x)
    # first and second derivatives of both risks by x; near 0 the derivatives of (1 - e) / x are -1/2 and 1/3
    small = x < 1e-3
    near = np.where(small, 1.0, x)
    first = np.where(small, -0.5 + x / 3, (e * (near + 1) - 1) / near**2)
    second = np.where(small, 1 / 3 - x / 4, (2 - e * (near**2 + 2 * near + 2)) / near**3)
    surplus, squares = observed - fitted, (observed - fitted) ** 2 - observed
    statistics = []
    for slope, bend in ((-e, e), (first, second)):
        rate, step = fitted / fraction * np.exp(-fitted), 1 - fraction
        a, b = -rate * slope * step, rate * bend * step**2 / (2 * fraction)
        error = sqrt(float((a**2 * fitted + 2 * b**2 * fitted**2).sum()))
        statistics.append(float((a * surplus + b * squares).sum()) / error if error else 0.0)
    return replace(found, misfit=statistics[0], misfit_of_matches=statistics[1])


ABOVE = (0.05, 0.2, 0.33)  # risks for which the number of records above is stated
_SERIES = 30  # records of a class from which the series needs few terms
_PRECISION = 1e-15


@dataclass(frozen=True, slots=True)
class IndividualRisk(Figures):
    """Risks estimated with the weights of a survey, for an attacker who searches in the population.

    The number of people in the population who share a class's values is unknown and estimated by the sum of the weights
    of its records, so all figures are estimates.
    """

    weight: str  # the column
    population: float  # the sum of all weights
    highest: float
    mean: float
    expected: float  # re-identifications, if an attacker searches for every record
    population_uniques: float  # expected number of records that are unique in the population
    records_above: tuple[tuple[float, int], ...]

    def as_dict(self) -> dict[str, object]:
        found = Figures.as_dict(self)
        return found | {"records_above": {f"{risk:g}": records for risk, records in self.records_above}}

    @classmethod
    def of(cls, weight: str, sizes: IntArray, weights: FloatArray) -> IndividualRisk:
        """Estimate the risks of classes of these *sizes* whose records have these sums of *weights*."""
        risks, n_records = estimate_risks(sizes, weights), int(sizes.sum())
        expected = float((sizes * risks).sum())
        return cls(
            weight=weight,
            population=float(weights.sum()),
            highest=float(risks.max()),
            mean=expected / n_records,
            expected=expected,
            population_uniques=float(np.minimum(1 / np.maximum(weights[sizes == 1], 1), 1).sum()),
            records_above=tuple((limit, int(sizes[risks > limit].sum())) for limit in ABOVE),
        )


def estimate_risks(sizes: IntArray, weights: FloatArray) -> FloatArray:
    """Return (n_classes,) the mean of 1 / F, where F people of the population share the values of f records.

    F given f is negative binomial, with the sampling fraction p = f / (sum of the weights): Benedetti and Franconi,
    "Statistical and technological solutions for controlled data dissemination" (NTTS 1998); Franconi and Polettini,
    "Individual risk estimation in mu-Argus: a review" (PSD 2004). With q = 1 - p the mean is

        r(f) = p^f / f 2F1(f, f; f + 1; q) = p / f 2F1(1, 1; f + 1; q)

    by Euler's transformation. As an integral, p times that of (1 - t)^(f - 1) / (1 - q t) from 0 to 1, it follows that

        r(1) = p / q log(1 / p)    and    r(f + 1) = p / q (1 / f - r(f)),

    the closed forms for one, two, three and more records. The recursion loses digits if p / q is above 1, and is long
    for large classes; then the series of 2F1, whose terms are positive, converges fast. A class whose weights are less
    than its records is assumed to be complete: 1 / f.

    >>> estimate_risks(np.array([1, 2, 2]), np.array([17.0, 110.0, 2.0])).round(3)
    array([0.177, 0.017, 0.5  ])
    """
    p = sizes / np.maximum(weights, sizes)
    series = (p >= 0.5) | (sizes >= _SERIES)
    risks = np.empty(len(sizes))
    risks[series] = _sum_series(sizes[series], p[series])
    risks[~series] = _recur(sizes[~series], p[~series])
    return risks


def _recur(sizes: IntArray, p: FloatArray) -> FloatArray:
    odds = p / (1 - p)
    found = -odds * np.log(p)
    for f in range(1, int(sizes.max(initial=1))):
        found = np.where(sizes > f, odds * (1 / f - found), found)
    return found


def _sum_series(sizes: IntArray, p: FloatArray) -> FloatArray:
    term, total, n = np.ones(len(p)), np.ones(len(p)), 0
    while (term > _PRECISION * total).any():
        term = term * (1 - p) * (n + 1) / (sizes + 1 + n)
        total, n = total + term, n + 1
    return np.asarray(p / sizes * total)


def individual_risk(
    source: Source, weight: str, raw: RawTable, engine: LocalEngine, progress: Progress
) -> IndividualRisk:
    """Add up the weights of every class in one more pass, and estimate the risks of its records."""
    sums = np.zeros(len(raw.counted.run.counts))
    for located in engine.locate(source, raw.counted, [weight], progress):
        sums += sum_weights(located.cells, read_weights(located.batch[weight], weight), len(sums))
    kept = sums if raw.encoding.kept is None else sums[raw.encoding.kept]
    return IndividualRisk.of(weight, raw.sizes, np.add.reduceat(kept, raw.first[:-1]))

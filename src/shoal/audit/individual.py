"""The individual risk of records in a survey with weights: how likely a match with a record is the right person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.audit.raw import RawTable
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.progress import Progress
from shoal.core.results import Figures
from shoal.engines.local import LocalEngine
from shoal.sources.base import Source
from shoal.utility.marginals import read_weights
from shoal.utility.rows import sum_weights

ABOVE = (0.05, 0.2, 0.33)  # risks of which it is stated how many records exceed them
_SERIES = 30  # records of a class from which on the series needs few terms
_PRECISION = 1e-15


@dataclass(frozen=True, slots=True)
class IndividualRisk(Figures):
    """Risks that were estimated with the weights of a survey, for somebody who searches in the population.

    The people of the population who share a class's values are not known: their number is estimated by the sum of the
    weights of its records, so all of these figures are estimates.
    """

    weight: str  # the column
    population: float  # the sum of all weights
    highest: float
    mean: float
    expected: float  # re-identifications, if somebody looks for every record
    population_uniques: float  # records of which it is expected that nobody else in the population has their values
    records_above: tuple[tuple[float, int], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
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

    the closed forms for one, two, three and more records. The recursion loses digits where p / q is above 1, and is
    long for large classes; there the series of 2F1, whose terms are positive, converges fast. A class whose weights
    are less than its records is taken for all of its people: 1 / f.

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

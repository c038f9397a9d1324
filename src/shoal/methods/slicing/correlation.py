"""How strongly two attributes go together: what decides which of them share a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.plan.problem import Problem
from shoal.taxonomies.tree import Taxonomy

Measure: TypeAlias = Literal["phi2", "pearson"]

_DENSE_PAIRS = 1 << 20  # contingency tables up to this many entries are counted in full
_DIGITS = 12  # beyond them is rounding, which must not decide between attributes that go together equally well


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """One attribute, cell by cell: a value or, where its leaves are many numbers or days, an interval of them."""

    codes: CodeArray  # (n_cells,) dense
    shares: FloatArray  # (n_values,) of the records; each is above zero
    numbers: FloatArray | None  # (n_cells,) within [0, 1], NaN where missing; None for categories


def correlations(problem: Problem, measure: Measure, intervals: int) -> FloatArray:
    """Return (d, d) correlations within [0, 1] of all quasi, then all sensitive attributes; the diagonal is 1.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), section 4.1.1: ``phi2`` is the mean-square contingency
    coefficient over the values that occur, a missing one being a value too; 0 if either attribute is constant.
    Numbers and dates of which more than *intervals* leaves occur are cut in that many intervals of equal width from
    the least to the greatest that occurs: here only, nothing of it is published. ``pearson`` is the square of
    Pearson's coefficient where both attributes are numbers or dates, over the records that have both, and phi2
    elsewhere.
    """
    present = np.flatnonzero(problem.cells.counts > 0)  # the other cells only a population has
    records = problem.cells.counts[present].astype(np.float64)
    attributes = (*problem.quasi, *problem.sensitive)
    values = [
        _values(attribute.taxonomy, codes[present], records, intervals)
        for attribute, codes in zip(attributes, problem.cells.codes, strict=True)
    ]
    found = np.eye(len(values))
    for i, one in enumerate(values):
        for j in range(i):
            found[i, j] = found[j, i] = _correlation(one, values[j], records, measure)
    return found


def _correlation(one: _Values, other: _Values, records: FloatArray, measure: Measure) -> float:
    if measure == "pearson" and one.numbers is not None and other.numbers is not None:
        both = ~(np.isnan(one.numbers) | np.isnan(other.numbers))
        return round(_squared_pearson(one.numbers[both], other.numbers[both], records[both]), _DIGITS)
    return round(_phi2(one, other, records), _DIGITS)


def _phi2(one: _Values, other: _Values, records: FloatArray) -> float:
    smaller = min(len(one.shares), len(other.shares))
    if smaller < 2:
        return 0.0
    # pairs that do not occur add nothing to sum f_ij^2 / (f_i f_j), which exceeds the sum of the definition by 1
    pair = one.codes.astype(np.int64) * len(other.shares) + other.codes  # (n_cells,)
    occurring, total = _summed(pair, records, len(one.shares) * len(other.shares))
    first, second = np.divmod(occurring, len(other.shares))
    share = total / records.sum()
    excess = float(np.sum(share / one.shares[first] * (share / other.shares[second]))) - 1.0
    return min(max(excess / (smaller - 1), 0.0), 1.0)


def _summed(pair: IntArray, records: FloatArray, n_pairs: int) -> tuple[IntArray, FloatArray]:
    """Return the pairs that occur, ascending, and their records; memory is bounded by the number of cells."""
    if n_pairs <= _DENSE_PAIRS:
        total = np.asarray(np.bincount(pair, weights=records, minlength=n_pairs), dtype=np.float64)
        occurring: IntArray = np.flatnonzero(total)
        return occurring, total[occurring]
    occurring, place = np.unique(pair, return_inverse=True)
    return occurring, np.asarray(np.bincount(place.reshape(-1), weights=records), dtype=np.float64)


def _squared_pearson(one: FloatArray, other: FloatArray, records: FloatArray) -> float:
    if not len(records) or one.min() == one.max() or other.min() == other.max():
        return 0.0
    first = one - np.average(one, weights=records)
    second = other - np.average(other, weights=records)
    together = float(np.sum(records * first * second))
    spread = float(np.sum(records * first * first)) * float(np.sum(records * second * second))
    return min(together * together / spread, 1.0) if spread > 0.0 else 0.0


def _values(taxonomy: Taxonomy, codes: AnyIntArray, records: FloatArray, intervals: int) -> _Values:
    occurs = np.bincount(codes, minlength=taxonomy.n_leaves) > 0
    places = _unit_places(taxonomy.positions, occurs)
    value = np.arange(taxonomy.n_leaves)  # (n_leaves,) leaf -> value
    if places is not None and int((occurs & ~np.isnan(places)).sum()) > intervals:
        value = np.where(np.isnan(places), intervals, np.minimum(np.nan_to_num(places) * intervals, intervals - 1))
        value = np.floor(value).astype(np.int64)
    dense = np.zeros(taxonomy.n_leaves, dtype=np.int32)
    dense[occurs] = np.unique(value[occurs], return_inverse=True)[1].reshape(-1)
    of_cell = dense[codes]
    shares = np.bincount(of_cell, weights=records) / records.sum()
    return _Values(of_cell, shares, None if places is None else places[codes])


def _unit_places(positions: FloatArray | None, occurs: BoolArray) -> FloatArray | None:
    """Return (n_leaves,) places from 0, the least that occurs, to 1, the greatest; NaN for the missing leaf.

    Leaves that do not occur lie anywhere within. Halves keep the range of the widest decimals finite.
    """
    if positions is None:
        return None
    halves = positions / 2.0
    used = halves[occurs & ~np.isnan(halves)]
    if not len(used) or used.min() == used.max():
        return np.where(np.isnan(halves), np.nan, 0.0)
    low, high = used.min(), used.max()
    return np.asarray((np.clip(halves, low, high) - low) / (high - low), dtype=np.float64)

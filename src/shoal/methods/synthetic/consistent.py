"""From noisy counts that contradict each other to ones that do not: no counts below 0, the same totals everywhere.

Nothing here looks at the data, so nothing here costs privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.plan.synthetic import Pair

_ROUNDS = 100
_CLOSE = 1e-7  # of the total; rows are whole numbers anyway
_FLOORS = (1e-9, 1e-2)  # shares of a pair's counts that are independent, so that every marginal can be reached


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Noisy counts, and the variance of the noise in each cell."""

    counts: IntArray
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Marginals of attributes and of pairs that agree with each other; all add up to ``total``."""

    total: float
    alone: tuple[FloatArray, ...]
    pairs: Mapping[Pair, FloatArray]


def non_negative(counts: FloatArray, total: float) -> FloatArray:
    """Return the nearest counts, by squares, that are not below 0 and add up to the total.

    >>> non_negative(np.array([5.0, -1.0, 2.0]), 6.0)
    array([4.5, 0. , 1.5])
    """
    falling = np.sort(counts.ravel())[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)
    shift = float(excess[last[-1]]) if len(last) else float(excess[0])
    return np.maximum(counts - shift, 0.0)


def consistent(alone: Sequence[Measured], pairs: Mapping[Pair, Measured]) -> TreeModel:
    """Average what several tables say of the same marginal, by the inverse of its variance, and fit pairs to it."""
    everything = [*alone, *pairs.values()]
    trust = np.array([1.0 / (measured.variance * measured.counts.size) for measured in everything])
    totals = np.array([float(measured.counts.sum()) for measured in everything])
    total = max(float(np.sum(trust * totals) / np.sum(trust)), 1.0)
    marginals = tuple(non_negative(_averaged(place, measured, pairs), total) for place, measured in enumerate(alone))
    fitted = {
        pair: _fitted(non_negative(measured.counts.astype(np.float64), total), marginals[pair[0]], marginals[pair[1]])
        for pair, measured in pairs.items()
    }
    return TreeModel(total, marginals, fitted)


def _averaged(place: int, measured: Measured, pairs: Mapping[Pair, Measured]) -> FloatArray:
    found = [(measured.counts, 1.0 / measured.variance)]
    for pair, table in pairs.items():
        if place in pair:
            axis = 1 - pair.index(place)
            found.append((table.counts.sum(axis=axis), 1.0 / (table.variance * table.counts.shape[axis])))
    counts, weights = zip(*found, strict=True)
    return np.average(np.array(counts, dtype=np.float64), axis=0, weights=weights)


def _fitted(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Scale rows and columns in turn until both add up as they should (iterative proportional fitting).

    Where zeros stand in the way, and it would take ages, a little more of what independence says is put in their place.
    """
    total = float(rows.sum())
    fitted = table
    for floor in _FLOORS:
        fitted = table * (1.0 - floor) + floor * np.outer(rows, columns) / total
        for _ in range(_ROUNDS):
            fitted = fitted * _ratio(rows, fitted.sum(axis=1))[:, np.newaxis]
            fitted = fitted * _ratio(columns, fitted.sum(axis=0))
            if np.abs(fitted.sum(axis=1) - rows).max() <= _CLOSE * total:
                return fitted
    return fitted


def _ratio(wanted: FloatArray, found: FloatArray) -> FloatArray:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)

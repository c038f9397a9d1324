"""Records as points: numbers in units of their spread, categories equal or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.errors import InputError, PolicyError

UNITS = 2.0**20  # of one standard deviation; coordinates are whole numbers of them, so that sums are exact


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Records in the order of their values, not of their rows: what is done with them depends on no row order.

    The squared distance of two records is the sum over the attributes of weight * (a - b)**2 / variance for numbers
    and of weight * 2 [a != b] / (1 - sum of squared shares) for categories: between two random records each attribute
    counts 2 on average, times its weight. Sums of coordinates stay below 2**53 and are thereby exact up to 2**32 rows.
    """

    order: IntArray  # (n_records,) the row of each record
    numbers: FloatArray  # (n_records, n_numbers) whole numbers of units
    categories: CodeArray  # (n_records, n_categories)
    n_values: IntArray  # (n_categories,) codes of each categorical attribute
    unequal: FloatArray  # (n_categories,) squared distance of two different values, in squared units

    @classmethod
    def of(
        cls,
        numbers: Sequence[FloatArray],
        categories: Sequence[CodeArray],
        weights: Sequence[float] | None = None,
    ) -> Space:
        """Build from columns of finite numbers and of codes from 0 on; *weights* are of numbers first."""
        n_columns = len(numbers) + len(categories)
        if n_columns == 0:
            raise PolicyError("microaggregation needs at least one attribute to group records by")
        given = np.ones(n_columns) if weights is None else np.asarray(weights, dtype=np.float64)
        if len(given) != n_columns or not (np.isfinite(given) & (given > 0)).all():
            raise PolicyError("microaggregation needs one weight above 0 for each attribute")
        scaled = [
            _scaled(np.asarray(column, dtype=np.float64), weight)
            for column, weight in zip(numbers, given[: len(numbers)], strict=True)
        ]
        codes = [np.asarray(column, dtype=np.int32) for column in categories]
        n_values = np.array([int(column.max()) + 1 for column in codes], dtype=np.int64)
        unequal = np.array(
            [_unequal(column, weight) for column, weight in zip(codes, given[len(numbers) :], strict=True)],
            dtype=np.float64,
        )
        keys: list[Any] = [*codes[::-1], *scaled[::-1]]  # the last one decides first
        order = np.lexsort(keys)
        n_records = len(order)
        return cls(
            order=order,
            numbers=np.stack(scaled, axis=1)[order] if scaled else np.zeros((n_records, 0)),
            categories=np.stack(codes, axis=1)[order] if codes else np.zeros((n_records, 0), dtype=np.int32),
            n_values=n_values,
            unequal=unequal,
        )

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.order)


def _scaled(column: FloatArray, weight: float) -> FloatArray:
    if not np.isfinite(column).all():
        missing = int((~np.isfinite(column)).sum())
        raise InputError(f"microaggregation needs numbers in every record; {missing} are missing or not finite")
    largest = float(np.abs(column).max()) or 1.0
    column = column / largest  # squares of very large numbers would not be finite
    in_order = np.sort(column)  # sums of floats depend on the order, and rows may come in any
    mean = float(in_order.mean())
    deviation = float(np.sqrt(np.mean((in_order - mean) ** 2)))
    if deviation == 0.0:
        return np.zeros(len(column))
    scaled: FloatArray = np.rint((column - mean) / deviation * (UNITS * np.sqrt(weight))) + 0.0
    return scaled


def _unequal(column: CodeArray, weight: float) -> float:
    shares = np.bincount(column) / len(column)
    differing = 1.0 - float(np.sum(shares * shares))
    return float(np.rint(2.0 * UNITS * UNITS * weight / differing)) if differing > 0 else 0.0

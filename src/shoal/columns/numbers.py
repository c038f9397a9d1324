"""Columns of numbers, read from any type and written on a grid of declared decimals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.columns.base import Number, NumberDomain, Treatment
from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import encode_columns, factor_column
from shoal.core.errors import InputError, PolicyError
from shoal.core.wording import count_noun
from shoal.sources.base import Source
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.scales import exact

MOST_DECIMALS = 9
FARTHEST = 2.0**52  # grid steps from 0; floats cannot represent all larger ones


def decimals_of(number: Number) -> int:
    """Return the number of decimals of a number.

    >>> decimals_of(5), decimals_of(0.25), decimals_of(1e-3)
    (0, 2, 3)
    """
    fraction, decimals = exact(number), 0
    while fraction.denominator != 1 and decimals <= MOST_DECIMALS:
        fraction, decimals = fraction * 10, decimals + 1
    return decimals


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of 10**-decimals. Published numbers are among them and disclose no further digits."""

    decimals: int

    @property
    def kind(self) -> pa.DataType:
        return pa.float64() if self.decimals else pa.int64()

    def steps(self, numbers: FloatArray, column: str) -> IntArray:
        """Return (n,) the nearest multiples, counted from 0."""
        scaled = np.rint(numbers * 10.0**self.decimals)
        if (np.abs(scaled) > FARTHEST).any():
            raise InputError(f"column {column!r} has numbers too large for {self.decimals} decimals")
        return scaled.astype(np.int64)

    def step_of(self, number: Number, what: str) -> int:
        """Return the step of a declared number, which must be on the grid."""
        step = exact(number) * 10**self.decimals
        if step.denominator != 1:
            raise PolicyError(f"{what} {number} is not a number of {self.decimals} decimals")
        if abs(step) > FARTHEST:
            raise PolicyError(f"{what} {number} is too large for {self.decimals} decimals")
        return int(step)

    def numbers(self, steps: IntArray, valid: BoolArray) -> pa.Array:
        """Return the column; a single correctly rounded division maps equal steps to equal floats."""
        values: Any = steps if not self.decimals else steps / 10.0**self.decimals
        return pa.array(values, type=self.kind, mask=~valid)


@dataclass(frozen=True, slots=True, eq=False)
class NumberTreatment(Treatment):
    """Rewrites numbers; other texts are refused."""

    grid: Grid

    @abstractmethod
    def steps(self, numbers: FloatArray, valid: BoolArray, first_row: int) -> IntArray:
        """Return (n_rows,) the treated numbers as grid steps; invalid rows are ignored."""

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        numbers, valid = column_numbers(column, self.column)
        return self.grid.numbers(self.steps(numbers, valid, first_row), valid)


def clamp(steps: IntArray, low: int | None, high: int | None) -> IntArray:
    """Limit numbers to bounds, of which None means no bound."""
    steps = steps if low is None else np.maximum(steps, low)
    return steps if high is None else np.minimum(steps, high)


def column_numbers(column: pa.Array, name: str) -> tuple[FloatArray, BoolArray]:
    """Return (n_rows,) numbers and whether each row has one; refuse values that are not finite numbers."""
    if not pa.types.is_dictionary(column.type):
        numbers, valid = decimal_numbers(column)
        strange = int(len(column) - column.null_count - valid.sum())
    else:
        indices, entries = factor_column(column)
        of_entry, fine = decimal_numbers(entries)
        strange = int((~np.append(fine, True)[indices]).sum())
        numbers = np.append(of_entry, 0.0)[indices]
        valid = indices >= 0
    if strange:
        raise InputError(
            f"column {name!r} has {count_noun(strange, 'value')} that cannot be read as a number, but this technique "
            "needs numbers; swapping and permutation accept values of any kind"
        )
    return numbers, valid


def read_numbers(source: Source, names: Sequence[str]) -> FloatArray:
    """Return (n_rows, n_columns) the numbers of columns, NaN if missing; refuse other values."""
    dictionaries, codes = encode_columns(source.batches(list(names), dictionary=list(names)))
    found = []
    for name, dictionary, own in zip(names, dictionaries, codes, strict=True):
        numbers, _ = column_numbers(dictionary.values, name)
        found.append(np.append(np.nan, numbers)[own])
    return np.stack(found, axis=1)


def correlate(numbers: FloatArray) -> FloatArray:
    """Return (n_columns, n_columns) the correlations of (n_rows, n_columns) numbers, 0 for constant columns."""
    centred = numbers - numbers.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    found: FloatArray = scaled.T @ scaled / len(numbers)
    np.fill_diagonal(found, 1.0)
    return found


def within(domain: NumberDomain, column: str, **ends: Number | None) -> NumberDomain:
    """Return the bounds of a technique or, for those not given, of the attribute's taxonomy.

    *ends* are the technique's lower and upper bound, in this order, by their parameter names. They must lie within the
    taxonomy's bounds.
    """
    for name, number in ends.items():
        if number is not None and domain.low is not None and number < domain.low:
            raise PolicyError(f"column {column!r}: {name} {number} is below {domain.low}, where the taxonomy begins")
        if number is not None and domain.high is not None and number > domain.high:
            raise PolicyError(f"column {column!r}: {name} {number} is above {domain.high}, where the taxonomy ends")
    low, high = ends.values()
    return NumberDomain(domain.low if low is None else low, domain.high if high is None else high)


def plain_number(value: Number) -> str:
    """Write a number for readers.

    >>> plain_number(12000), plain_number(0.1)
    ('12,000', '0.1')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def explain_decimals(entry: Mapping[str, Any]) -> str:
    return f"with {count_noun(entry['decimals'], 'decimal')}" if entry["decimals"] else "as whole numbers"

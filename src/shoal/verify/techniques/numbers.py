"""Numbers on a grid of decimals, and sums of some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.verify.fields import ManifestError, number

MOST_DECIMALS = 9
FARTHEST = 2.0**52  # grid steps from 0, beyond which floats skip some
_HALF = 26  # bits


def exact(raw: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth."""
    return Fraction(repr(raw))


def finite(raw: object, where: str) -> int | float:
    """Return a finite number of the manifest as it stands there."""
    if not math.isfinite(number(raw, where)):
        raise ManifestError(f"{where} is not finite")
    return raw  # type: ignore[return-value]


def decimals_of(raw: object, where: str) -> int:
    """Return a declared number of decimals."""
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= MOST_DECIMALS:
        raise ManifestError(f"{where} is not a whole number from 0 to {MOST_DECIMALS}")
    return raw


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of 10**-decimals."""

    decimals: int

    @property
    def kind(self) -> pa.DataType:
        """Whole numbers are stored as such."""
        return pa.float64() if self.decimals else pa.int64()

    def steps(self, numbers: FloatArray) -> FloatArray:
        """Return (n,) the nearest multiples, in steps from 0."""
        return np.rint(numbers * 10.0**self.decimals) + 0.0

    def step_of(self, raw: float, where: str) -> int:
        """Return the step of a declared number, which must be on the grid."""
        step = exact(raw) * 10**self.decimals
        if step.denominator != 1 or abs(step) > FARTHEST:
            raise ManifestError(f"{where} is not a number of {self.decimals} decimals")
        return int(step)

    def numbers(self, steps: FloatArray) -> FloatArray:
        """Return (n,) the numbers of steps."""
        return steps / 10.0**self.decimals if self.decimals else steps

    def array(self, steps: FloatArray) -> pa.Array:
        """Return the column of steps."""
        values: Any = self.numbers(steps) if self.decimals else steps.astype(np.int64)
        return pa.array(values, type=self.kind)

    def holds(self, numbers: FloatArray) -> BoolArray:
        """Return (n,) whether numbers are on the grid, to the last digit, and near enough that every step can be."""
        steps = self.steps(numbers)
        return np.asarray((np.abs(steps) <= FARTHEST) & (self.numbers(steps) == numbers), dtype=np.bool_)


def summed(steps: FloatArray, counts: IntArray) -> int:
    """Return the sum of whole numbers, each as often as it is counted, exactly.

    >>> summed(np.array([2.0**52, -1.0]), np.array([4, 1])) == 4 * 2**52 - 1
    True
    """
    whole = steps.astype(np.int64)
    high = whole >> _HALF
    low = whole - (high << _HALF)
    # Below 2**63 for up to 2**37 rows.
    return (int((high * counts).sum()) << _HALF) + int((low * counts).sum())


def extreme_sums(steps: FloatArray, counts: IntArray, n: int) -> tuple[int, int]:
    """Return the smallest and the largest sum that n of some numbers can have; steps ascend.

    >>> extreme_sums(np.array([1.0, 5.0]), np.array([2, 2]), 3)
    (7, 11)
    """
    return summed(steps, _first(counts, n)), summed(steps[::-1], _first(counts[::-1], n))


def _first(counts: IntArray, n: int) -> IntArray:
    before = np.cumsum(counts) - counts
    return np.asarray(np.clip(n - before, 0, counts), dtype=np.int64)


def order_statistics(steps: FloatArray, counts: IntArray, ranks: IntArray) -> FloatArray:
    """Return (n,) the numbers at some ranks, from 0, of all rows in ascending order; steps ascend."""
    return steps[np.searchsorted(np.cumsum(counts), ranks, side="right")]

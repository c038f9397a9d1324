"""Rounding: to the nearest it is recomputed, at random each number must be next to the source's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import FloatArray
from shoal.verify.fields import ManifestError, check_keys
from shoal.verify.result import FALSE_ALARM
from shoal.verify.techniques.base import kept_missing
from shoal.verify.techniques.gridded import Gridded
from shoal.verify.techniques.numbers import (
    MOST_DECIMALS,
    Grid,
    exact,
    extreme_sums,
    finite,
    order_statistics,
    summed,
)
from shoal.verify.techniques.values import ColumnValues, as_numbers


@dataclass(frozen=True, slots=True)
class Rounding(Gridded):
    """Multiples of a base, from the first to the last in the declared domain."""

    name: ClassVar[str] = "rounding"
    off_grid: ClassVar[str] = "has numbers that are no multiples of the base"

    unit: int  # the base in grid steps
    random: bool
    low: int | None  # multiples
    high: int | None

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Rounding:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "base", "random"), ("min", "max"))
        base = finite(entry["base"], f"{where}.base")
        decimals = next((d for d in range(MOST_DECIMALS + 1) if (exact(base) * 10**d).denominator == 1), None)
        if base <= 0 or decimals is None:
            raise ManifestError(f"{where}.base is not above 0, or has more than {MOST_DECIMALS} decimals")
        if not isinstance(entry["random"], bool):
            raise ManifestError(f"{where}.random is neither true nor false")
        grid = Grid(decimals)
        ends = {
            end: exact(finite(entry[end], f"{where}.{end}")) / exact(base) for end in ("min", "max") if end in entry
        }
        low = math.ceil(ends["min"]) if "min" in ends else None
        high = math.floor(ends["max"]) if "max" in ends else None
        if low is not None and high is not None and low > high:
            raise ManifestError(f"{where} has no multiple of its base between min and max")
        return cls(column, grid, grid.step_of(base, f"{where}.base"), entry["random"], low, high)

    @property
    def determined(self) -> bool:
        """To the nearest, halves up."""
        return not self.random

    def recomputed(self, values: pa.Array) -> pa.Array:
        """Return the nearest multiples."""
        scaled = self.scaled(as_numbers(values), self.unit)
        below = np.floor(scaled)
        return self.grid.array(self._cut(below + (scaled - below >= 0.5)) * self.unit)

    def _cut(self, multiples: FloatArray) -> FloatArray:
        multiples = multiples if self.low is None else np.maximum(multiples, self.low)
        return multiples if self.high is None else np.minimum(multiples, self.high)

    def misplaced(self, steps: FloatArray) -> str | None:
        """Numbers are multiples in the domain."""
        if bool((np.fmod(steps, self.unit) != 0).any()):
            return self.off_grid
        multiples = steps / self.unit
        if bool((self._cut(multiples) != multiples).any()):
            return "has numbers outside the declared domain"
        return None

    def unlike(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Sorted, no number is a base or more away from what the source allows; the sum is where chance puts it.

        Each number is one of the two multiples around its source number, so the i-th smallest of some is not below the
        lower one around the i-th smallest of all, and likewise from above. Errors are independent, have mean 0 and lie
        in an interval of one base: Hoeffding's inequality bounds their sum.
        """
        if fault := kept_missing(published, original):
            return fault
        mine, theirs = published.numbers(), original.numbers()
        if mine is None or theirs is None:
            return "has values that are no numbers, here or in the source"
        (numbers, counts), (sources, source_counts) = mine, theirs
        multiples, scaled = self.grid.steps(numbers) / self.unit, self._cut(self.scaled(sources, self.unit))
        below, above = self._cut(np.floor(scaled)), self._cut(np.ceil(scaled))
        n, everything = published.present, original.present
        first, last = np.cumsum(counts) - counts, np.cumsum(counts) - 1
        lowest = order_statistics(below, source_counts, last)
        highest = order_statistics(above, source_counts, everything - n + first)
        if bool((multiples < lowest).any()) or bool((multiples > highest).any()):
            return "has numbers that are a base or more away from the source's"
        fine = 2**20 if bool((np.abs(scaled) < 2.0**31).all()) else 1  # parts of a base that sums are counted in
        least, most = extreme_sums(np.floor(scaled * fine), source_counts, n)
        reach = fine * math.sqrt(n * math.log(2 / FALSE_ALARM) / 2) + n
        if not least - reach <= summed(multiples, counts) * fine <= most + n + reach:
            return "has numbers whose sum random rounding does not explain"
        return None

    @property
    def confirmed(self) -> str:
        """What was found."""
        return "rounded to multiples of the base" + (", at random" if self.random else "")

"""Rounding to multiples of a base, to the nearest or at random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Trace, Treatment
from shoal.columns.numbers import FARTHEST, MOST_DECIMALS, Grid, NumberTreatment, clamp, decimals_of, plain_number
from shoal.columns.row_random import RowRandom, uniform
from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import Source
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.scales import exact


class Rounding(Technique):
    """Every number becomes a multiple of the base less than one base away, by default the nearest; halves go up.

    Random rounding goes up with the probability that preserves the mean.
    """

    name = "rounding"
    title = "numbers rounded to multiples of a base"
    roles = ("quasi", "sensitive", "insensitive")
    keeps_owners = True

    base: int | float = Field(gt=0, allow_inf_nan=False, description="published numbers are multiples of this")
    random: bool = Field(default=False, description="whether to round up or down at random, which preserves the mean")

    @property
    def determined(self) -> bool:
        return not self.random

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if decimals_of(self.base) > MOST_DECIMALS:
            raise ValueError(f"base must have at most {MOST_DECIMALS} decimals")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        """Describe the rounding.

        >>> Rounding.explain({"technique": "rounding", "base": 5, "random": False})
        'numbers were rounded to the nearest multiple of 5, halves up.'
        """
        base = plain_number(entry["base"])
        if entry["random"]:
            return f"numbers were rounded up or down to a multiple of {base} at random, which preserves the mean."
        return f"numbers were rounded to the nearest multiple of {base}, halves up."

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        """An adversary can repeat rounding to the nearest; random rounding moves a number by less than one base."""
        if entry.get("random"):
            return Trace(blur=float(entry["base"]), numbers=True)
        return Trace(numbers=True, replay=partial(_round_values, entry["base"]))

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        grid = Grid(decimals_of(self.base))
        low = None if domain.low is None else math.ceil(exact(domain.low) / exact(self.base))
        high = None if domain.high is None else math.floor(exact(domain.high) / exact(self.base))
        if low is not None and high is not None and low > high:
            raise PolicyError(f"column {column!r}: no multiple of {self.base} is in its declared domain")
        unit = grid.step_of(self.base, "base")
        random = RowRandom.of(chance) if self.random else None
        said = self.public(**domain.ends)
        return RoundingTreatment(column, grid.kind, said, grid, unit, random, low, high)


def _round_values(base: float, values: pa.Array, published: tuple[float, float] | None) -> pa.Array:
    """Return the nearest multiples, halves up; those one base beyond the published range become its ends.

    >>> _round_values(5, pa.array(["37.5", "98"]), (20.0, 95.0)).to_pylist()
    [40.0, 95.0]
    """
    numbers, valid = decimal_numbers(values)
    unit = 10.0 ** decimals_of(base)
    step = round(base * unit)
    multiples = np.floor(numbers * unit / step + 0.5)
    if published is not None:
        first, last = round(published[0] / base), round(published[1] / base)
        multiples = np.where(multiples == first - 1, first, np.where(multiples == last + 1, last, multiples))
    return pa.array(multiples * step / unit, mask=~valid)


@dataclass(frozen=True, slots=True, eq=False)
class RoundingTreatment(NumberTreatment):
    unit: int  # the base in grid steps
    random: RowRandom | None
    low: int | None  # multiples
    high: int | None

    def steps(self, numbers: FloatArray, valid: BoolArray, first_row: int) -> IntArray:  # noqa: ARG002
        """Return the multiples, limited to those inside the declared domain."""
        scaled = numbers * 10.0**self.grid.decimals / self.unit
        if (np.abs(scaled) > FARTHEST / self.unit).any():
            raise InputError(f"column {self.column!r} has numbers too large to round")
        below = np.floor(scaled)
        if self.random is None:
            up = scaled - below >= 0.5
        else:
            drawn = self.random.draw(first_row, len(numbers), lambda words: uniform(words[:, 0]))
            up = scaled - below > drawn - 2.0**-53  # in [0, 1): multiples stay, others go up with the right probability
        multiples = below.astype(np.int64) + up
        return clamp(multiples, self.low, self.high) * self.unit

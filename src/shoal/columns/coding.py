"""Top and bottom coding: numbers beyond a limit are set to the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Trace, Treatment
from shoal.columns.numbers import (
    MOST_DECIMALS,
    Grid,
    NumberTreatment,
    clamp,
    column_numbers,
    explain_decimals,
    plain_number,
    within,
)
from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.documents import Parameters
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import Source
from shoal.taxonomies.parse import decimal_numbers

_BEYOND = {"bottom": "below", "top": "above"}
_FEWEST_AT_EDGE = 3  # a limit from the data is published and must not be the number of only one or two people


class Shares(Parameters):
    """Shares of the records beyond the edges."""

    top: float | None = Field(default=None, gt=0, lt=1, description="share of the records that get the top code")
    bottom: float | None = Field(default=None, gt=0, lt=1, description="share that gets the bottom code")


class Coding(Technique):
    """No number is above the top or below the bottom; numbers beyond are set to these limits.

    Shares derive the limits from the data, which the public description states. Each such limit is reached by at least
    that share of the records and by at least three of them.
    """

    name = "coding"
    title = "numbers beyond a limit set to the limit"
    roles = ("quasi", "sensitive", "insensitive")
    keeps_owners = True
    determined: ClassVar[bool] = True

    top: int | float | None = Field(default=None, allow_inf_nan=False, description="the largest number published")
    bottom: int | float | None = Field(default=None, allow_inf_nan=False, description="the smallest number published")
    shares: Shares | None = Field(
        default=None, description="limits derived from the data instead of declared ones, such as {top: 0.01}"
    )
    decimals: int = Field(default=0, ge=0, le=MOST_DECIMALS, description="decimals of published numbers")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        shares = self.shares or Shares()
        if (self.top, self.bottom, shares.top, shares.bottom) == (None,) * 4:
            raise ValueError("give top, bottom or both, as numbers or in shares")
        if None not in (self.top, shares.top) or None not in (self.bottom, shares.bottom):
            raise ValueError("a limit is a number or comes from a share, not both")
        if self.top is not None and self.bottom is not None and self.bottom >= self.top:
            raise ValueError(f"top {self.top} must be above bottom {self.bottom}")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        ends = [(word, plain_number(entry[end])) for end, word in _BEYOND.items() if end in entry]
        edges = " and ".join(f"numbers {word} {edge} were set to {edge}" for word, edge in ends)
        origin = " These limits were derived from the data." if entry["edges_from_data"] else ""
        return f"{edges}, and all are published {explain_decimals(entry)}.{origin}"

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Trace(numbers=True, replay=partial(_cut_values, entry))

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        within(domain, column, bottom=self.bottom, top=self.top)
        grid = Grid(self.decimals)
        where = f"column {column!r}"
        top = None if self.top is None else grid.step_of(self.top, f"{where}: top")
        bottom = None if self.bottom is None else grid.step_of(self.bottom, f"{where}: bottom")
        if self.shares is not None:
            steps, records = _count_steps(source, column, grid)
            if self.shares.top is not None:
                top = _edge(steps[::-1], records[::-1], self.shares.top, f"{where}: top")
            if self.shares.bottom is not None:
                bottom = _edge(steps, records, self.shares.bottom, f"{where}: bottom")
            if top is not None and bottom is not None and bottom >= top:
                raise PolicyError(f"{where}: top and bottom coding meet; choose smaller shares")
        steps_of = {"top": top, "bottom": bottom}
        unit = 10**self.decimals
        edges = {name: step / unit if unit > 1 else step for name, step in steps_of.items() if step is not None}
        said = self.public(**edges, edges_from_data=self.shares is not None)
        return CodingTreatment(column, grid.kind, said, grid, top, bottom)


def _cut_values(entry: Mapping[str, Any], values: pa.Array, published: object) -> pa.Array:  # noqa: ARG001
    numbers, valid = decimal_numbers(values)
    unit = 10.0 ** int(entry.get("decimals", 0))
    cut = np.clip(np.rint(numbers * unit) / unit, entry.get("bottom", -np.inf), entry.get("top", np.inf))
    return pa.array(cut, mask=~valid)


@dataclass(frozen=True, slots=True, eq=False)
class CodingTreatment(NumberTreatment):
    top: int | None  # grid steps
    bottom: int | None

    def steps(self, numbers: FloatArray, valid: BoolArray, first_row: int) -> IntArray:  # noqa: ARG002
        return clamp(self.grid.steps(numbers, self.column), self.bottom, self.top)


def _count_steps(source: Source, column: str, grid: Grid) -> tuple[IntArray, IntArray]:
    """Return the distinct numbers of a column as ascending grid steps, and how many records have each."""
    steps, records = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for batch in source.batches([column], dictionary=[column]):
        numbers, valid = column_numbers(batch.column(0), column)
        found, counts = np.unique(grid.steps(numbers[valid], column), return_counts=True)
        steps, place = np.unique(np.concatenate([steps, found]), return_inverse=True)
        records = np.bincount(place, np.concatenate([records, counts]), len(steps)).astype(np.int64)
    if not len(steps):
        raise InputError(f"column {column!r} has no numbers: all values are missing")
    return steps, records


def _edge(steps: IntArray, records: IntArray, share: float, what: str) -> int:
    """Return the first step, from the outside, at or beyond which at least the share of all records lies.

    A limit that only one or two records reach would disclose their numbers, and is refused.
    """
    least = math.ceil(Fraction(repr(share)) * int(records.sum()))
    passed = np.cumsum(records)
    place = int(np.searchsorted(passed, least))
    if passed[place] < _FEWEST_AT_EDGE:
        raise PolicyError(
            f"{what}: fewer than {_FEWEST_AT_EDGE} records would be at the edge, which would disclose one of their "
            "numbers; choose a larger share, or declare the limit"
        )
    return int(steps[place])

"""Numbers that a technique put on a grid of decimals: rounding, top and bottom coding, and noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.manifest import Listed, Positive, StrictEntry
from shoal.verify.techniques.base import (
    MOST_DECIMALS,
    SAME_GAPS,
    ColumnValues,
    Decimals,
    Declared,
    as_numbers,
    compare_missing,
)

FARTHEST = 2.0**52  # grid steps from 0, beyond which floats skip some
_HALF = 26  # bits
Numbers = tuple[FloatArray, IntArray]  # ascending, and how many rows have each
_WIDEST = 2.0**40  # grid steps of noise
_FINE = 20  # bits of a step that sums of the source are counted in
_ROUNDING = 1e-9  # relative: a mean that was computed in floating point may be rounded to the wrong side of a half


def exact(raw: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth."""
    return Fraction(repr(raw))


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of 10**-decimals."""

    decimals: int

    def steps(self, numbers: FloatArray) -> FloatArray:
        """Return (n,) the nearest multiples, in steps from 0."""
        return np.rint(numbers * 10.0**self.decimals) + 0.0

    def step_of(self, raw: float, what: str) -> int:
        """Return the step of a declared number, which must be on the grid."""
        step = exact(raw) * 10**self.decimals
        if step.denominator != 1 or abs(step) > FARTHEST:
            raise ValueError(f"has a {what} that is not a number of {self.decimals} decimals")
        return int(step)

    def numbers(self, steps: FloatArray) -> FloatArray:
        """Return (n,) the numbers of steps."""
        return steps / 10.0**self.decimals if self.decimals else steps

    def array(self, steps: FloatArray) -> pa.Array:
        """Return the column of steps; whole numbers are stored as such."""
        return pa.array(self.numbers(steps) if self.decimals else steps.astype(np.int64))

    def holds(self, numbers: FloatArray) -> BoolArray:
        """Return (n,) whether numbers are on the grid, to the last digit, and near enough that every step can be."""
        steps = self.steps(numbers)
        return np.asarray((np.abs(steps) <= FARTHEST) & (self.numbers(steps) == numbers), dtype=np.bool_)


def sum_steps(steps: FloatArray, counts: IntArray) -> int:
    """Return the sum of whole numbers, each as often as it is counted, exactly.

    >>> sum_steps(np.array([2.0**52, -1.0]), np.array([4, 1])) == 4 * 2**52 - 1
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
    return sum_steps(steps, _first(counts, n)), sum_steps(steps[::-1], _first(counts[::-1], n))


def _first(counts: IntArray, n: int) -> IntArray:
    before = np.cumsum(counts) - counts
    return np.asarray(np.clip(n - before, 0, counts), dtype=np.int64)


def find_average_fault(own: Numbers, original: Numbers, grid: Grid, *, add_up: bool = True) -> str | None:
    """Return a fault if averages, in steps of the grid, are outside the source's range or do not *add up* to its total.

    An average is off by half a step at most, so the sum is by half a step for each row. Where not all rows are
    published nobody knows which are: the sum then lies between those of the least and the greatest numbers.
    """
    if not len(own[0]):
        return None
    first, last = grid.steps(original[0][[0, -1]])
    if own[0][0] < first or own[0][-1] > last:
        return "has averages outside what the source's numbers span"
    if not add_up:
        return None
    n, scaled = int(own[1].sum()), original[0] * 10.0**grid.decimals
    fine = _FINE if bool((np.abs(scaled) < 2.0**31).all()) else 0
    least, most = extreme_sums(np.floor(scaled * 2.0**fine), original[1], n)
    slack = math.ceil(n * 2.0**fine * (0.5 + _ROUNDING))
    if not least - slack <= sum_steps(*own) << fine <= most + n + slack:
        return "has averages that do not add up to the source's total"
    return None


def are_within(own: Numbers, low: FloatArray, high: FloatArray, counts: IntArray) -> bool:
    """Whether numbers can come from others, of which each became one from *low* to *high*.

    The i-th smallest of some numbers is not below the i-th smallest of all lows, and likewise from above. All ascend.
    """
    numbers, times = own
    first, last, ends = np.cumsum(times) - times, np.cumsum(times) - 1, np.cumsum(counts)
    lowest = low[np.searchsorted(ends, last, side="right")]
    highest = high[np.searchsorted(ends, int(counts.sum() - times.sum()) + first, side="right")]
    return not bool((numbers < lowest).any()) and not bool((numbers > highest).any())


Ends = tuple[int | None, int | None]  # None: the numbers are open to this side


class Gridded(Declared):
    """Every published number is a multiple of a unit, in steps of a grid, and between two ends."""

    numeric: ClassVar[bool] = True
    on_grid: ClassVar[str] = "numbers lie on the declared grid"
    off_grid: ClassVar[str] = "has numbers of more decimals than declared"
    beyond: ClassVar[str] = "has numbers outside the declared domain"

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The grid of the published numbers."""

    @property
    def unit(self) -> int:
        """Published numbers are multiples of so many grid steps."""
        return 1

    @property
    @abstractmethod
    def ends(self) -> Ends:
        """The first and the last multiple of the unit."""

    @property
    def finding(self) -> str:
        """Numbers of the grid, in the domain if there is one."""
        return self.on_grid + ("" if self.ends == (None, None) else " and within the declared bounds")

    def clip(self, multiples: FloatArray) -> FloatArray:
        """Return the same numbers, cut at the ends that there are."""
        low, high = self.ends
        multiples = multiples if low is None else np.maximum(multiples, low)
        return multiples if high is None else np.minimum(multiples, high)

    def scale(self, numbers: FloatArray) -> FloatArray:
        """Return numbers of the source in units; those that the grid does not reach are refused."""
        scaled: FloatArray = numbers * 10.0**self.grid.decimals / self.unit
        if not bool((np.abs(scaled) <= FARTHEST / self.unit).all()):
            raise InputError(f"column {self.column!r} of the source has values that are no numbers, or too large ones")
        return scaled

    def find_fault(self, published: ColumnValues) -> str | None:
        """Numbers are on the grid, and where they may be."""
        found = published.numbers()
        if found is None:
            return "has values that are no numbers"
        steps = self.grid.steps(found[0])
        if not bool(self.grid.holds(found[0]).all()) or bool((np.fmod(steps, self.unit) != 0).any()):
            return self.off_grid
        return self.beyond if bool((self.clip(steps / self.unit) != steps / self.unit).any()) else None

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Return why the published numbers cannot come from the source's, if they cannot."""
        if fault := compare_missing(published, original):
            return fault
        mine, theirs = published.numbers(), original.numbers()
        if mine is None or theirs is None:
            return "has values that are no numbers, here or in the source"
        return self.compare_numbers((self.grid.steps(mine[0]) / self.unit, mine[1]), theirs)

    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:  # noqa: ARG002
        """Return why these multiples of the unit cannot come from the source's numbers, if they cannot."""
        return None


class Rounding(Gridded):
    """Multiples of a base, from the first to the last in the declared domain; at random, each next to the source's."""

    off_grid: ClassVar[str] = "has numbers that are no multiples of the base"
    on_grid: ClassVar[str] = "numbers are multiples of the base"
    agreement: ClassVar[str] = "in ascending order each is less than a base away from the source's"
    uncheckable: ClassVar[str] = "the random choice between two multiples"

    base: Positive
    random: bool
    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _fits(self) -> Rounding:
        if not 0 <= self.grid.decimals <= MOST_DECIMALS:
            raise ValueError(f"has a base with more than {MOST_DECIMALS} decimals")
        self.grid.step_of(self.base, "base")
        low, high = self.ends
        if low is not None and high is not None and low > high:
            raise ValueError("has no multiple of its base between min and max")
        return self

    @property
    def grid(self) -> Grid:
        """As many decimals as the base has; -1 for too many."""
        fits = (d for d in range(MOST_DECIMALS + 1) if (exact(self.base) * 10**d).denominator == 1)
        return Grid(next(fits, -1))

    @property
    def unit(self) -> int:
        """The base in grid steps."""
        return self.grid.step_of(self.base, "base")

    @property
    def ends(self) -> Ends:
        """The first and the last multiple in the domain."""
        low = None if self.min is None else math.ceil(exact(self.min) / exact(self.base))
        return low, None if self.max is None else math.floor(exact(self.max) / exact(self.base))

    @property
    def determined(self) -> bool:
        """To the nearest, halves up."""
        return not self.random

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the nearest multiples."""
        scaled = self.scale(as_numbers(values))
        below = np.floor(scaled)
        return self.grid.array(self.clip(below + (scaled - below >= 0.5)) * self.unit)

    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:
        """Each number is one of the two multiples around its source number, so sorted ones are within a base."""
        scaled, counts = self.clip(self.scale(original[0])), original[1]
        below, above = self.clip(np.floor(scaled)), self.clip(np.ceil(scaled))
        if not are_within(multiples, below, above, counts):
            return "has numbers that are a base or more away from the source's"
        return None


class Bounded(Gridded):
    """Numbers of declared decimals between two ends, of which one or both may be open."""

    end_names: ClassVar[tuple[str, str]] = ("min", "max")

    decimals: Decimals

    @property
    def grid(self) -> Grid:
        """The declared decimals."""
        return Grid(self.decimals)

    @property
    def ends(self) -> Ends:
        """The ends in grid steps, of which the first must be below the last."""
        low, high = (
            None if getattr(self, name) is None else self.grid.step_of(getattr(self, name), name)
            for name in self.end_names
        )
        if low is not None and high is not None and low >= high:
            raise ValueError("has a {} that is not below {}".format(*self.end_names))
        return low, high


class Microaggregation(Gridded):
    """Averages of groups of near rows; rows that have the same ones are counted where these stand side by side."""

    ends: ClassVar[Ends] = (None, None)
    finding: ClassVar[str] = (
        "averages lie on the declared grid, each combination is in at least k rows, counting withheld and dropped ones"
    )
    agreement: ClassVar[str] = "averages lie within the range of the source's numbers and add up to their total"
    uncheckable: ClassVar[str] = "which records form a group, and how close they are,"

    k: Annotated[int, Field(ge=2)]
    columns: Listed[str]
    strata: Listed[str]
    decimals: Decimals
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _fits(self) -> Microaggregation:
        named = [self.column, *self.columns, *self.strata]
        if len(set(named)) != len(named):
            raise ValueError("names a column twice in columns and strata, or the column itself")
        return self

    @property
    def grid(self) -> Grid:
        """The declared decimals."""
        return Grid(self.decimals)

    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:
        """Averages lie within the range of the source's numbers and add up to their total."""
        return find_average_fault(multiples, original, self.grid)


class Shares(StrictEntry):
    """Of records at edges that come from the data."""

    top: Annotated[float, Field(gt=0, lt=1)] | None = None
    bottom: Annotated[float, Field(gt=0, lt=1)] | None = None


class Coding(Bounded):
    """Numbers between two edges."""

    end_names: ClassVar[tuple[str, str]] = ("bottom", "top")
    beyond: ClassVar[str] = "has numbers beyond the declared edges"
    determined: ClassVar[bool] = True
    agreement: ClassVar[str] = "the edges are where the shares put them"

    edges_from_data: bool
    top: float | None = None
    bottom: float | None = None
    shares: Shares = Shares()

    @model_validator(mode="after")
    def _fits(self) -> Coding:
        if self.ends == (None, None):
            raise ValueError("has no edges")
        shares = self.shares.model_fields_set
        if self.edges_from_data is not bool(shares) or not shares <= self.model_fields_set:
            raise ValueError("has edges_from_data, shares and edges that do not fit")
        return self

    @property
    def compared(self) -> bool:
        """Edges from the data are where its records say."""
        return self.edges_from_data

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the numbers on the grid, cut at the edges."""
        return self.grid.array(self.clip(np.rint(self.scale(as_numbers(values))) + 0.0))

    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:  # noqa: ARG002
        """Edges that come from the data are where the shares of its records say."""
        steps, place = np.unique(np.rint(self.scale(original[0])) + 0.0, return_inverse=True)
        records = np.bincount(place, original[1], len(steps)).astype(np.int64)
        bottom, top = self.ends
        if self.shares.top is not None and top != _find_edge(steps[::-1], records[::-1], exact(self.shares.top)):
            return "has a top that is not where the share of the records says"
        if self.shares.bottom is not None and bottom != _find_edge(steps, records, exact(self.shares.bottom)):
            return "has a bottom that is not where the share of the records says"
        return None


def _find_edge(steps: FloatArray, records: IntArray, share: Fraction) -> int | None:
    """Return the first step, from the outside, by which at least the share of all records was passed."""
    if not len(steps):
        return None
    wanted = math.ceil(share * int(records.sum()))
    return int(steps[np.searchsorted(np.cumsum(records), wanted)])


class Laplace(StrictEntry):
    """Noise of this scale."""

    scale: float


class Gaussian(StrictEntry):
    """Noise of this standard deviation."""

    sd: float


class Noise(Bounded):
    """Numbers moved by random steps of a grid."""

    agreement: ClassVar[str] = SAME_GAPS
    uncheckable: ClassVar[str] = "the noise itself"

    differential_privacy: Literal[False]  # noise of single records is none
    laplace: Laplace | None = None
    gaussian: Gaussian | None = None
    min: float | None = None
    max: float | None = None
    edges: Literal["clamp", "reflect", "redraw"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Noise:
        if (self.laplace is None) == (self.gaussian is None):
            raise ValueError("has not one of laplace and gaussian")
        if not 1 <= self.width <= _WIDEST:
            raise ValueError("has noise that is less than a step of its grid, or too wide for it")
        if (self.edges is None) != (self.ends == (None, None)):
            raise ValueError("has ends and does not say what happens there, or the other way round")
        return self

    @property
    def width(self) -> float:
        """The scale or the standard deviation in grid steps."""
        width = self.laplace.scale if self.laplace is not None else self.gaussian.sd if self.gaussian else 0.0
        return width * 10.0**self.decimals


class CorrelatedNoise(Noise):
    """Normal noise that follows from draws which several columns have in common; each column is checked by itself."""

    uncheckable: ClassVar[str] = "the noise itself, with its correlations,"

    share: Annotated[float, Field(gt=0, le=10)]
    columns: Listed[str]

    @model_validator(mode="after")
    def _is_normal(self) -> CorrelatedNoise:
        if self.gaussian is None or self.edges == "redraw" or not self.columns or self.column in self.columns:
            raise ValueError("is not normal noise of several columns that stays in its domain by clamp or reflect")
        return self

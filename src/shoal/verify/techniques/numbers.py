"""Numbers that a technique put on a grid of decimals: rounding, top and bottom coding, and noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.manifest import Listed, Positive, StrictEntry
from shoal.verify.result import FALSE_ALARM
from shoal.verify.techniques.base import (
    MOST_DECIMALS,
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
_INSIDE = 0.05  # noise that is drawn again stays inside with a larger chance: it is at most four domains wide


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


def find_sum_fault(own: Numbers, original: Numbers, grid: Grid) -> str | None:
    """Return a fault if averages, in steps of the grid, do not add up to what the numbers of the source do.

    An average is off by half a step at most, so the sum is by half a step for each row. Where not all rows are
    published nobody knows which are: the sum then lies between those of the least and the greatest numbers.
    """
    n, scaled = int(own[1].sum()), original[0] * 10.0**grid.decimals
    fine = _FINE if bool((np.abs(scaled) < 2.0**31).all()) else 0
    least, most = extreme_sums(np.floor(scaled * 2.0**fine), original[1], n)
    slack = math.ceil(n * 2.0**fine * (0.5 + _ROUNDING))
    if not least - slack <= sum_steps(*own) << fine <= most + n + slack:
        return "has averages that do not add up to the source's total"
    return None


def are_within(own: Numbers, low: FloatArray, high: FloatArray, counts: IntArray, reach: float = 0.0) -> bool:
    """Whether numbers can come from others, of which each became one from *low* to *high*, no farther than the reach.

    The i-th smallest of some numbers is not below the i-th smallest of all lows, and likewise from above. All ascend.
    """
    numbers, times = own
    first, last, ends = np.cumsum(times) - times, np.cumsum(times) - 1, np.cumsum(counts)
    lowest = low[np.searchsorted(ends, last, side="right")] - reach
    highest = high[np.searchsorted(ends, int(counts.sum() - times.sum()) + first, side="right")] + reach
    return not bool((numbers < lowest).any()) and not bool((numbers > highest).any())


Ends = tuple[int | None, int | None]  # None: the numbers are open to this side


class Gridded(Declared):
    """Every published number is a multiple of a unit, in steps of a grid, and between two ends."""

    numeric: ClassVar[bool] = True
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

    @abstractmethod
    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:
        """Return why these multiples of the unit cannot come from the source's numbers, if they cannot."""


class Rounding(Gridded):
    """Multiples of a base, from the first to the last in the declared domain; at random, each next to the source's."""

    off_grid: ClassVar[str] = "has numbers that are no multiples of the base"

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
        """Sorted, no number is a base or more away from what the source allows; the sum is where chance puts it.

        Each number is one of the two multiples around its source number. Errors are independent, have mean 0 and lie
        in an interval of one base: Hoeffding's inequality bounds their sum.
        """
        scaled, counts = self.clip(self.scale(original[0])), original[1]
        below, above = self.clip(np.floor(scaled)), self.clip(np.ceil(scaled))
        if not are_within(multiples, below, above, counts):
            return "has numbers that are a base or more away from the source's"
        n = int(multiples[1].sum())
        fine = 2**20 if bool((np.abs(scaled) < 2.0**31).all()) else 1  # parts of a base that sums are counted in
        least, most = extreme_sums(np.floor(scaled * fine), counts, n)
        reach = fine * math.sqrt(n * math.log(2 / FALSE_ALARM) / 2) + n
        if not least - reach <= sum_steps(*multiples) * fine <= most + n + reach:
            return "has numbers whose sum random rounding does not explain"
        return None

    @property
    def finding(self) -> str:
        """What was found."""
        return "rounded to multiples of the base" + (", at random" if self.random else "")


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
        "averages are on their grid, and each combination of them is in at least k rows, withheld and dropped ones "
        "included; that the records of a group are near each other, no file shows"
    )

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
        """Averages lie among the source's numbers and add up to them; if all are there, so do squares and distance.

        Squares of numbers are those of averages and of distances from these, and rounding changes the deviation of
        averages by half a step at most.
        """
        (steps, times), (numbers, counts) = multiples, original
        if not len(steps):
            return None
        bounds = self.grid.steps(numbers[[0, -1]])
        if steps[0] < bounds[0] or steps[-1] > bounds[1]:
            return "has averages outside what the source's numbers span"
        fault = find_sum_fault(multiples, original, self.grid)
        if fault is not None or times.sum() < counts.sum():
            return fault
        whole, between = _deviate(self.scale(numbers), counts), _deviate(steps, times)
        ends = ((between + 0.5) * (1 + _ROUNDING), max(between - 0.5, 0.0) * (1 - _ROUNDING))
        least, most = (math.sqrt(max(whole**2 - end**2, 0.0)) / 10.0**self.decimals for end in ends)
        rounded = float(f"{least * (1 - _ROUNDING):.1g}") <= self.distance <= float(f"{most * (1 + _ROUNDING):.1g}")
        return None if rounded else "has another distance than that of the source's numbers from averages"


def _deviate(numbers: FloatArray, counts: IntArray) -> float:
    """Return the standard deviation of numbers, each as often as it is counted."""
    mean = np.average(numbers, weights=counts)
    return math.sqrt(np.average((numbers - mean) ** 2, weights=counts))


class Shares(StrictEntry):
    """Of records at edges that come from the data."""

    top: Annotated[float, Field(gt=0, lt=1)] | None = None
    bottom: Annotated[float, Field(gt=0, lt=1)] | None = None


class Coding(Bounded):
    """Numbers between two edges."""

    end_names: ClassVar[tuple[str, str]] = ("bottom", "top")
    beyond: ClassVar[str] = "has numbers beyond the declared edges"
    determined: ClassVar[bool] = True
    finding: ClassVar[str] = "no number is beyond an edge"

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
    """Numbers moved by random steps of a grid, and a sum that chance explains."""

    finding: ClassVar[str] = (
        "numbers are on their grid and in their domain; that noise was drawn as declared, no file shows"
    )

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

    def compare_numbers(self, multiples: Numbers, original: Numbers) -> str | None:
        """Sorted, no number is farther from the source's than chance explains; without a domain, nor is the sum.

        What is put back at an edge comes nearer, never farther.
        """
        true, counts, n = self.grid.steps(original[0]), original[1], int(multiples[1].sum())
        if not are_within(multiples, true, true, counts, self._farthest(n)):
            return "has numbers that are farther from the source's than noise explains"
        if self.ends != (None, None):
            return None
        least, most = extreme_sums(true, counts, n)
        reach = math.ceil(self.reach(n))
        if not least - reach <= sum_steps(*multiples) <= most + reach:
            return "has numbers whose sum is farther from the source's than noise explains"
        return None

    def _farthest(self, n: int) -> int:
        """Return how far one of n draws is with a chance below 10**-12, even if it is drawn until it is inside.

        Laplace noise of scale b is x or more away with a chance of at most 2 exp(-x / b), normal noise with one of at
        most 2 exp(-x^2 / (2 s^2)); it is rounded by half a step.
        """
        needed = math.log(2 * max(n, 1) / (FALSE_ALARM * _INSIDE))
        return math.ceil(self.width * (math.sqrt(2 * needed) if self.gaussian else needed)) + 1

    def reach(self, n: int) -> float:
        """Return a bound that the sum of n draws passes with a chance below 10**-12.

        Chernoff: for every t > 0 the sum S of n draws has P(S >= s) <= exp(n log E exp(tX) - ts), so each t gives a
        bound, of which the least is taken.
        """
        if n == 0:
            return 0.0
        needed = math.log(2 / FALSE_ALARM)
        transform: Callable[[float, float], float] = _log_normal if self.gaussian else _log_laplace
        most = 50.0 if self.gaussian else 1 / self.width
        likely = math.sqrt(2 * needed / n) / self.width  # the best t for normal sums
        chosen: list[float] = np.minimum(likely * np.logspace(-3, 3, 601), most * (1 - 1e-6)).tolist()
        return min((n * transform(t, self.width) + needed) / t for t in chosen)


class CorrelatedNoise(Noise):
    """Normal noise that follows from draws which several columns have in common; each column is checked by itself."""

    share: Annotated[float, Field(gt=0, le=10)]
    columns: Listed[str]

    @model_validator(mode="after")
    def _is_normal(self) -> CorrelatedNoise:
        if self.gaussian is None or self.edges == "redraw" or not self.columns or self.column in self.columns:
            raise ValueError("is not normal noise of several columns that stays in its domain by clamp or reflect")
        return self


def _log_laplace(t: float, scale: float) -> float:
    """Return log E exp(tX) of whole numbers with probabilities in proportion to exp(-|x| / scale), t < 1 / scale."""
    p = math.exp(-1 / scale)
    return 2 * math.log1p(-p) - math.log1p(-p * math.exp(t)) - math.log1p(-p * math.exp(-t))


def _log_normal(t: float, deviation: float) -> float:
    """Return a bound of log E exp(tX) of a normal number rounded to a whole one, deviation >= 1.

    X = Y + r with r a function of Y of period 1. Its Fourier series gives E exp(tX) as exp(t^2 s^2 / 2) times the sum
    over m of c(m) exp(-2 pi^2 m^2 s^2) up to phases, c(0) = sinh(t/2) / (t/2) and |c(m)| <= sinh(t/2) / (pi |m|).
    """
    half = math.sinh(t / 2)
    others = 4 * half * math.exp(-2 * math.pi**2 * deviation**2) / math.pi
    return (t * deviation) ** 2 / 2 + math.log(half / (t / 2) + others)

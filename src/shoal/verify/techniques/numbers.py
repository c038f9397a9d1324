"""Numbers that a technique put on a grid of decimals: rounding, top and bottom coding, averages, and noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.core.errors import InputError
from shoal.manifest import Listed, Positive, StrictEntry
from shoal.verify.techniques.base import MOST_DECIMALS, SAME_GAPS, Column, Decimals, Declared, Demands, as_numbers

FARTHEST = 2.0**52  # grid steps from 0, beyond which floats skip some
_WIDEST = 2.0**40  # grid steps of noise
_FINE = 2**20  # parts of a step in which sums of the source are counted
_ROUNDING = 1e-9  # relative: a mean that was computed in floating point may be rounded to the wrong side of a half
_NO_NUMBERS = "has values that are no numbers"


def exact(raw: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth."""
    return Fraction(repr(raw))


def has_once(*names: str) -> bool:
    """Whether all names differ."""
    return len(set(names)) == len(names)


class Grid(NamedTuple):
    """The multiples of a unit, in steps of 10**-decimals, and the first and last multiple; texts are SQL about x."""

    decimals: int
    unit: int = 1
    low: int | None = None  # None: the numbers are open to this side
    high: int | None = None

    @property
    def scaled(self) -> str:
        """The number in steps."""
        return f"(x * 1e{self.decimals})"

    @property
    def has_ends(self) -> bool:
        """Whether numbers are not open to both sides."""
        return (self.low, self.high) != (None, None)

    @property
    def is_open(self) -> bool:
        """Whether there is a multiple between the ends."""
        return self.low is None or self.high is None or self.low <= self.high

    @property
    def steps(self) -> str:
        """The nearest step."""
        return f"(round_even({self.scaled}, 0) + 0.0)"

    @property
    def misses(self) -> str:
        """Whether a number is off the grid, to the last digit, or so far that floats skip steps of the grid."""
        unit = f" OR fmod({self.steps}, {float(self.unit)!r}) <> 0"
        return f"abs({self.steps}) > {FARTHEST!r} OR {self.steps} / 1e{self.decimals} <> x{unit}"

    def clip(self, multiples: FloatArray) -> FloatArray:
        """Return the same multiples, cut at the ends."""
        multiples = multiples if self.low is None else np.maximum(multiples, self.low)
        return multiples if self.high is None else np.minimum(multiples, self.high)

    def write_clipped(self, term: str) -> str:
        """Return a multiple in SQL, cut at the ends."""
        term = term if self.low is None else f"greatest({term}, {float(self.low)!r})"
        return term if self.high is None else f"least({term}, {float(self.high)!r})"

    def array(self, steps: FloatArray) -> pa.Array:
        """Return the column of steps; whole numbers are stored as such."""
        return pa.array(steps / 10.0**self.decimals if self.decimals else steps.astype(np.int64))


def find_average_fault(published: Column, original: Column, grid: Grid, *, add_up: bool = True) -> str | None:
    """Return a fault if averages are outside the source's range or do not *add up* to its total.

    An average is off by half a step at most, so the sum is off by at most half a step for each row. If some rows are
    not published, the sum lies between the sums of the smallest and of the greatest numbers of the source.
    """
    if not published.present:
        return None
    if fault := original.find_fault(
        (f"abs({grid.scaled}) > {FARTHEST!r}", "has values in the source that are too large")
    ):
        return fault
    first, last = original.find(f"min({grid.steps}), max({grid.steps})")
    beyond = (
        f"{grid.steps} NOT BETWEEN {first!r} AND {last!r}",
        "has averages outside the range of the source's numbers",
    )
    if (fault := published.find_fault(beyond)) or not add_up:
        return fault
    n, fine = published.present, _FINE
    if original.find_fault((f"abs({grid.scaled}) >= {2.0**31!r}", "large")):
        fine = 1
    least, most = original.sum_extremes(f"floor({grid.scaled} * {float(fine)!r})::HUGEINT", n)
    slack = math.ceil(n * fine * (0.5 + _ROUNDING))
    (total,) = published.find(f"sum({grid.steps}::HUGEINT * n)")
    fits = least - slack <= total * fine <= most + n + slack
    return None if fits else "has averages that do not add up to the source's total"


class Gridded(Declared):
    """Every published number is a multiple of a unit, in steps of a grid, and between two ends."""

    numeric = True
    finding = "numbers lie on the declared grid and within its bounds"
    off_grid: ClassVar[str] = "has numbers of more decimals than declared"
    beyond: ClassVar[str] = "has numbers outside the declared domain"

    @property
    def grid(self) -> Grid:
        """The grid of the published numbers."""
        raise NotImplementedError

    def step_of(self, raw: float, what: str, decimals: int) -> int:
        """Return the step of a declared number, which must be on the grid."""
        step = exact(raw) * 10**decimals
        if step.denominator != 1 or abs(step) > FARTHEST:
            raise ValueError(f"has a {what} that is not a number of {decimals} decimals")
        return int(step)

    def scale(self, values: pa.Array) -> FloatArray:
        """Return values of the source in units; values that are not numbers, or beyond the grid, are refused."""
        scaled: FloatArray = as_numbers(values) * 10.0**self.grid.decimals / self.grid.unit
        if not bool((np.abs(scaled) <= FARTHEST / self.grid.unit).all()):
            raise InputError(f"column {self.column!r} of the source has values that are no numbers, or too large ones")
        return scaled

    def find_fault(self, published: Column) -> str | None:
        """Numbers are on the grid, and within the domain."""
        multiple = f"({self.grid.steps} / {float(self.grid.unit)!r})"
        outside = f"{self.grid.write_clipped(multiple)} <> {multiple}"
        return published.find_fault(
            ("x IS NULL", _NO_NUMBERS), (self.grid.misses, self.off_grid), (outside, self.beyond)
        )

    def compare(self, published: Column, original: Column) -> str | None:
        """Return why the published numbers cannot come from the source's, if they cannot."""
        fault = super().compare(published, original) or original.find_fault(
            ("x IS NULL", f"{_NO_NUMBERS} in the source")
        )
        return fault or self.compare_numbers(published, original)

    def compare_numbers(self, published: Column, original: Column) -> str | None:  # noqa: ARG002
        """Return why the published numbers cannot come from the source's, all of which are numbers."""
        return None


class Rounding(Gridded):
    """Multiples of a base, from the first to the last in the declared domain; at random, each next to the source's."""

    off_grid = "has numbers that are no multiples of the base"
    finding = "numbers are multiples of the base, within the bounds"
    agreement = "in ascending order each is less than a base away from the source's"
    uncheckable = "the random choice between two multiples"
    demands: ClassVar[Demands] = {"has no multiple of its base between min and max": lambda own: own.grid.is_open}

    base: Positive
    random: bool
    min: float | None = None
    max: float | None = None

    @property
    def grid(self) -> Grid:
        """The multiples of the base within the domain, with as many decimals as the base has."""
        base = exact(self.base)
        decimals = next((d for d in range(MOST_DECIMALS + 1) if (base * 10**d).denominator == 1), None)
        if decimals is None:
            raise ValueError(f"has a base with more than {MOST_DECIMALS} decimals")
        low = None if self.min is None else math.ceil(exact(self.min) / base)
        high = None if self.max is None else math.floor(exact(self.max) / base)
        return Grid(decimals, self.step_of(self.base, "base", decimals), low, high)

    @property
    def determined(self) -> bool:
        """Whether numbers are rounded to the nearest multiple, halves up."""
        return not self.random

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the nearest multiples."""
        scaled = self.scale(values)
        below = np.floor(scaled)
        return self.grid.array(self.grid.clip(below + (scaled - below >= 0.5)) * self.grid.unit)

    def compare_numbers(self, published: Column, original: Column) -> str | None:
        """Each number is one of the two multiples around its source number.

        The i-th smallest published multiple is then not below the i-th smallest of the source's lower multiples, and
        the i-th greatest is not above the i-th greatest of its upper multiples.
        """
        grid = self.grid
        if fault := original.find_fault(
            (f"abs({grid.scaled}) > {FARTHEST!r}", "has values in the source that are too large")
        ):
            return fault
        unit = repr(float(grid.unit))
        scaled = grid.write_clipped(f"{grid.scaled} / {unit}")
        for way, end, wrong in (("ASC", "floor", "<"), ("DESC", "ceil", ">")):
            place = f"sum(n) OVER (ORDER BY x {way} ROWS UNBOUNDED PRECEDING) AS place"
            mine = f"(SELECT {grid.steps} / {unit} AS own, {place} FROM {published.table})"
            theirs = f"(SELECT {grid.write_clipped(f'{end}({scaled})')} AS bound, {place} FROM {original.table})"
            joined = f"{mine} AS a ASOF JOIN {theirs} AS b ON a.place <= b.place"
            if published.engine.value(f"SELECT count(*) FROM {joined} WHERE own {wrong} bound"):
                return "has numbers that are a base or more away from the source's"
        return None


class Bounded(Gridded):
    """Numbers of declared decimals between two ends, of which one or both may be open."""

    end_names: ClassVar[tuple[str, str]] = ("min", "max")

    decimals: Decimals

    @property
    def grid(self) -> Grid:
        """The declared decimals and ends, of which the first must be below the last."""
        ends = ((name, getattr(self, name)) for name in self.end_names)
        low, high = (None if raw is None else self.step_of(raw, name, self.decimals) for name, raw in ends)
        if low is not None and high is not None and low >= high:
            raise ValueError("has a {} that is not below {}".format(*self.end_names))
        return Grid(self.decimals, 1, low, high)


class Microaggregation(Gridded):
    """Averages of groups of near rows; rows that have the same ones are counted if these are side by side."""

    finding = (
        "averages lie on the declared grid, each combination is in at least k rows, counting withheld and dropped ones"
    )
    agreement = "averages lie within the range of the source's numbers and add up to their total"
    uncheckable = "which records form a group, and how close they are,"
    demands: ClassVar[Demands] = {
        "names a column twice in columns and strata, or the column itself": lambda own: has_once(
            own.column, *own.columns, *own.strata
        )
    }

    k: Annotated[int, Field(ge=2)]
    columns: Listed[str]
    strata: Listed[str]
    decimals: Decimals
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    @property
    def grid(self) -> Grid:
        """The declared decimals."""
        return Grid(self.decimals)

    def compare_numbers(self, published: Column, original: Column) -> str | None:
        """Averages lie within the range of the source's numbers and add up to their total."""
        return find_average_fault(published, original, self.grid)


class Shares(StrictEntry):
    """The shares of records at edges that come from the data."""

    top: Annotated[float, Field(gt=0, lt=1)] | None = None
    bottom: Annotated[float, Field(gt=0, lt=1)] | None = None


class Coding(Bounded):
    """Numbers between two edges."""

    end_names = ("bottom", "top")
    beyond = "has numbers beyond the declared edges"
    determined: ClassVar[bool] = True
    agreement = "the edges are where the shares put them"
    demands: ClassVar[Demands] = {
        "has no edges": lambda own: own.grid.has_ends,
        "has edges_from_data, shares and edges that do not fit": lambda own: (
            own.edges_from_data is bool(own.shares.model_fields_set)
            and own.shares.model_fields_set <= own.model_fields_set
        ),
    }

    edges_from_data: bool
    top: float | None = None
    bottom: float | None = None
    shares: Shares = Shares()

    @property
    def compared(self) -> bool:
        """Whether edges come from the data, whose records then decide where they are."""
        return self.edges_from_data

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the numbers on the grid, cut at the edges."""
        return self.grid.array(self.grid.clip(np.rint(self.scale(values)) + 0.0))

    def compare_numbers(self, published: Column, original: Column) -> str | None:  # noqa: ARG002
        """An edge is the first step, from the outside, by which at least the share of all records was passed."""
        ends = (("bottom", "ASC", "min", self.grid.low), ("top", "DESC", "max", self.grid.high))
        for name, way, first, edge in ends:
            if (share := getattr(self.shares, name)) is None:
                continue
            passed = f"sum(n) OVER (ORDER BY {self.grid.steps} {way}) AS passed"
            steps = f"(SELECT {self.grid.steps} AS step, {passed} FROM {original.table})"
            wanted = math.ceil(exact(share) * original.present)
            if original.engine.value(f"SELECT {first}(step) FROM {steps} WHERE passed >= {wanted}") != edge:
                return f"has a {name} that is not where the share of the records says"
        return None


class Laplace(StrictEntry):
    """Noise of this scale."""

    scale: float


class Gaussian(StrictEntry):
    """Noise of this standard deviation."""

    sd: float


class Noise(Bounded):
    """Numbers moved by random steps of a grid."""

    agreement = SAME_GAPS
    uncheckable = "the noise itself"
    demands: ClassVar[Demands] = {
        "has not one of laplace and gaussian": lambda own: (own.laplace is None) != (own.gaussian is None),
        "has noise that is less than a step of its grid, or too wide for it": lambda own: 1 <= own.width <= _WIDEST,
        "has ends and does not say what happens there, or the other way round": lambda own: (
            own.grid.has_ends is (own.edges is not None)
        ),
    }

    differential_privacy: Literal[False]  # noise of single records is none
    laplace: Laplace | None = None
    gaussian: Gaussian | None = None
    min: float | None = None
    max: float | None = None
    edges: Literal["clamp", "reflect", "redraw"] | None = None

    @property
    def width(self) -> float:
        """The scale or the standard deviation in grid steps."""
        width = self.laplace.scale if self.laplace is not None else self.gaussian.sd if self.gaussian else 0.0
        return width * 10.0**self.decimals


class CorrelatedNoise(Noise):
    """Normal noise that follows from draws which several columns have in common; each column is checked by itself."""

    uncheckable = "the noise itself, with its correlations,"
    demands: ClassVar[Demands] = {
        **Noise.demands,
        "is not normal noise of several columns that stays in its domain by clamp or reflect": lambda own: bool(
            own.gaussian and own.edges != "redraw" and own.columns and own.column not in own.columns
        ),
    }

    share: Annotated[float, Field(gt=0, le=10)]
    columns: Listed[str]

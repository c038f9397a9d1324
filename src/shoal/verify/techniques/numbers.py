"""Numbers that a technique put on a grid of decimals: rounding, top and bottom coding, averages, and noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.core.errors import InputError
from shoal.manifest import Listed, Positive, StrictEntry
from shoal.verify.techniques.base import NUMBER, Column, Declared, Demands, Rows, Rule

_FARTHEST = 2.0**52  # grid steps from 0, beyond which floats skip some
_WIDEST = 2.0**40  # grid steps of noise
_MOST_DECIMALS = 9
_ROUNDING, _ADDING = 1e-9, 1e-12  # errors of floating point: in steps of an average, and relative to a sum
Decimals = Annotated[int, Field(ge=0, le=_MOST_DECIMALS)]
Share = Annotated[float, Field(gt=0, lt=1)]


def exact(raw: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth."""
    return Fraction(repr(raw))


def has_once(*names: str) -> bool:
    """Whether all names differ."""
    return len(set(names)) == len(names)


class Grid(NamedTuple):
    """The multiples of a unit, in steps of 10**-decimals, from a first to a last multiple; texts are SQL about x."""

    decimals: int
    unit: int = 1
    low: float = -math.inf
    high: float = math.inf

    @property
    def scaled(self) -> str:
        """The number in units."""
        return f"(x * 1e{self.decimals} / {float(self.unit)!r})"

    @property
    def nearest(self) -> str:
        """The nearest multiple."""
        return f"(round_even({self.scaled}, 0) + 0.0)"

    def clip(self, multiple: str) -> str:
        """Return a multiple, cut at the ends."""
        return f"least(greatest({multiple}, '{self.low!r}'::DOUBLE), '{self.high!r}'::DOUBLE)"


class Gridded(Declared):
    """Every published number is a multiple of a unit, in steps of a grid, and between two ends."""

    numeric = True
    finding = "numbers lie on the declared grid and within its bounds"

    @property
    def grid(self) -> Grid:
        """The grid of the published numbers."""
        raise NotImplementedError

    def find_step(self, field: str, decimals: int, otherwise: float = 0.0) -> float:
        """Return the step of a declared number, which must be on the grid."""
        if (raw := getattr(self, field, None)) is None:
            return otherwise
        step = exact(raw) * 10**decimals
        if step.denominator != 1 or abs(step) > _FARTHEST:
            raise ValueError(f"has a {field} that is not a number of {decimals} decimals")
        return int(step)

    def scale(self, values: pa.Array) -> FloatArray:
        """Return (n,) values of the source in units; values that are not numbers, or beyond the grid, are refused."""
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            texts = values.cast(pa.string())
            values = pc.if_else(pc.match_substring_regex(texts, NUMBER), pc.utf8_trim_whitespace(texts), None)
        numbers = np.asarray(values.cast(pa.float64(), safe=False).fill_null(math.nan), dtype=np.float64)
        scaled: FloatArray = numbers * 10.0**self.grid.decimals / self.grid.unit
        if not bool((np.abs(scaled) <= _FARTHEST / self.grid.unit).all()):
            raise InputError(f"column {self.column!r} of the source has values that are not numbers, or are too large")
        return scaled

    def write(self, multiples: FloatArray) -> pa.Array:
        """Return the column of multiples, cut at the ends; whole numbers are stored as such."""
        steps = np.clip(multiples, self.grid.low, self.grid.high) * self.grid.unit + 0.0
        return pa.array(steps / 10.0**self.grid.decimals if self.grid.decimals else steps.astype(np.int64))

    def list_rules(self) -> list[Rule]:
        grid, steps = self.grid, f"({self.grid.nearest} * {float(self.grid.unit)!r})"
        return [
            *super().list_rules(),
            (f"abs({steps}) > {_FARTHEST!r} OR {steps} / 1e{grid.decimals} <> x", "has numbers off the declared grid"),
            (f"{grid.clip(grid.nearest)} <> {grid.nearest}", "has numbers outside the declared bounds"),
        ]

    def compare(self, published: Column, original: Column) -> str | None:
        strange = f"x IS NULL OR abs({self.grid.scaled}) > {_FARTHEST!r}"
        said = "has values in the source that are not numbers, or are too large"
        return super().compare(published, original) or original.find_fault((strange, said))


class Rounding(Gridded):
    """Multiples of a base, from the first to the last in the declared domain; at random, each next to the source's."""

    agreement = "in ascending order each is less than a base away from the source's"
    uncheckable = "the random choice between two multiples"
    demands: ClassVar[Demands] = {
        "has no multiple of its base between min and max": lambda own: own.grid.low <= own.grid.high
    }

    base: Positive
    random: bool
    min: float | None = None
    max: float | None = None

    @property
    def grid(self) -> Grid:
        """The multiples of the base within the domain, with as many decimals as the base has."""
        base = exact(self.base)
        decimals = next((d for d in range(_MOST_DECIMALS + 1) if (base * 10**d).denominator == 1), None)
        if decimals is None:
            raise ValueError(f"has a base with more than {_MOST_DECIMALS} decimals")
        low = -math.inf if self.min is None else math.ceil(exact(self.min) / base)
        high = math.inf if self.max is None else math.floor(exact(self.max) / base)
        return Grid(decimals, int(self.find_step("base", decimals)), low, high)

    @property
    def determined(self) -> bool:
        return not self.random

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the nearest multiples, halves up."""
        scaled = self.scale(values)
        below = np.floor(scaled)
        return self.write(below + (scaled - below >= 0.5))

    def compare(self, published: Column, original: Column) -> str | None:
        """Each number is one of the two multiples around its source number.

        The i-th smallest published multiple is then not below the i-th smallest of the source's lower multiples, and
        the i-th greatest is not above the i-th greatest of its upper multiples.
        """
        if fault := super().compare(published, original):
            return fault
        for way, end, wrong in (("ASC", "floor", "<"), ("DESC", "ceil", ">")):
            place = f"sum(n) OVER (ORDER BY x {way} ROWS UNBOUNDED PRECEDING) AS place"
            mine = f"SELECT {self.grid.nearest} AS own, {place} FROM {published.table}"
            theirs = f"SELECT {self.grid.clip(f'{end}({self.grid.scaled})')} AS bound, {place} FROM {original.table}"
            joined = f"({mine}) AS a ASOF JOIN ({theirs}) AS b ON a.place <= b.place"
            if published.engine.value(f"SELECT count(*) FROM {joined} WHERE own {wrong} bound"):
                return "has numbers that are a base or more away from the source's"
        return None


class Bounded(Gridded):
    """Numbers of declared decimals between two ends, of which one or both may be open."""

    ends: ClassVar[tuple[str, str]] = ("min", "max")
    demands: ClassVar[Demands] = {
        "has a first end that is not below the last": lambda own: own.grid.low < own.grid.high
    }

    decimals: Decimals

    @property
    def grid(self) -> Grid:
        """The declared decimals and ends."""
        ends = zip(self.ends, (-math.inf, math.inf), strict=True)
        return Grid(self.decimals, 1, *(self.find_step(name, self.decimals, otherwise) for name, otherwise in ends))


class Shares(StrictEntry):
    """The shares of records at edges that come from the data."""

    top: Share | None = None
    bottom: Share | None = None


class Coding(Bounded):
    """Numbers between two edges."""

    ends = ("bottom", "top")
    determined: ClassVar[bool] = True
    agreement = "the edges are where the shares put them"
    demands: ClassVar[Demands] = {
        **Bounded.demands,
        "has no edges": lambda own: (own.bottom, own.top) != (None, None),
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
        return self.edges_from_data

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the numbers on the grid, cut at the edges."""
        return self.write(np.rint(self.scale(values)))

    def compare(self, published: Column, original: Column) -> str | None:
        """An edge is the first step, from the outside, by which at least the share of all records was passed."""
        grid, fault = self.grid, super().compare(published, original)
        for name, way, first, edge in (("bottom", "ASC", "min", grid.low), ("top", "DESC", "max", grid.high)):
            if fault or (share := getattr(self.shares, name)) is None:
                continue
            steps = f"{grid.nearest} AS step, sum(n) OVER (ORDER BY step {way}) AS passed"
            wanted = math.ceil(exact(share) * original.present)
            found = f"SELECT {first}(step) FROM (SELECT {steps} FROM {original.table}) WHERE passed >= {wanted}"
            if original.engine.value(found) != edge:
                fault = f"has a {name} that is not where the share of the records says"
        return fault


class Laplace(StrictEntry):
    """Noise of this scale."""

    scale: float


class Gaussian(StrictEntry):
    """Noise of this standard deviation."""

    sd: float


class Noise(Bounded):
    """Numbers moved by random steps of a grid."""

    uncheckable = "the noise itself"
    demands: ClassVar[Demands] = {
        **Bounded.demands,
        "has not one of laplace and gaussian": lambda own: (own.laplace is None) != (own.gaussian is None),
        "has noise that is less than a step of its grid, or too wide for it": lambda own: 1 <= own.width <= _WIDEST,
        "has ends and does not say what happens there, or the other way round": lambda own: (
            ((own.min, own.max) != (None, None)) is (own.edges is not None)
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


class Means(Bounded):
    """Means of groups of rows, which have no declared ends."""

    def compare(self, published: Column, original: Column) -> str | None:
        """Means lie between the source's numbers and add up to their total, if rows that are not published allow it.

        A mean is off by half a step at most, so the sum is off by at most half a step for each row.
        """
        if (fault := super().compare(published, original)) or not published.present:
            return fault
        low, high = original.find(f"min({self.grid.nearest})", f"max({self.grid.nearest})")
        outside = f"{self.grid.nearest} NOT BETWEEN {low!r} AND {high!r}"
        if fault := published.find_fault((outside, "has averages outside the range of the source's numbers")):
            return fault
        (found,) = published.find("fsum(x * n)")
        least, most, total, size = original.find("min(x)", "max(x)", "fsum(x * n)", "fsum(abs(x) * n)")
        slack = published.present * (0.5 + _ROUNDING) / 10.0**self.decimals + _ADDING * size
        gone = original.present - published.present
        fits = total - gone * most - slack <= found <= total - gone * least + slack
        return None if fits else "has averages that do not add up to the source's total"


class Microaggregation(Means):
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
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def check_rows(self, rows: Rows) -> str | None:
        """Rows that are not published explain all averages that are in fewer than k rows.

        Averages in the same part are counted together, within strata that follow from the source.
        """
        columns, exact = rows.list_beside(self.column)
        names = {name: rows.release.names[column] for name, column in columns.items()}
        shown = [names[name] for name in (self.column, *self.columns) if name in names]
        keys = ", ".join([*shown, *(names[name] for name in self.strata if name in exact)])
        present = " OR ".join(f"{one} IS NOT NULL" for one in shown)
        groups = f"SELECT count(*) AS n FROM release WHERE {present} GROUP BY {keys}"
        lacking = rows.release.engine.value(f"SELECT sum(greatest({self.k} - n, 0)) FROM ({groups})") or 0
        few = lacking > rows.manifest.withheld + rows.manifest.dropped
        return f"has averages that are in fewer than {self.k} rows" if few else None

"""Intervals of numbers with declared or round widths, and calendar spans of days."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.construct import MOST_LEAVES, Level, from_levels
from shoal.taxonomies.parse import days, decimal_numbers, whole_numbers
from shoal.taxonomies.scales import Dates, Number, Numbers, exact, interval_label, multiple, multiples, number_text
from shoal.taxonomies.tree import Taxonomy

_FARTHEST = 2**53  # floats skip whole numbers beyond this

Marks: TypeAlias = NDArray[Any]  # int64 if all numbers are whole, otherwise float64
_MOST_GROUPS = 200  # of the finest width


class NumbersTaxonomy(TaxonomyBuilder):
    """Numbers in groups of round width; the outermost groups are open, so no edge is a value of the data.

    Widths are 1 and 5 times a power of ten, each a multiple of the one before.

    >>> ages = NumbersTaxonomy().build(pa.array([17, 20, 21, 25, 32, 90, 91]))
    >>> ages.labels[7:]
    ('[20, 24]', '>= 90', '[20, 29]', '<= 49', '*')
    """

    name: ClassVar[str] = "numbers"
    title: ClassVar[str] = "numbers in groups of round width, without declared ends"

    def build(self, values: pa.Array) -> Taxonomy:
        """Build a leaf for each distinct number, and groups above them; other values are not covered."""
        whole, is_whole = whole_numbers(values)
        decimal, is_decimal = decimal_numbers(values)
        numbers: Marks = decimal[is_decimal] if (is_decimal & ~is_whole).any() else whole[is_whole]
        points: Marks = np.unique(numbers, return_index=True)[0]  # the index makes NumPy sort, which is faster
        if not points.size:
            raise TaxonomyError("the column has no number to make a taxonomy of; declare another taxonomy")
        stops = points + 1 if points.dtype.kind == "i" else np.nextafter(points, np.inf)
        widths = round_widths(points)
        scale = Numbers(points, stops, np.ones(len(points), dtype=bool), derived=True, widths=widths)
        leaves = pa.array(points).cast(pa.string()).to_pylist()
        levels: list[Level] = []
        for width in widths:
            levels.append(_groups(points, width, levels))
        return from_levels(leaves, levels, scale, declared=False)


def round_widths(points: Marks) -> tuple[Number, ...]:
    """Return the widths of groups for sorted numbers, finest first; none if groups are not possible.

    >>> round_widths(np.array([17, 20, 90]))
    (5, 10, 50)
    """
    spread = float(points[-1]) - float(points[0])
    whole = points.dtype.kind == "i"
    if not 0 < spread < math.inf:
        return ()
    power = math.floor(math.log10(spread)) - 3
    chain = [(factor, power + n) for n in range(5) for factor in (1, 5)]
    widths = [factor * 10**n if n >= 0 else factor / 10**-n for factor, n in chain]
    return tuple(
        width
        for width in widths
        if spread / width <= _MOST_GROUPS
        and (1 < width < 2**63 or not whole)
        and multiples(points[:1], width)[0] != multiples(points[-1:], width)[0]
    )


def _groups(points: Marks, width: Number, finer: list[Level]) -> Level:
    """Return the groups of one width that have several numbers and are not groups of a finer level."""
    times = multiples(points, width)
    starts = np.flatnonzero(np.diff(times, prepend=times[0] - 1)).tolist()
    known = {edges for level in finer for edges in zip(level.lo.tolist(), level.hi.tolist(), strict=True)}
    groups = [(lo, hi) for lo, hi in pairwise([*starts, len(points)]) if hi - lo > 1 and (lo, hi) not in known]
    labels = [
        interval_label(
            None if lo == 0 else multiple(int(times[lo]), width),
            None if hi == len(points) else multiple(int(times[lo]) + 1, width),
            whole=points.dtype.kind == "i",
        )
        for lo, hi in groups
    ]
    edges = np.array(groups, dtype=np.int64).reshape(-1, 2)
    return Level(edges[:, 0], edges[:, 1], labels)


class IntervalsTaxonomy(TaxonomyBuilder):
    """Intervals whose edges follow from the declared domain, not from the data.

    If all declared numbers are whole, values are whole numbers and intervals include both ends. Otherwise intervals
    are half-open, except for the last one, which includes the maximum.

    >>> ages = IntervalsTaxonomy(min=0, max=120, widths=(5, 10)).build(pa.array([]))
    >>> ages.label(20, 30), ages.label(17, 24), ages.label(17, 18)
    ('[20, 29]', '[17, 23]', '17')
    >>> IntervalsTaxonomy(min=0, max=120, edges=((18, 65), (65,))).build(pa.array([])).labels[-6:-2]
    ('[0, 17]', '[18, 64]', '[65, 120]', '[0, 64]')
    """

    name: ClassVar[str] = "intervals"
    title: ClassVar[str] = "numbers in intervals of declared widths"

    min: int | float = Field(description="the smallest number of the domain", allow_inf_nan=False)
    max: int | float = Field(description="the largest number of the domain, inclusive", allow_inf_nan=False)
    widths: tuple[int | float, ...] = Field(
        default=(), description="widths of the intervals, each a multiple of the one before"
    )
    edges: tuple[tuple[int | float, ...], ...] = Field(
        default=(),
        description="where intervals start, in place of widths: a list for each level, finest first; each level has "
        "some of the edges of the one before",
    )
    step: int | float | None = Field(
        default=None, description="width of the finest values; by default 1 for whole numbers, or the smallest width"
    )
    open: Literal["none", "low", "high", "both"] = Field(
        default="none", description="ends beyond which values are allowed, as '< min' or '> max'"
    )
    origin: int | float | None = Field(
        default=None, description="a number at which intervals of every width start; the minimum by default"
    )

    @property
    def whole(self) -> bool:
        given = (self.min, self.max, *self.widths, *chain(*self.edges), self.step, self.origin)
        return all(isinstance(number, int) for number in given if number is not None)

    @property
    def finest(self) -> Number:
        if self.step is not None:
            return self.step
        return 1 if self.whole else min(self.widths)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(not (0 < width < math.inf) for width in (*self.widths, *([] if self.step is None else [self.step]))):
            raise TaxonomyError("intervals: every width, and the step, must be above 0")
        if max(abs(self.min), abs(self.max), abs(self.origin or 0), *self.widths, self.step or 0) > _FARTHEST:
            raise TaxonomyError(f"intervals: numbers must be within {_FARTHEST:,} of 0")
        if self.min > self.max or (self.min == self.max and not self.whole):
            raise TaxonomyError(f"intervals: max {self.max} must be above min {self.min}")
        if not self.whole and self.step is None and not self.widths:
            wanted = (
                "a step with their edges, such as step: 0.5" if self.edges else "widths, such as widths: [0.5, 1, 5]"
            )
            raise TaxonomyError(f"intervals: decimal numbers need {wanted}")
        for narrow, wide in pairwise(sorted({self.finest, *self.widths})):
            if (exact(wide) / exact(narrow)).denominator != 1:
                raise TaxonomyError(
                    f"intervals: widths {number_text(narrow)} and {number_text(wide)} do not nest; "
                    f"each must be a multiple of the one before, such as {number_text(narrow)} and "
                    f"{number_text(_plain(exact(narrow) * max(2, round(wide / narrow))))}"
                )
        if self.widths and min(self.widths) < self.finest:
            raise TaxonomyError(
                f"intervals: the width {min(self.widths)} is below the step {self.finest}; lower the step"
            )
        leaves = math.floor((exact(self.max) - exact(self.min)) / exact(self.finest)) + 1
        if leaves > MOST_LEAVES:
            larger = number_text(_plain(exact(self.finest) * _round_factor(leaves / MOST_LEAVES)))
            raise TaxonomyError(
                f"intervals: a step of {number_text(self.finest)} makes {leaves:,} values, at most "
                f"{MOST_LEAVES:,} are possible; set a larger step, such as step: {larger}"
            )
        self._check_edges()
        return self

    def _check_edges(self) -> None:
        if self.edges and self.widths:
            raise TaxonomyError("intervals: give widths or edges, not both")
        origin = exact(self.min if self.origin is None else self.origin)
        for level in self.edges:
            for edge in level:
                if not self.min < edge < self.max + self.whole:
                    raise TaxonomyError(
                        f"intervals: the edge {number_text(edge)} must lie above min {number_text(self.min)} and not "
                        f"beyond max {number_text(self.max)}"
                    )
                if ((exact(edge) - origin) / exact(self.finest)).denominator != 1:
                    raise TaxonomyError(
                        f"intervals: the edge {number_text(edge)} lies within a step of {number_text(self.finest)}; "
                        "move it, or lower the step"
                    )
            for edge, following in pairwise(level):
                if edge >= following:
                    raise TaxonomyError(
                        f"intervals: edges must rise, and {number_text(following)} comes after {number_text(edge)}"
                    )
        for finer, coarser in pairwise(self.edges):
            if lone := sorted(set(coarser) - set(finer)):
                raise TaxonomyError(
                    f"intervals: the edge {number_text(lone[0])} is missing among the edges of the finer level; add it "
                    "there"
                )

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        """Divide the declared domain; the data have no influence.

        Intervals of a single leaf or the whole domain are omitted, because another node is the same range.
        """
        starts = self._starts(self.finest)
        end = self.max + 1 if self.whole else np.nextafter(self.max, np.inf)
        stops = np.append(starts[1:], end)
        inclusive = stops == stops[-1]
        farthest = np.iinfo(np.int64).max if self.whole else np.inf
        low, high = self.open in ("low", "both"), self.open in ("high", "both")
        levels: list[Level] = []
        widths = sorted(set(self.widths) - {self.finest})
        marked = [np.array([starts[0], *level], dtype=starts.dtype) for level in dict.fromkeys(self.edges)]
        for marks in marked or map(self._starts, widths):
            lo = np.searchsorted(starts, marks)
            hi = np.append(lo[1:], len(starts))
            if len(lo) == 1 and (not (low or high) or (levels and len(levels[-1].lo) == 1)):
                continue
            lo, hi = lo[hi - lo > 1], hi[hi - lo > 1]
            levels.append(Level(lo + low, hi + low, self._labels(starts[lo], stops[hi - 1], inclusive[hi - 1])))
        leaves = self._labels(starts, stops, inclusive)
        if low:
            leaves.insert(0, f"< {number_text(self.min)}")
            stops, starts = np.insert(stops, 0, starts[0]), np.insert(starts, 0, -farthest)
            inclusive = np.insert(inclusive, 0, False)
        if high:
            leaves.append(f"> {number_text(self.max)}")
            starts, stops = np.append(starts, stops[-1]), np.append(stops, farthest)
            inclusive = np.append(inclusive, False)
        scale = Numbers(starts, stops, inclusive, open_low=low, open_high=high)
        return from_levels(leaves, levels, scale, declared=True)

    def _starts(self, width: Number) -> Marks:
        """Return the starts of intervals of this width, without rounding errors."""
        origin = self.min if self.origin is None else self.origin
        given = [exact(number) for number in (self.min, self.max, width, origin)]
        unit = math.lcm(*(number.denominator for number in given))
        low, high, stride, zero = (int(number * unit) for number in given)
        first = low + (zero - low) % stride
        after = high + 1 if self.whole else high
        marks = [*([low] if first != low else []), *range(first, after, stride)]
        if self.whole:
            return np.array(marks, dtype=np.int64)
        return np.array([mark / unit for mark in marks], dtype=np.float64)

    def _labels(self, starts: Marks, stops: Marks, inclusive: BoolArray) -> list[str]:
        ends = zip(starts.tolist(), stops.tolist(), inclusive.tolist(), strict=True)
        whole = self.whole
        return [interval_label(low, below, whole=whole, inclusive=last) for low, below, last in ends]


def _plain(number: Fraction) -> Number:
    return int(number) if number.denominator == 1 else float(number)


def _round_factor(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... above *least*."""
    power = int(10.0 ** math.floor(math.log10(least)))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power > least)


Span = Literal["month", "quarter", "year", "decade"]
MONTHS: dict[Span, int] = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_LABELS: dict[Span, str] = {
    "month": "{year:04d}-{month:02d}",
    "quarter": "{year:04d}-Q{quarter}",
    "year": "{year:04d}",
    "decade": "{year:04d}s",
}
_EPOCH = datetime.date(1970, 1, 1)


class DatesTaxonomy(TaxonomyBuilder):
    """Days in calendar spans; undeclared ends are at whole years, or at decades if the data span several.

    >>> admitted = DatesTaxonomy(min="2024-01-01", max="2024-12-31").build(pa.array([]))
    >>> admitted.label(0, 1), admitted.label(0, 31), admitted.label(0, 91), admitted.label(0, 32)
    ('2024-01-01', '2024-01', '2024-Q1', '[2024-01-01, 2024-02-01]')
    """

    name: ClassVar[str] = "dates"
    title: ClassVar[str] = "days in months, quarters, years and decades"

    levels: tuple[Span, ...] = Field(
        default=("month", "quarter", "year", "decade"), description="calendar spans above the day, in any order"
    )
    min: datetime.date | None = Field(default=None, description="the first day; without it, open at that end")
    max: datetime.date | None = Field(default=None, description="the last day; without it, open at that end")
    format: str | None = Field(
        default=None, min_length=2, description="how text is read, such as %d.%m.%Y; ISO without it"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min is not None and self.max is not None:
            if self.min > self.max:
                raise TaxonomyError(f"dates: max {self.max} is before min {self.min}")
            _count(_number(self.min), _number(self.max))
        return self

    def build(self, values: pa.Array) -> Taxonomy:
        """List the days from the first to the last; an undeclared end is the end of the data's year or decade."""
        first, last = self._ends(values)
        n_days = _count(first, last)
        dates = np.arange(first, last + 1, dtype=np.int64).astype("datetime64[D]")
        month = dates.astype("datetime64[M]").astype(np.int64)  # (n_days,) months since 1970
        spans = sorted(set(self.levels), key=MONTHS.__getitem__)
        levels = [_level(month // MONTHS[span], span) for span in spans]
        scale = Dates(first, n_days, self.min is None, self.max is None, self.format)
        declared = self.min is not None and self.max is not None
        return from_levels(np.datetime_as_string(dates).tolist(), levels, scale, declared=declared)

    def _ends(self, values: pa.Array) -> tuple[int, int]:
        if self.min is not None and self.max is not None:
            return _number(self.min), _number(self.max)
        number, valid = days(values, self.format)
        read = number[valid].astype("datetime64[D]")
        if self.min is not None:
            read = read[read >= np.datetime64(self.min)]
        if self.max is not None:
            read = read[read <= np.datetime64(self.max)]
        if not read.size:
            raise TaxonomyError(
                f"dates: no value of the column reads as a date ({self.format or 'ISO, such as 2024-03-05'}) "
                "within the domain; set format, or min and max"
            )
        years = np.array([read.min(), read.max()]).astype("datetime64[Y]").astype(np.int64)  # since 1970
        years += np.array([0, 1])
        if years[1] - years[0] > 10:
            years = np.array([years[0] // 10 * 10, -(-years[1] // 10) * 10])
        first, after = years.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64).tolist()
        return (
            first if self.min is None else _number(self.min),
            after - 1 if self.max is None else _number(self.max),
        )


def _level(span_of_day: IntArray, span: Span) -> Level:
    lo = np.flatnonzero(np.diff(span_of_day, prepend=span_of_day[0] - 1))
    if len(lo) == 1:
        return Level(lo[:0], lo[:0], [])  # it is the same as the root
    year, month = np.divmod(span_of_day[lo] * MONTHS[span], 12)
    pairs = zip((1970 + year).tolist(), month.tolist(), strict=True)
    labels = [_LABELS[span].format(year=y, month=m + 1, quarter=m // 3 + 1) for y, m in pairs]
    return Level(lo, np.append(lo[1:], len(span_of_day)), labels)


def _number(day: datetime.date) -> int:
    return (day - _EPOCH).days


def _count(first: int, last: int) -> int:
    n_days = last - first + 1
    if n_days > MOST_LEAVES:
        raise TaxonomyError(
            f"dates: the domain has {n_days:,} days, at most {MOST_LEAVES:,} are possible; "
            "set min and max closer together"
        )
    return n_days

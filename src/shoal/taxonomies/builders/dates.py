"""Days, months, quarters, years and decades."""

from __future__ import annotations

import datetime
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.core.arrays import IntArray
from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.construct import MOST_LEAVES, Level, from_levels
from shoal.taxonomies.parse import days
from shoal.taxonomies.scales import Dates
from shoal.taxonomies.tree import Taxonomy

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
    """Days under the calendar spans asked for; ends come from the policy or are whole years, or decades if several.

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
        """Lay out the days from the first to the last; an undeclared end is that of the data's year."""
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
        return Level(lo[:0], lo[:0], [])  # it would say no more than the root
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
            "set min and max nearer together"
        )
    return n_days

"""What one may ask a sliced release, and what the entries of its parts count for in an answer."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, FloatArray
from shoal.core.errors import UsageError, did_you_mean
from shoal.release.sliced.table import SlicedPart, SlicedTable, column_codes, number_rows
from shoal.taxonomies.parse import days, decimal_numbers, texts


@dataclass(frozen=True, slots=True)
class Query:
    """How many records, or how much of an attribute in all, for those that meet every condition; group by group.

    A condition is one value, a set or list of values of which one must be met, or a pair ``(low, high)``: from *low*
    up to but without *high*, for numbers and dates, None being no end. The value None is a missing one.

    >>> Query(where={"age": (20, 40), "sex": "F"}, by="education")
    Query(where={'age': (20, 40), 'sex': 'F'}, sum=None, by=('education',))
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    sum: str | None = None
    by: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", (self.by,) if isinstance(self.by, str) else tuple(self.by))
        object.__setattr__(self, "where", dict(self.where))
        if len(set(self.by)) < len(self.by):
            raise UsageError("`by` names an attribute twice; name each once")
        if {"value", "error"} & set(self.by):
            raise UsageError("an attribute called `value` or `error` cannot be in `by`: the answer has these columns")
        for name, condition in self.where.items():
            if isinstance(condition, tuple) and len(condition) != 2:
                raise UsageError(f"{name!r}: a range is a pair (low, high); give several values as a set or list")

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that the query is about, each once."""
        summed = () if self.sum is None else (self.sum,)
        return tuple(dict.fromkeys((*self.where, *summed, *self.by)))

    def check(self, known: Sequence[str]) -> None:
        """Raise if an attribute is not among those of the release."""
        for name in self.attributes:
            if name not in known:
                raise UsageError(f"attribute {name!r} is not in the release{did_you_mean(name, known)}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer: the expected value, and how far it is off in expectation.

    ``error`` is the standard deviation of the answers that tables like the original would give: all that link the
    parts of each bucket in some way, each way being equally likely. It is 0 if one part alone gives the answer.
    """

    value: float
    error: float


UNKNOWN = 0.5  # the share of a label of unknown width of which a part meets the condition


@dataclass(frozen=True, slots=True, eq=False)
class PartMoments:
    """For each distinct value of a part: what one of its entries adds, as a factor of the answer, in expectation.

    Only where a label may or may not meet a condition is ``square`` above the square of ``mean``.
    """

    part: int
    mean: FloatArray  # (n_codes,)
    square: FloatArray  # (n_codes,)
    counts: BoolArray  # (n_codes,) whether entries with this value are asked for at all
    group: CodeArray  # (n_codes,) number of the combination of attributes in `by`
    n_groups: int
    groups: pa.Table  # (n_groups rows), these combinations

    def within(self, group: int) -> PartMoments:
        """Return the same for one group alone."""
        there = self.group == group
        only = np.where(there, self.mean, 0.0), np.where(there, self.square, 0.0), self.counts & there
        return PartMoments(self.part, *only, self.group, self.n_groups, self.groups)


def part_moments(
    table: SlicedTable, parts: tuple[int, ...], entries: Mapping[str, Any], query: Query
) -> list[PartMoments]:
    """Return the factors of all parts; an attribute in several of them is asked about in the first."""
    asked: set[str] = set()
    found = []
    for number in parts:
        part = table.parts[number]
        names = [name for name in part.names if name in query.attributes and name not in asked]
        asked |= set(names)
        found.append(_moments(number, part, names, entries, query))
    return found


def _moments(number: int, part: SlicedPart, names: list[str], entries: Mapping[str, Any], query: Query) -> PartMoments:
    chance = np.ones(part.n_codes)
    for name in names:
        if name in query.where:
            column = part.distinct.column(name).combine_chunks()
            chance = chance * shares(column, name, entries[name], query.where[name])
    mean, square = chance, chance
    if query.sum in names:
        amount = _amounts(part, query.sum, entries[query.sum])
        mean, square = chance * amount, chance * (amount * amount)
    by = {name: part.distinct.column(name) for name in query.by if name in names}
    group, first = number_rows([column_codes(column) for column in by.values()], part.n_codes)
    groups = pa.table({name: column.take(pa.array(first)) for name, column in by.items()})
    return PartMoments(number, mean, square, chance > 0, group, len(first), groups)


def _amounts(part: SlicedPart, name: str, entry: Mapping[str, Any]) -> FloatArray:
    """Return (n_codes,) the numbers that are summed; a missing one adds nothing."""
    if "labels" in entry:
        raise UsageError(f"{name!r} is published in ranges, so it cannot be summed; count the records of each range")
    column = part.distinct.column(name).combine_chunks()
    numbers, valid = decimal_numbers(column)
    if not (valid | column.is_null().to_numpy(zero_copy_only=False)).all():
        raise UsageError(f"{name!r} has values that are no numbers, so it cannot be summed")
    return numbers


def shares(values: pa.Array, name: str, entry: Mapping[str, Any], condition: Any) -> FloatArray:
    """Return (n_values,) the share of each published value's records that meet the condition.

    It is 0 or 1 where values are published as they are. Records under a label lie evenly over what it covers: its
    values, or the width of its interval; of a label without an end that the condition cuts, half of them.
    """
    labels = entry.get("labels")
    if labels is None:
        return meets(values, name, entry, condition).astype(np.float64)
    share = {label: _share(cover, name, entry, condition) for label, cover in labels.items()}
    share[None] = _share({"missing": True}, name, entry, condition)
    return np.array([share.get(value, 0.0) for value in values.to_pylist()], dtype=np.float64)


def meets(values: pa.Array, name: str, entry: Mapping[str, Any], condition: Any) -> BoolArray:
    """Return (n_values,) whether each value meets the condition."""
    form = entry.get("format")
    if isinstance(condition, tuple):
        low, high, dates = _ends(name, condition, form)
        numbers, valid = days(values, form) if dates else decimal_numbers(values)
        return np.asarray(valid & (numbers >= low) & (numbers < high))
    found = np.zeros(len(values), dtype=np.bool_)
    for value in _list_values(condition):
        found |= _equal(values, entry, value)
    return found


def _equal(values: pa.Array, entry: Mapping[str, Any], value: Any) -> BoolArray:
    if value is None:
        return np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    number = _number(value)
    day = _day(value, entry.get("format")) if entry["kind"] == "date" or _is_date(value) else None
    if number is not None or day is not None:
        numbers, valid = decimal_numbers(values) if day is None else days(values, entry.get("format"))
        return np.asarray(valid & (numbers == (number if day is None else day)))
    same = pc.equal(texts(values), texts(pa.array([value]))[0])
    return np.asarray(same.fill_null(False).to_numpy(zero_copy_only=False))


def _share(cover: Mapping[str, Any], name: str, entry: Mapping[str, Any], condition: Any) -> float:
    """Return the share of a label's records that meet the condition."""
    missing = float(not isinstance(condition, tuple) and any(value is None for value in _list_values(condition)))
    among = cover.get("values")
    if cover.get("any"):
        among = list({value: None for other in entry["labels"].values() for value in other.get("values", ())})
    if among:
        hits = int(meets(pa.array(among, pa.string()), name, entry, condition).sum())
        together = bool(cover.get("missing", False))
        return (hits + missing * together) / (len(among) + together)
    interval = _interval(cover, entry)
    if interval is None:
        return missing if "missing" in cover else UNKNOWN
    return _overlap(*interval, name, entry, condition)


def _interval(cover: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[float, float, bool] | None:
    """Return the first number or day of a cover, the one after the last, and whether only whole ones count."""
    if "prefixes" in cover:
        if len(cover["prefixes"]) > 1:
            return None
        prefix = cover["prefixes"][0]
        rest = entry.get("length", len(prefix)) - len(prefix)
        cover = {"from": prefix + "0" * rest, "through": prefix + "9" * rest}
    if "from" not in cover:
        return None
    inclusive = "through" in cover
    low, high = cover["from"], cover["through" if inclusive else "below"]
    ends = []
    for end, none in ((low, -math.inf), (high, math.inf)):
        number = none if end is None else _day(end, None) if entry["kind"] == "date" else _number_of(end)
        if number is None:
            return None
        ends.append(float(number))
    whole = inclusive or entry["kind"] == "date" or all(end is None or isinstance(end, int) for end in (low, high))
    return ends[0], ends[1] + inclusive, whole


def _overlap(start: float, stop: float, whole: bool, name: str, entry: Mapping[str, Any], condition: Any) -> float:
    """Return the share of an interval that meets the condition."""
    width = stop - start
    if isinstance(condition, tuple):
        low, high, _ = _ends(name, condition, entry.get("format"))
        if whole:
            low, high = (end if math.isinf(end) else math.ceil(end) for end in (low, high))
        if low <= start and high >= stop:
            return 1.0
        common = min(stop, high) - max(start, low)
        return 0.0 if common <= 0 else UNKNOWN if math.isinf(width) else common / width
    dated = entry["kind"] == "date"
    asked = {_day(v, entry.get("format")) if dated else _number_of(v) for v in _list_values(condition) if v is not None}
    inside = sum(1 for number in asked if number is not None and start <= number < stop)
    if not inside:
        return 0.0
    return UNKNOWN if math.isinf(width) else inside / width if whole else 0.0


def _list_values(condition: Any) -> Iterable[Any]:
    several = isinstance(condition, set | frozenset | list)
    return condition if several else (condition,)


def _ends(name: str, condition: tuple[Any, Any], form: str | None) -> tuple[float, float, bool]:
    """Return both ends as numbers, or as days since 1970, and whether they are days."""
    dates = any(isinstance(end, str) or _is_date(end) for end in condition)
    ends = []
    for end, none in zip(condition, (-math.inf, math.inf), strict=True):
        number = none if end is None else _day(end, form) if dates else _number(end)
        if number is None:
            raise UsageError(f"{name!r}: a range needs two numbers or two dates; give several values as a set or list")
        ends.append(number)
    return ends[0], ends[1], dates


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date)


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return float(value) if known else None


def _number_of(value: Any) -> float | None:
    """Return the number that a value is, or that its text reads as."""
    number, valid = decimal_numbers(pa.array([str(value)]))
    return float(number[0]) if valid[0] else None


def _day(value: Any, form: str | None) -> float | None:
    """Return a date, or a text that is one, as days since 1970."""
    number, valid = days(
        pa.array([value.isoformat() if _is_date(value) else str(value)]), None if _is_date(value) else form
    )
    return float(number[0]) if valid[0] else None

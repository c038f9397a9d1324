"""Queries to sliced releases, and the contribution of each part's entries to the answer."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, FloatArray
from shoal.core.errors import UsageError, did_you_mean
from shoal.manifest import Attribute
from shoal.release.covers import Cover, read_numbers
from shoal.release.sliced.table import SlicedPart, SlicedTable, column_codes, number_rows
from shoal.taxonomies.parse import decimal_numbers, texts


@dataclass(frozen=True, slots=True)
class Query:
    """A count, or a sum of an attribute, over the records that satisfy every condition.

    Parameters
    ----------
    where
        A condition for each attribute: one value, a set or list of alternatives, or a range ``(low, high)`` of numbers
        or dates that includes *low* and excludes *high*. In a range, None is an open end; as a value, it means missing.
    sum
        The attribute to sum; without it, records are counted.
    by
        Attributes by which the answer is grouped.

    Examples
    --------
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
        """All attributes of the query, each once."""
        summed = () if self.sum is None else (self.sum,)
        return tuple(dict.fromkeys((*self.where, *summed, *self.by)))

    def check(self, known: Sequence[str]) -> None:
        for name in self.attributes:
            if name not in known:
                raise UsageError(f"attribute {name!r} is not in the release{did_you_mean(name, known)}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected answer, and its expected error.

    ``error`` is the standard deviation of the answers of all tables that link the parts of each bucket, each linking
    being equally likely. It is 0 if one part alone gives the answer.
    """

    value: float
    error: float


UNKNOWN = 0.5  # the assumed share of a label of unknown width that satisfies a condition in part


@dataclass(frozen=True, slots=True, eq=False)
class PartMoments:
    """For each distinct value of a part, the expected factor that an entry contributes to the answer.

    ``square`` exceeds the square of ``mean`` only if a label may or may not satisfy a condition.
    """

    part: int
    mean: FloatArray  # (n_codes,)
    square: FloatArray  # (n_codes,)
    counts: BoolArray  # (n_codes,) whether entries with this value can contribute
    group: CodeArray  # (n_codes,) number of the combination of attributes in `by`
    n_groups: int
    groups: pa.Table  # (n_groups rows), these combinations

    def within(self, group: int) -> PartMoments:
        there = self.group == group
        only = np.where(there, self.mean, 0.0), np.where(there, self.square, 0.0), self.counts & there
        return PartMoments(self.part, *only, self.group, self.n_groups, self.groups)


def part_moments(
    table: SlicedTable, parts: tuple[int, ...], attributes: Mapping[str, Attribute], query: Query
) -> list[PartMoments]:
    """Return the factors of all parts; a repeated attribute counts in the first of its parts."""
    asked: set[str] = set()
    found = []
    for number in parts:
        part = table.parts[number]
        names = [name for name in part.names if name in query.attributes and name not in asked]
        asked |= set(names)
        chance = np.ones(part.n_codes)
        for name in names:
            if name in query.where:
                column = part.distinct.column(name).combine_chunks()
                chance = chance * shares(column, attributes[name], query.where[name])
        mean, square = chance, chance
        if query.sum in names:
            amount = _amounts(part, attributes[query.sum])
            mean, square = chance * amount, chance * (amount * amount)
        by = {name: part.distinct.column(name) for name in query.by if name in names}
        group, first = number_rows([column_codes(column) for column in by.values()], part.n_codes)
        groups = pa.table({name: column.take(pa.array(first)) for name, column in by.items()})
        found.append(PartMoments(number, mean, square, chance > 0, group, len(first), groups))
    return found


def _amounts(part: SlicedPart, attribute: Attribute) -> FloatArray:
    """Return (n_codes,) the numbers to sum; a missing number adds 0."""
    name = attribute.name
    if attribute.boxed:
        raise UsageError(f"{name!r} is published in ranges, so it cannot be summed; count the records of each range")
    column = part.distinct.column(name).combine_chunks()
    numbers, valid = decimal_numbers(column)
    if not (valid | column.is_null().to_numpy(zero_copy_only=False)).all():
        raise UsageError(f"{name!r} has values that are not numbers, so it cannot be summed")
    return numbers


def shares(values: pa.Array, attribute: Attribute, condition: Any) -> FloatArray:
    """Return (n_values,) the share of each published value's records that satisfy the condition.

    It is 0 or 1 for unlabelled values. Records under a label are spread evenly over its values or interval; of an open
    interval that the condition cuts, half of the records count.
    """
    asked = _Condition.of(attribute, condition)
    if not attribute.boxed:
        return asked.meets(values).astype(np.float64)
    share: dict[str | None, float] = {label: asked.share(cover, attribute) for label, cover in attribute.covers.items()}
    share[None] = asked.share({"missing": True}, attribute)
    return np.array([share.get(value, 0.0) for value in values.to_pylist()], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on one attribute: a range of numbers or days, or alternatives."""

    dated: bool  # whether numbers are days since 1970
    form: str | None  # how texts write dates
    ends: tuple[float, float] | None
    values: Collection[Any] = ()

    @classmethod
    def of(cls, attribute: Attribute, condition: Any) -> _Condition:
        form = attribute.format
        if not isinstance(condition, tuple):
            several = isinstance(condition, set | frozenset | list)
            return cls(attribute.kind == "date", form, None, condition if several else (condition,))
        dated = any(isinstance(end, str | datetime.date) for end in condition)
        ends = [_place(end, form) if dated else _number(end) for end in condition]
        if any(end is not None and found is None for end, found in zip(condition, ends, strict=True)):
            raise UsageError(
                f"{attribute.name!r}: a range needs two numbers or two dates; give several values as a set or list"
            )
        low, high = ends
        return cls(dated, form, (-math.inf if low is None else low, math.inf if high is None else high))

    def meets(self, values: pa.Array) -> BoolArray:
        if self.ends is not None:
            numbers = read_numbers(values, "date" if self.dated else "number", self.form)
            return np.asarray((numbers >= self.ends[0]) & (numbers < self.ends[1]))
        found = np.zeros(len(values), dtype=np.bool_)
        for value in self.values:
            found |= self._equals(values, value)
        return found

    def _equals(self, values: pa.Array, value: Any) -> BoolArray:
        if value is None:
            return np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        number = _number(value)
        day = _place(value, self.form) if self.dated or isinstance(value, datetime.date) else None
        if number is not None or day is not None:
            numbers = read_numbers(values, "number" if day is None else "date", self.form)
            return np.asarray(numbers == (number if day is None else day))
        same = pc.equal(texts(values), texts(pa.array([value]))[0])
        return np.asarray(same.fill_null(False).to_numpy(zero_copy_only=False))

    def share(self, cover: Cover, attribute: Attribute) -> float:
        """Return the share of a label's records that satisfy the condition."""
        missing = float(any(value is None for value in self.values))
        among = cover.get("values")
        if cover.get("any"):
            among = list({value: None for other in attribute.covers.values() for value in other.get("values", ())})
        if among:
            hits = int(self.meets(pa.array(among, pa.string())).sum())
            together = bool(cover.get("missing", False))
            return (hits + missing * together) / (len(among) + together)
        interval = _interval(cover, attribute)
        if interval is None:
            return missing if "missing" in cover else UNKNOWN
        return self._overlap(*interval)

    def _overlap(self, start: float, stop: float, whole: bool) -> float:
        """Return the share of an interval that satisfies the condition."""
        width = stop - start
        if self.ends is not None:
            low, high = self.ends
            if whole:
                low, high = (end if math.isinf(end) else math.ceil(end) for end in self.ends)
            if low <= start and high >= stop:
                return 1.0
            common = min(stop, high) - max(start, low)
            return 0.0 if common <= 0 else UNKNOWN if math.isinf(width) else common / width
        read = [_place(value, self.form, dated=self.dated) for value in self.values if value is not None]
        inside = len({number for number in read if number is not None and start <= number < stop})
        if not inside:
            return 0.0
        return UNKNOWN if math.isinf(width) else inside / width if whole else 0.0


def _interval(cover: Cover, attribute: Attribute) -> tuple[float, float, bool] | None:
    """Return the first number or day of a cover, the end (excluded), and whether only whole numbers count."""
    if "prefixes" in cover:
        if len(cover["prefixes"]) > 1 or attribute.length is None:  # codes of varying length have no order as numbers
            return None
        prefix = cover["prefixes"][0]
        rest = attribute.length - len(prefix)
        cover = {"from": prefix + "0" * rest, "through": prefix + "9" * rest}
    if "from" not in cover:
        return None
    inclusive, dated = "through" in cover, attribute.kind == "date"
    low, high = cover["from"], cover["through" if inclusive else "below"]
    start = -math.inf if low is None else _place(low, None, dated=dated)
    stop = math.inf if high is None else _place(high, None, dated=dated)
    if start is None or stop is None:
        return None
    whole = inclusive or dated or all(end is None or isinstance(end, int) for end in (low, high))
    return start, stop + inclusive, whole


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return float(value) if known else None


def _place(value: Any, form: str | None, *, dated: bool = True) -> float | None:
    """Return a date as days since 1970, or the number in a text; None if it is neither."""
    is_date = isinstance(value, datetime.date)
    text = pa.array([value.isoformat() if is_date else str(value)])
    number = float(read_numbers(text, "date" if dated else "number", None if is_date else form)[0])
    return None if math.isnan(number) else number

"""The labels and covers of leaf ranges of categories, numbers, dates and masked texts.

The values of a range are inside its label, and no two ranges have the same label.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import find_values
from shoal.taxonomies.parse import days, decimal_numbers, texts, whole_numbers
from shoal.taxonomies.tree import NOT_MISSING_LABEL, Cover, Kind, Scale, Taxonomy

Number: TypeAlias = int | float
_EPOCH = datetime.date(1970, 1, 1).toordinal()
MOST_NAMED = 12  # nodes in one label


@dataclass(frozen=True, slots=True, eq=False)
class Categories(Scale):
    """Values without distances; a range is labelled by its nodes, and its cover lists the leaves."""

    kind: ClassVar[Kind] = "category"
    leaves: pa.Array  # (n_leaves,) source values as text

    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        """Return ``{a, b}`` for the nodes that make up the range or, if there are many, ``[a ... z]``."""
        nodes = taxonomy.tiles(lo, hi)
        if len(nodes) > MOST_NAMED:
            return f"[{_quote(taxonomy.labels[lo])} ... {_quote(taxonomy.labels[hi - 1])}]"
        return "{" + ", ".join(_quote(taxonomy.labels[node]) for node in nodes) + "}"

    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:  # noqa: ARG002
        return {"values": self.leaves.slice(lo, hi - lo).to_pylist()}

    def locate(self, values: pa.Array) -> CodeArray:
        return index_in(values, self.leaves)


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes(Scale):
    """Masked texts: a node covers its prefix, any other range covers the texts between its ends.

    Without a common length a code may be the prefix of others, and a leaf covers only itself.

    In a ``derived`` scale, whose leaves come from the data, ranges are open at the first and the last leaf: labels must
    not reveal the smallest or largest value of the data.
    """

    kind: ClassVar[Kind] = "prefix"
    leaves: pa.Array  # (n_leaves,) texts without the mask character
    length: int | None
    character: str
    derived: bool = False

    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        """Return ``[47102, 47110]`` or, for open ends, ``<= 47110`` and ``>= 47102``."""
        return range_label(*self._ends(taxonomy, lo, hi))

    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:
        """Return the prefix of a node, or the two ends of a range, null for open ones."""
        if node < 0:
            first, last = self._ends(taxonomy, lo, hi)
            return {"from": first, "through": last}
        if self.length is None and node < len(self.leaves):
            return {"values": [taxonomy.labels[node]]}
        return {"prefixes": [taxonomy.labels[node].rstrip(self.character)]}

    def locate(self, values: pa.Array) -> CodeArray:
        return index_in(pad_to_length(values, self.length), self.leaves)

    def reading(self) -> dict[str, Any]:
        return {} if self.length is None else {"length": self.length}

    def _ends(self, taxonomy: Taxonomy, lo: int, hi: int) -> tuple[str | None, str | None]:
        first = None if self.derived and lo == 0 else taxonomy.labels[lo]
        return first, None if self.derived and hi == len(self.leaves) else taxonomy.labels[hi - 1]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(Scale):
    """Adjacent intervals of whole numbers (``[20, 29]``) or decimals (``[20.5, 30)``).

    In a ``derived`` scale, whose leaves come from the data, ranges of several leaves end at multiples of one of the
    round ``widths`` and are open at the first and last leaf: no interval reveals a value of the data. A range that does
    not fit such a width extends to the next leaf, but no method publishes one.
    """

    kind: ClassVar[Kind] = "number"
    starts: IntArray | FloatArray  # (n_leaves,) the smallest number of each leaf
    stops: IntArray | FloatArray  # (n_leaves,) the first number after each leaf
    inclusive: BoolArray  # (n_leaves,) decimals only: the stop is the next float after the last number of the leaf
    open_low: bool = False  # whether the first leaf has no lower end
    open_high: bool = False  # whether the last leaf has no upper end
    derived: bool = False
    widths: tuple[Number, ...] = ()  # of the groups, finest first

    @property
    def whole(self) -> bool:
        return bool(self.starts.dtype.kind == "i")

    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:  # noqa: ARG002
        """Return the interval, which includes its last number if that is a leaf's last number."""
        low, below = self._bounds(lo, hi)
        inclusive = bool(self.inclusive[hi - 1]) and below == self.stops[hi - 1].item()
        return interval_label(low, below, whole=self.whole, inclusive=inclusive)

    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:  # noqa: ARG002
        low, below = self._bounds(lo, hi)
        return {"from": low, "below": below}

    def locate(self, values: pa.Array) -> CodeArray:
        numbers, valid = whole_numbers(values) if self.whole else decimal_numbers(values)
        leaf = np.searchsorted(self.starts, numbers, side="right") - 1
        inside = valid & (leaf >= 0) & (numbers < self.stops[leaf])
        return np.where(inside, leaf, -1).astype(np.int32)

    def positions(self) -> FloatArray:
        """Return the middle of each leaf; a leaf with an open end is assumed to be as wide as its neighbour."""
        last = self.stops - 1 if self.whole else self.stops
        places = (self.starts.astype(np.float64) + last.astype(np.float64)) / 2.0
        if self.open_low:
            places[0] = places[1] - float(self.stops[1] - self.starts[1])
        if self.open_high:
            places[-1] = places[-2] + float(self.stops[-2] - self.starts[-2])
        return places

    def _bounds(self, lo: int, hi: int) -> tuple[Number | None, Number | None]:
        stretched = self.derived and hi - lo > 1
        low, below = self.starts[lo].item(), self.stops[hi - 1].item()
        if stretched:
            low, below = self._round(lo, hi) or (low, None if hi == len(self.starts) else self.starts[hi].item())
        first, last = lo == 0, hi == len(self.starts)
        return (
            None if first and (self.open_low or stretched) else low,
            None if last and (self.open_high or stretched) else below,
        )

    def _round(self, lo: int, hi: int) -> tuple[Number, Number] | None:
        """Return the ends of the narrowest round interval with exactly these leaves, or None."""
        ends = self.starts[[lo, hi - 1]]
        numbers = [multiples(ends, width).tolist() for width in self.widths]
        fitting = [pair for pair in zip(numbers, self.widths, strict=True) if pair[0][0] == pair[0][1]]
        for (first, last), width in (*fitting, *zip(numbers[:1], self.widths[:1], strict=True)):
            low, below = multiple(first, width), multiple(last + 1, width)
            if np.searchsorted(self.starts, [low, below]).tolist() == [lo, hi]:
                return (low, below) if self.whole else (float(low), float(below))  # the verifier distinguishes them
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Dates(Scale):
    """Consecutive days; if an end comes from the data, ranges with it that are not nodes are open at that end."""

    kind: ClassVar[Kind] = "date"
    first: int  # days since 1970
    n_days: int
    derived_low: bool = False
    derived_high: bool = False
    format: str | None = None  # of texts; None: ISO

    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        low, below = self._bounds(taxonomy, lo, hi)
        return range_label(None if low is None else iso_day(low), None if below is None else iso_day(below - 1))

    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:  # noqa: ARG002
        ends = self._bounds(taxonomy, lo, hi)
        return {key: None if day is None else iso_day(day) for key, day in zip(("from", "below"), ends, strict=True)}

    def locate(self, values: pa.Array) -> CodeArray:
        number, valid = days(values, self.format)
        leaf = number - self.first
        return np.where(valid & (leaf >= 0) & (leaf < self.n_days), leaf, -1).astype(np.int32)

    def positions(self) -> FloatArray:
        return np.arange(self.first, self.first + self.n_days, dtype=np.float64)

    def reading(self) -> dict[str, Any]:
        return {} if self.format is None else {"format": self.format}

    def _bounds(self, taxonomy: Taxonomy, lo: int, hi: int) -> tuple[int | None, int | None]:
        at_low, at_high = self.derived_low and lo == 0, self.derived_high and hi == self.n_days
        is_range = (at_low or at_high) and taxonomy.node_of(lo, hi) < 0
        return None if at_low and is_range else self.first + lo, None if at_high and is_range else self.first + hi


def index_in(values: pa.Array, leaves: pa.Array) -> CodeArray:
    """Return (n_values,) the place of each value, as text, among the leaves, or -1."""
    return find_values(texts(values), leaves).astype(np.int32)


def pad_to_length(values: pa.Array, length: int | None) -> pa.Array:
    """Return texts unchanged and whole numbers padded with zeros; null for other lengths."""
    as_text = texts(values)
    if length is None:
        return pc.if_else(pc.equal(as_text, ""), None, as_text)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers, valid = whole_numbers(values)
        whole = pa.array(numbers, mask=~valid | (numbers < 0)).cast(pa.string())
        padded = pc.utf8_lpad(whole, width=length, padding="0")
        as_text = padded if pa.types.is_integer(values.type) else pc.coalesce(padded, as_text)
    return pc.if_else(pc.equal(pc.utf8_length(as_text), length), as_text, None)


def _quote(name: str) -> str:
    """Quote a label that contains commas, braces, quotes, an ellipsis or surrounding blanks."""
    unclear = set(name) & set(',{}"') or "..." in name or name != name.strip()
    return json.dumps(name, ensure_ascii=False) if unclear else name


def range_label(first: str | None, last: str | None) -> str:
    """Write a range of texts; None is an open end."""
    if first is None:
        return NOT_MISSING_LABEL if last is None else f"<= {last}"
    return f">= {first}" if last is None else f"[{first}, {last}]"


def interval_label(low: Number | None, below: Number | None, *, whole: bool, inclusive: bool = False) -> str:
    """Write the interval of numbers from *low* to below *below*; None is an open end.

    >>> interval_label(20, 30, whole=True), interval_label(20.5, 30.0, whole=False)
    ('[20, 29]', '[20.5, 30)')
    >>> interval_label(None, 20, whole=True), interval_label(65, None, whole=True)
    ('<= 19', '>= 65')
    """
    first = None if low is None else number_text(low)
    if below is None:
        return range_label(first, None)
    if not (whole or inclusive):
        return f"< {number_text(below)}" if first is None else f"[{first}, {number_text(below)})"
    last = below - 1 if whole else np.nextafter(below, -np.inf).item()
    return number_text(last) if low == last else range_label(first, number_text(last))


def multiple(times: int, width: Number) -> Number:
    """Return a multiple of a round width without rounding errors.

    >>> multiple(3, 0.1), multiple(3, 50)
    (0.3, 150)
    """
    return times * width if width >= 1 else times / round(1 / width)


def multiples(numbers: IntArray | FloatArray, width: Number) -> IntArray:
    """Return (n,) the quotients of numbers and a round width, rounded down.

    >>> multiples(np.array([0.3, -0.05]), 0.1).tolist()
    [3, -1]
    """
    if numbers.dtype.kind == "i":
        return np.asarray(numbers // int(width))
    inverse = 1.0 if width >= 1 else float(round(1 / width))
    scaled = float(width) if width >= 1 else 1.0
    times = np.floor(numbers / scaled * inverse)
    times -= times * scaled / inverse > numbers
    times += (times + 1) * scaled / inverse <= numbers
    return times.astype(np.int64)


def exact(number: Number) -> Fraction:
    """Return the number as it was written: 0.1 is one tenth."""
    return Fraction(repr(number))


def number_text(number: Number) -> str:
    """Write a number in the shortest form that reads back as the same number.

    >>> number_text(30.0), number_text(0.1), number_text(7)
    ('30', '0.1', '7')
    """
    return repr(number).removesuffix(".0")


def iso_day(day: int) -> str:
    """Write a day since 1970 as an ISO date.

    >>> iso_day(0)
    '1970-01-01'
    """
    return datetime.date.fromordinal(day + _EPOCH).isoformat()

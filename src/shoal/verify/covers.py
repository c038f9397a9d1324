"""What a published label stands for, as ranges of codes on a line, and where source values lie on it.

The line of an attribute is cut at every place where some label begins or ends. Between two neighbouring cuts
all values are covered by the same labels, so a value is known by the number of its stretch. Two more
stretches follow: of values that have no place on the line, and of missing values.
"""

from __future__ import annotations

import datetime
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.verify.kernels import kernel
from shoal.verify.manifest import Attribute

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_EPOCH = datetime.date(1970, 1, 1)
_FLAGS = ("any", "missing")
Cover = Mapping[str, Any]
Stretch = tuple[int, int]


class CoverError(Exception):
    """A cover of the manifest has no meaning; the message names the attribute and no value."""


class Line(ABC):
    """Where values and labels of one attribute lie; ``stretches`` of values, others, missing ones."""

    stretches: int

    @abstractmethod
    def ranges(self, cover: Cover) -> list[Stretch]:
        """Return the stretches of a cover, its flags set aside."""

    @abstractmethod
    def places(self, values: pa.Array) -> IntArray:
        """Return (n,) the stretch of each value, ``stretches`` for values off the line; nulls never come."""

    @property
    def width(self) -> int:
        """The number of codes, those of other and of missing values included."""
        return self.stretches + 2

    def all_ranges(self, cover: Cover) -> list[Stretch]:
        """Return the stretches of a cover, flags included."""
        if cover.get("any"):
            return [(0, self.width)]
        found = self.ranges(cover)
        return [*found, (self.width - 1, self.width)] if cover.get("missing") else found


class NumberLine(Line):
    """Numbers and, as days since 1970, dates: half-open intervals with open ends."""

    def __init__(self, attribute: Attribute, covers: Sequence[Cover]) -> None:
        self._attribute = attribute
        edges: set[float] = set()
        for cover in covers:
            for low, high in self._intervals(cover):
                edges.update((low, high))
        self._edges: FloatArray = np.array(sorted(edges), dtype=np.float64)
        self.stretches = len(edges) + 1
        self._place = {edge: place + 1 for place, edge in enumerate(self._edges.tolist())}

    def _edge(self, raw: object, end: float) -> float:
        if raw is None:
            return end
        if self._attribute.kind == "date":
            try:
                return float((datetime.date.fromisoformat(str(raw)) - _EPOCH).days)
            except ValueError:
                raise CoverError(f"a cover of {self._attribute.name!r} has an end that is no date") from None
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise CoverError(f"a cover of {self._attribute.name!r} has an end that is no number")
        return float(raw)

    def _intervals(self, cover: Cover) -> list[tuple[float, float]]:
        if "values" in cover:
            points = self._numbers(pa.array(cover["values"], type=pa.string()))
            if not bool(np.isfinite(points).all()):
                raise CoverError(f"a cover of {self._attribute.name!r} lists values that cannot be read")
            return [(float(p), float(np.nextafter(p, math.inf))) for p in points]
        if "from" not in cover:
            return []
        low = self._edge(cover["from"], -math.inf)
        high = self._edge(cover["below"], math.inf)
        if not low < high:
            raise CoverError(f"a cover of {self._attribute.name!r} is an empty interval")
        return [(low, high)]

    def ranges(self, cover: Cover) -> list[Stretch]:
        return [(self._place[low], self._place[high]) for low, high in self._intervals(cover)]

    def places(self, values: pa.Array) -> IntArray:
        numbers = self._numbers(values)
        codes = np.searchsorted(self._edges, numbers, side="right").astype(np.int64)
        codes[~np.isfinite(numbers)] = self.stretches
        return codes

    def _numbers(self, values: pa.Array) -> FloatArray:
        """Return the values as numbers; NaN where one cannot be read."""
        dates = self._attribute.kind == "date"
        if _is_text(values.type):
            read = self._date if dates else _as_number
            texts = values.to_pylist()
            return np.fromiter((read(text) for text in texts), dtype=np.float64, count=len(texts))
        if dates:
            values = values.cast(pa.date32(), safe=False).cast(pa.int32())
        return np.asarray(pc.cast(values, pa.float64(), safe=False), dtype=np.float64)

    def _date(self, text: str) -> float:
        form = self._attribute.format
        try:
            if form:
                day = datetime.datetime.strptime(text, form).date()
            else:
                day = datetime.datetime.fromisoformat(text.strip()).date()
        except ValueError:
            return math.nan
        return float((day - _EPOCH).days)


def _as_number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


class TextLine(Line):
    """Texts in byte order: a prefix is a range of it."""

    def __init__(self, attribute: Attribute, covers: Sequence[Cover]) -> None:
        self._attribute = attribute
        values = {text for cover in covers for text in cover.get("values", ())}
        prefixes = {text for cover in covers for text in cover.get("prefixes", ())}
        if "" in prefixes:
            raise CoverError(f"a cover of {attribute.name!r} has an empty prefix")
        between = {(cover["from"], cover["through"]) for cover in covers if "through" in cover}
        if any(first > last for first, last in between):
            raise CoverError(f"a cover of {attribute.name!r} is an empty range")
        points = {text: (text.encode(), text.encode() + b"\0") for text in values}
        bands = {(first, last): (first.encode(), last.encode() + b"\0") for first, last in between}
        # UTF-8 has no byte 0xff, so the last byte can always be raised.
        starts = {text: text.encode() for text in prefixes}
        spans = {text: (raw, raw[:-1] + bytes([raw[-1] + 1])) for text, raw in starts.items()}
        edges = sorted({edge for span in (*points.values(), *spans.values(), *bands.values()) for edge in span})
        place = {edge: number + 1 for number, edge in enumerate(edges)}
        self._points = {text: (place[low], place[high]) for text, (low, high) in points.items()}
        self._spans = {text: (place[low], place[high]) for text, (low, high) in spans.items()}
        self._bands = {ends: (place[low], place[high]) for ends, (low, high) in bands.items()}
        self._table = np.empty(len(edges), dtype=object)
        self._table[:] = edges
        self.stretches = len(edges) + 1

    def ranges(self, cover: Cover) -> list[Stretch]:
        if "through" in cover:
            return [self._bands[cover["from"], cover["through"]]]
        values, prefixes = cover.get("values", ()), cover.get("prefixes", ())
        return [*(self._points[text] for text in values), *(self._spans[text] for text in prefixes)]

    def places(self, values: pa.Array) -> IntArray:
        texts = _texts(values)
        if pa.types.is_integer(values.type) and self._attribute.length:
            texts = [text.zfill(self._attribute.length) for text in texts]
        encoded = np.empty(len(texts), dtype=object)
        encoded[:] = [text.encode() for text in texts]
        return np.searchsorted(self._table, encoded, side="right").astype(np.int64)


class ValueLine(Line):
    """Categories, in an order that keeps the values of a label together where the lists allow it."""

    def __init__(self, covers: Sequence[Cover]) -> None:
        order = _common_order([list(cover.get("values", ())) for cover in covers])
        self._place = {value: place for place, value in enumerate(order)}
        self.stretches = len(order)

    def ranges(self, cover: Cover) -> list[Stretch]:
        return [(self._place[value], self._place[value] + 1) for value in cover.get("values", ())]

    def places(self, values: pa.Array) -> IntArray:
        texts = _texts(values)
        found = (self._place.get(text, self.stretches) for text in texts)
        return np.fromiter(found, dtype=np.int64, count=len(texts))


def _common_order(lists: list[list[str]]) -> list[str]:
    """Order values so that each list stays in its own order if all of them agree; speed only, never truth."""
    following: dict[str, dict[str, None]] = {}
    waiting: dict[str, int] = {}
    for values in lists:
        for value in values:
            following.setdefault(value, {})
            waiting.setdefault(value, 0)
        for first, second in pairwise(values):
            if second not in following[first]:
                following[first][second] = None
                waiting[second] += 1
    ready = [value for value, before in reversed(waiting.items()) if not before]
    order: dict[str, None] = {}
    while ready:
        value = ready.pop()
        order[value] = None
        for successor in reversed(following[value]):
            waiting[successor] -= 1
            if not waiting[successor]:
                ready.append(successor)
    return [*order, *(value for value in waiting if value not in order)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(values: pa.Array) -> list[str]:
    found: list[str] = (values if _is_text(values.type) else values.cast(pa.string())).to_pylist()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """The labels of one attribute as code ranges; label i covers ranges ``start[i]:start[i + 1]``.

    Stretches that no label but "any" covers share the code of other values: labels that differ only by such
    a gap are neighbours.
    """

    attribute: Attribute
    labels: tuple[str, ...]
    start: IntArray  # (n_labels + 1,)
    low: CodeArray  # (n_ranges,)
    high: CodeArray  # (n_ranges,)
    width: int  # codes are below this; the last one stands for missing values
    line: Line
    codes: CodeArray  # (line.width,) the code of each stretch

    @property
    def missing(self) -> int:
        """The code of missing values."""
        return self.width - 1

    def places(self, values: pa.Array) -> CodeArray:
        """Return (n,) the code of each value; nulls are not among them."""
        return self.codes[self.line.places(values)]

    def hulls(self) -> tuple[CodeArray, CodeArray, BoolArray]:
        """Return the smallest range around each label, and whether it is wider than the label itself.

        One more label, the last, stands for texts that the manifest does not know and covers nothing.
        """
        pieces = np.diff(self.start)
        low = np.zeros(len(self.labels) + 1, dtype=np.int32)
        high = np.zeros(len(self.labels) + 1, dtype=np.int32)
        some = np.flatnonzero(pieces > 0)
        low[some] = self.low[self.start[some]]
        high[some] = self.high[self.start[some + 1] - 1]
        return low, high, np.append(pieces > 1, False)


def read_covers(attribute: Attribute) -> Covers:
    """Return the labels of an attribute as ranges, or raise CoverError if one has no meaning."""
    labels = attribute.labels or {}
    covers = list(labels.values())
    for cover in covers:
        _well_formed(attribute, cover)
    line: Line
    if attribute.kind in ("number", "date"):
        line = NumberLine(attribute, covers)
    elif attribute.kind == "prefix":
        line = TextLine(attribute, covers)
    else:
        line = ValueLine(covers)
    ranges = [line.all_ranges(cover) for cover in covers]
    flat = np.array(list(chain.from_iterable(ranges)), dtype=np.int64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(ranges)), list(map(len, ranges)))
    named = flat[flat[:, 1] - flat[:, 0] < line.width]
    begins, ends = (np.bincount(named[:, side], minlength=line.width + 1) for side in (0, 1))
    covered = np.cumsum(begins - ends)[: line.stretches] > 0
    codes = np.zeros(line.width, dtype=np.int32)
    codes[: line.stretches] = np.cumsum(covered) - covered
    n_covered = int(covered.sum())
    codes[: line.stretches][~covered] = n_covered
    codes[line.stretches :] = (n_covered, n_covered + 1)
    # below: (line.width + 1,) how many codes lie before each stretch
    below = np.append(np.cumsum(covered) - covered, (n_covered, n_covered + 1, n_covered + 2))
    order = np.lexsort((flat[:, 0], owner))
    start, low, high = _joined(len(ranges), owner[order], below[flat[order, 0]], below[flat[order, 1]])
    return Covers(attribute, tuple(labels), start, low, high, n_covered + 2, line, codes)


@kernel
def _joined(n: int, owner: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, CodeArray, CodeArray]:
    """Join ranges of one owner that touch; owners ascend, and so do the ranges of each."""
    start = np.zeros(n + 1, dtype=np.int64)
    new_low = np.empty(low.shape[0], dtype=np.int32)
    new_high = np.empty(low.shape[0], dtype=np.int32)
    count = 0
    for i in range(low.shape[0]):
        if i > 0 and owner[i] == owner[i - 1] and low[i] <= new_high[count - 1]:
            new_high[count - 1] = max(new_high[count - 1], high[i])
            continue
        new_low[count], new_high[count] = low[i], high[i]
        count += 1
        start[owner[i] + 1] += 1
    return np.cumsum(start), new_low[:count].copy(), new_high[:count].copy()


def _well_formed(attribute: Attribute, cover: Cover) -> None:
    allowed = {
        "number": ({"from", "below"}, {"values"}),
        "date": ({"from", "below"}, {"values"}),
        "prefix": ({"prefixes"}, {"values"}, {"prefixes", "values"}, {"from", "through"}),
        "category": ({"values"},),
    }[attribute.kind]
    what = f"a cover of {attribute.name!r}"
    if any(flag in cover and cover[flag] is not True for flag in _FLAGS):
        raise CoverError(f"{what} has a flag that is not true")
    rest = set(cover) - set(_FLAGS)
    if "any" in cover:
        if set(cover) != {"any"}:
            raise CoverError(f"{what} says more than 'any'")
        return
    if rest not in allowed and not (not rest and "missing" in cover):
        raise CoverError(f"{what} is not written as covers of kind {attribute.kind!r} are")
    if "through" in cover and not all(isinstance(cover[end], str) for end in ("from", "through")):
        raise CoverError(f"{what} has ends that are not text")
    for key in ("values", "prefixes"):
        listed = cover.get(key, [""])
        if not isinstance(listed, list | tuple) or not listed or not all(isinstance(v, str) for v in listed):
            raise CoverError(f"{what} has no list of texts under {key!r}")

"""The line on which values and labels of one attribute lie.

It is cut at every place where some label begins or ends. Between two neighbouring cuts all values are covered by the
same labels, so a value is known by the number of its stretch. Two more stretches follow: of values that have no
place on the line, and of missing values.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_EPOCH = datetime.date(1970, 1, 1)
Cover: TypeAlias = Mapping[str, Any]
Pieces: TypeAlias = tuple[IntArray, IntArray, IntArray]  # of each range its label, first stretch and end


class CoverError(Exception):
    """A cover of the manifest has no meaning; the message names the attribute and no value."""


class Line(ABC):
    """Where values and labels of one attribute lie; ``stretches`` of values, others, missing ones."""

    stretches: int
    pieces: Pieces  # the ranges of all covers, their flags set aside

    @abstractmethod
    def places(self, values: pa.Array) -> IntArray:
        """Return (n,) the stretch of each value, ``stretches`` for values off the line; nulls never come."""

    @property
    def width(self) -> int:
        """The number of codes, those of other and of missing values included."""
        return self.stretches + 2


def _listed(covers: Sequence[Cover], key: str) -> tuple[list[int], list[str]]:
    """Return the entries of all lists under *key*, and whose each one is."""
    found = [(owner, text) for owner, cover in enumerate(covers) if key in cover for text in cover[key]]
    return [owner for owner, _ in found], [text for _, text in found]


class NumberLine(Line):
    """Numbers and, as days since 1970, dates: half-open intervals with open ends."""

    def __init__(self, attribute: Attribute, covers: Sequence[Cover]) -> None:
        self._attribute = attribute
        self._known: dict[str, float] = {}
        listed, texts = _listed(covers, "values")
        points = self.numbers(pa.array(texts, type=pa.string()))
        if not bool(np.isfinite(points).all()):
            raise CoverError(f"a cover of {attribute.name!r} lists values that cannot be read")
        spans = [owner for owner, cover in enumerate(covers) if "from" in cover]
        low = self._ends([covers[owner]["from"] for owner in spans], -math.inf)
        high = self._ends([covers[owner]["below"] for owner in spans], math.inf)
        if not bool((low < high).all()):
            raise CoverError(f"a cover of {attribute.name!r} is an empty interval")
        low, high = np.append(low, points), np.append(high, np.nextafter(points, math.inf))
        self._edges: FloatArray = np.unique(np.append(low, high))
        self.stretches = self._edges.shape[0] + 1
        self.pieces = (
            np.array(spans + listed, dtype=np.int64),
            np.searchsorted(self._edges, low) + 1,
            np.searchsorted(self._edges, high) + 1,
        )

    def _ends(self, raws: list[object], end: float) -> FloatArray:
        read = self._day if self._attribute.kind == "date" else self._number
        return np.fromiter((end if raw is None else read(raw) for raw in raws), dtype=np.float64, count=len(raws))

    def _day(self, raw: object) -> float:
        text = str(raw)
        if text not in self._known:
            try:
                self._known[text] = float((datetime.date.fromisoformat(text) - _EPOCH).days)
            except ValueError:
                raise CoverError(f"a cover of {self._attribute.name!r} has an end that is no date") from None
        return self._known[text]

    def _number(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or abs(raw) > sys.float_info.max:
            raise CoverError(f"a cover of {self._attribute.name!r} has an end that is no number")
        return float(raw)

    def places(self, values: pa.Array) -> IntArray:
        numbers = self.numbers(values)
        codes = np.searchsorted(self._edges, numbers, side="right").astype(np.int64)
        codes[~np.isfinite(numbers)] = self.stretches
        return codes

    def numbers(self, values: pa.Array) -> FloatArray:
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
        listed, values = _listed(covers, "values")
        begun, prefixes = _listed(covers, "prefixes")
        if "" in prefixes:
            raise CoverError(f"a cover of {attribute.name!r} has an empty prefix")
        between = [owner for owner, cover in enumerate(covers) if "through" in cover]
        firsts = [covers[owner]["from"] for owner in between]
        lasts = [covers[owner]["through"] for owner in between]
        if any(None not in (first, last) and first > last for first, last in zip(firsts, lasts, strict=True)):
            raise CoverError(f"a cover of {attribute.name!r} is an empty range")
        starts = {text: _raw(text) for text in {*values, *prefixes, *firsts} - {None}}
        ends = {text: _raw(text) + b"\0" for text in {*values, *lasts} - {None}}
        # UTF-8 has no byte 0xff, so the last byte can always be raised.
        beyond = {text: (raw := starts[text])[:-1] + bytes([raw[-1] + 1]) for text in set(prefixes)}
        edges = sorted({*starts.values(), *ends.values(), *beyond.values()})
        place = {edge: number + 1 for number, edge in enumerate(edges)}
        low, high, past = ({text: place[edge] for text, edge in side.items()} for side in (starts, ends, beyond))
        low[None], high[None] = 0, len(edges) + 1  # open ends
        self.pieces = (
            np.array(listed + begun + between, dtype=np.int64),
            np.array([low[text] for text in chain(values, prefixes, firsts)], dtype=np.int64),
            np.array([*(high[t] for t in values), *(past[t] for t in prefixes), *(high[t] for t in lasts)], np.int64),
        )
        self._table = np.empty(len(edges), dtype=object)
        self._table[:] = edges
        self.stretches = len(edges) + 1

    def places(self, values: pa.Array) -> IntArray:
        texts = _texts(values)
        numeric = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if numeric and self._attribute.length:
            texts = [text.zfill(self._attribute.length) if text.isdigit() else text for text in texts]
        encoded = np.empty(len(texts), dtype=object)
        encoded[:] = [text.encode() for text in texts]
        return np.searchsorted(self._table, encoded, side="right").astype(np.int64)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class ValueLine(Line):
    """Categories, in an order that keeps the values of a label together where the lists allow it."""

    def __init__(self, covers: Sequence[Cover]) -> None:
        order = _common_order([list(cover.get("values", ())) for cover in covers])
        self._place = {value: place for place, value in enumerate(order)}
        self.stretches = len(order)
        owner, values = _listed(covers, "values")
        low = np.array([self._place[value] for value in values], dtype=np.int64)
        self.pieces = (np.array(owner, dtype=np.int64), low, low + 1)

    def places(self, values: pa.Array) -> IntArray:
        texts = _texts(values)
        if pa.types.is_floating(values.type) and "0" in self._place:
            texts = ["0" if text == "-0" else text for text in texts]  # two spellings of one number
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

"""The values that labels cover, as ranges of codes and of numbers, and the code of a value.

The labels of an attribute, in one release or in several, cut its values into segments that each label covers entirely
or not at all. The code of a value is the number of its segment. Segments that only labels of all values cover share the
code of other values, which precedes the code of missing values. The verifier reads covers independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.manifest import Attribute
from shoal.taxonomies.parse import days, decimal_numbers, texts

Cover: TypeAlias = Mapping[str, Any]  # values, prefixes, from with below or through, any, missing
ABSENT = "(missing)"  # the label of a missing value
_LAST = b"\xff"  # sorts after every text, because UTF-8 does not have this byte
_FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, pa.ArrowException)


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumn:
    """The labels of one attribute in the order of their codes, with the cover of each."""

    name: str
    kind: str
    labels: tuple[str | None, ...]  # (n_labels,) None for a missing value
    covers: tuple[Cover, ...]  # (n_labels,)
    format: str | None = None
    length: int | None = None

    @classmethod
    def of(cls, attribute: Attribute, values: Sequence[str | None], where: str) -> LabelColumn:
        """Return the column of an attribute, given its distinct texts in the file *where*."""
        declared = attribute.labels
        if declared is None:
            covers = [cover_itself(value) for value in values]
        elif any(value is None or value not in declared for value in values):
            raise InputError(
                f"{where}: column {attribute.name!r} has texts that its manifest does not explain; run `shoal verify` "
                "on it"
            )
        else:
            covers = [declared[str(value)] for value in values]
        return cls(attribute.name, attribute.kind, tuple(values), tuple(covers), attribute.format, attribute.length)

    @property
    def spans(self) -> FloatArray:
        """(n_labels, 2) the interval of numbers, or of days since 1970, that each label covers; NaN for other labels.

        >>> LabelColumn("age", "number", ("20-29", "*"), ({"from": 20, "below": 30}, {"any": True})).spans.tolist()
        [[20.0, 30.0], [-inf, inf]]
        """
        found = np.full((len(self.covers), 2), np.nan)
        if self.kind not in ("number", "date"):
            return found
        found[["any" in cover for cover in self.covers]] = -np.inf, np.inf
        owner, low, high = read_intervals(self.covers, self.kind, self.format)
        np.fmin.at(found[:, 0], owner, low)
        np.fmax.at(found[:, 1], owner, high)
        return found


def cover_itself(value: str | None) -> Cover:
    """Return the cover of an unlabelled value."""
    return {"missing": True} if value is None else {"values": [value]}


def read_numbers(values: pa.Array | Sequence[str | None], kind: str, form: str | None = None) -> FloatArray:
    """Return values as numbers, or dates of this form as days since 1970; NaN for other values."""
    given = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    numbers, valid = days(given, form) if kind == "date" else decimal_numbers(given)
    return np.where(valid, numbers, np.nan)


def read_intervals(covers: Sequence[Cover], kind: str, form: str | None) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the intervals of covers of numbers or dates: the place of the cover, the first number, and the end
    (excluded).
    """
    spans = [owner for owner, cover in enumerate(covers) if "from" in cover]
    ends = [covers[owner][side] for side in ("from", "below") for owner in spans]
    low, high = read_numbers([None if end is None else str(end) for end in ends], kind).reshape(2, -1)
    is_open = np.array([end is None for end in ends], dtype=np.bool_).reshape(2, -1)
    low, high = np.where(is_open[0], -np.inf, low), np.where(is_open[1], np.inf, high)
    listed = [(owner, text) for owner, cover in enumerate(covers) for text in cover.get("values", ())]
    points = read_numbers([text for _, text in listed], kind, form)
    owner = np.array([*spans, *(owner for owner, _ in listed)], dtype=np.int64)
    return owner, np.append(low, points), np.append(high, np.nextafter(points, np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """Labels as ranges of codes: label i covers the ranges ``start[i]:start[i + 1]``."""

    kind: str
    format: str | None
    length: int | None
    edges: NDArray[Any]  # ascending numbers or texts in UTF-8 between segments; for categories, the values
    codes: CodeArray  # (n_segments + 2,) the code of each segment, of other values, and of missing ones
    start: IntArray  # (n_labels + 1,)
    low: CodeArray  # (n_ranges,)
    high: CodeArray  # (n_ranges,)

    @property
    def missing(self) -> int:
        return int(self.codes[-1])

    @property
    def width(self) -> int:
        return self.missing + 1

    def places(self, values: pa.Array) -> CodeArray:
        """Return (n,) the code of each value; no value may be null."""
        return self.codes[self._find_segments(values)]

    def can_read(self, values: pa.Array) -> BoolArray:
        """Return (n,) whether each value is of the attribute's kind."""
        return self._find_segments(values) < len(self.codes) - 2

    def _find_segments(self, values: pa.Array) -> IntArray:
        if self.kind in ("number", "date"):
            numbers = read_numbers(values, self.kind, self.format)
            found = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), len(self.edges) + 1, found)
        if self.kind == "category":
            known = pa.array(self.edges, pa.string())
            return np.asarray(pc.index_in(texts(values), value_set=known).fill_null(len(known)), dtype=np.int64)
        shown = texts(values).to_pylist()
        if self.length and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            shown = [text.zfill(self.length) if text.isdigit() else text for text in shown]
        return np.searchsorted(self.edges, _as_objects([text.encode() for text in shown]), side="right")

    def hulls(self) -> tuple[CodeArray, CodeArray, BoolArray]:
        """Return (n_labels,) the smallest range around each label, and whether the label has gaps."""
        return self.low[self.start[:-1]], self.high[self.start[1:] - 1], np.diff(self.start) > 1


def read_covers(column: LabelColumn) -> Covers:
    """Return the labels of a column as ranges of codes.

    >>> young, old = {"from": 0, "below": 9}, {"from": 5, "below": 20}
    >>> found = read_covers(LabelColumn("age", "number", ("young", "old"), (young, old)))
    >>> found.low.tolist(), found.high.tolist(), found.places(pa.array([3, 7, 15, 99])).tolist()
    ([0, 1], [2, 3], [0, 1, 2, 3])
    """
    covers = column.covers
    try:
        edges, n_segments, owner, low, high = _cut(column)
        # covered: (n_segments,) whether a label covers the segment, apart from the label of all values
        change = np.bincount(low, minlength=n_segments + 1) - np.bincount(high, minlength=n_segments + 1)
        covered = np.cumsum(change)[:n_segments] > 0
        below = np.append(0, np.cumsum(covered))  # codes before each segment
        n_codes = int(below[-1])
        codes = np.append(np.where(covered, below[:-1], n_codes), [n_codes, n_codes + 1]).astype(np.int32)
        owners, lows, highs = [owner], [below[low]], [below[high]]
        for flag, first in (("any", 0), ("missing", n_codes + 1)):
            flagged = np.flatnonzero([flag in cover for cover in covers])
            owners.append(flagged)
            lows.append(np.full(len(flagged), first))
            highs.append(np.full(len(flagged), n_codes + 2))
        start, *ranges = _join_ranges(len(covers), *map(np.concatenate, (owners, lows, highs)))
        if len(np.unique(start)) <= len(covers):
            raise ValueError("a label covers nothing")
    except _FAULTS:
        raise InputError(
            f"the values that labels of {column.name!r} cover cannot be read; run `shoal verify` on the release"
        ) from None
    return Covers(column.kind, column.format, column.length, edges, codes, start, *ranges)


def _cut(column: LabelColumn) -> tuple[NDArray[Any], int, IntArray, IntArray, IntArray]:
    """Return the edges of segments, their number, and the label, first segment and end of each range."""
    covers = column.covers
    if column.kind == "category":
        # With long lists first, the values of each group of a tree stay together.
        lists = sorted((cover.get("values", ()) for cover in covers), key=len, reverse=True)
        place = {value: number for number, value in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
        named = [(owner, place[text]) for owner, cover in enumerate(covers) for text in cover.get("values", ())]
        whose, at = np.array(named, dtype=np.int64).reshape(-1, 2).T
        return _as_objects(list(place)), len(place), whose, at, at + 1
    ends: tuple[NDArray[Any], NDArray[Any]]
    if column.kind in ("number", "date"):
        whose, begins, stops = read_intervals(covers, column.kind, column.format)
        ends = begins, stops
        edges: NDArray[Any] = np.unique(np.append(*ends))
    else:
        ranges = list(_list_texts(covers))
        whose = np.array([owner for owner, _, _ in ranges], dtype=np.int64)
        ends = _as_objects([first for _, first, _ in ranges]), _as_objects([end for _, _, end in ranges])
        edges = _as_objects(sorted({*ends[0], *ends[1]}))
    if not (ends[0] < ends[1]).all():  # NaN, for an unreadable number, fails this as well
        raise ValueError("an empty range")
    low, high = (np.searchsorted(edges, side).astype(np.int64) + 1 for side in ends)
    return edges, len(edges) + 1, whose, low, high


def _list_texts(covers: Sequence[Cover]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the place of the label, the first text, and the end (excluded) of each range of texts."""
    for owner, cover in enumerate(covers):
        for raw in (text.encode("utf-8", "surrogatepass") for text in cover.get("values", ())):
            yield owner, raw, raw + b"\0"
        for raw in (text.encode("utf-8", "surrogatepass") for text in cover.get("prefixes", ())):
            yield owner, raw, raw[:-1] + bytes([raw[-1] + 1])
        if "through" in cover:
            first, last = cover["from"], cover["through"]
            yield owner, b"" if first is None else first.encode(), _LAST if last is None else last.encode() + b"\0"


def _as_objects(items: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found


def _join_ranges(n: int, owner: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, CodeArray, CodeArray]:
    """Return where the ranges of each of n labels begin, and the sorted ranges with touching ones joined."""
    order = np.lexsort((low, owner))
    owner, low, high = owner[order], low[order], high[order]
    apart = owner * (int(high.max(initial=0)) + 1)  # ranges of different labels never touch
    reach = np.maximum.accumulate(high + apart)
    first = np.flatnonzero(np.append(True, low[1:] + apart[1:] > reach[:-1])[: len(low)])
    last = np.append(first[1:], len(low))[: len(first)] - 1
    ends = reach[last] - apart[first]
    return np.searchsorted(owner[first], np.arange(n + 1)), low[first].astype(np.int32), ends.astype(np.int32)

"""What a published label stands for, as ranges of codes, and which code a source value has.

Values and labels of an attribute lie on a line, which is cut at every place where some label begins or ends. Between
two neighbouring cuts all values are covered by the same labels, so a value is known by the number of its stretch. Two
more stretches follow: of values that have no place on the line, and of missing values.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.manifest import Attribute

_FLAGS = ("any", "missing")


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """The labels of one attribute as code ranges; label i covers ranges ``start[i]:start[i + 1]``.

    Stretches that no label but "any" covers share the code of other values: labels that differ only by such
    a gap are neighbours.
    """

    attribute: Attribute
    labels: tuple[str | None, ...]  # None, the last, for missing values that are published as such
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

    def entries(self) -> Iterable[Cover]:
        """Return the covers as the manifest writes them."""
        return (self.attribute.labels or {}).values()

    def unmet(self, met: BoolArray) -> int:
        """Return how many codes that labels cover are not among those *met*, missing values that are kept aside."""
        covered = np.zeros(self.width, dtype=np.bool_)
        for label in range(len(self.labels) - self.attribute.may_keep_missing):
            for piece in range(self.start[label], self.start[label + 1]):
                covered[self.low[piece] : self.high[piece]] = True
        return int((covered & ~met).sum())

    def widths(self) -> IntArray:
        """Return (n_labels + 1,) how many codes each label covers; the last one, of unknown texts, covers none."""
        ends = np.append(0, np.cumsum(self.high - self.low))
        return np.append(np.diff(ends[self.start]), 0)

    def hulls(self) -> tuple[CodeArray, CodeArray, BoolArray]:
        """Return the smallest range around each label, and whether it is wider than the label itself.

        One more label, the last, stands for texts that the manifest does not know and covers nothing.
        """
        low, high = np.zeros((2, len(self.labels) + 1), dtype=np.int32)
        pieces = np.diff(self.start)
        some = np.flatnonzero(pieces)
        low[some] = self.low[self.start[some]]
        high[some] = self.high[self.start[some + 1] - 1]
        return low, high, np.append(pieces > 1, False)


def read_covers(attribute: Attribute) -> Covers:
    """Return the labels of an attribute as ranges, or raise CoverError if one has no meaning."""
    declared = attribute.labels or {}
    labels: tuple[str | None, ...] = tuple(declared)
    covers = list(declared.values())
    shapes: dict[tuple[str, ...], list[Cover]] = {}  # most covers have one of very few
    for cover in covers:
        shapes.setdefault(tuple(cover), []).append(cover)
    for shape, alike in shapes.items():
        _check_alike(attribute, set(shape), alike)
    if attribute.may_keep_missing:
        _check_spread(attribute.name, declared)
        labels = (*labels, None)
        covers.append({"missing": True})
    line: Line
    if attribute.kind in ("number", "date"):
        line = NumberLine(attribute, covers)
    elif attribute.kind == "prefix":
        line = TextLine(attribute, covers)
    else:
        line = ValueLine(covers)
    owner, low, high = line.pieces
    for flag, begin in (("any", 0), ("missing", line.width - 1)):
        more = np.array([number for number, cover in enumerate(covers) if flag in cover], dtype=np.int64)
        owner = np.append(owner, more)
        low, high = np.append(low, np.full(more.shape, begin)), np.append(high, np.full(more.shape, line.width))
    flat = np.stack([low, high], axis=1)
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
    start, lows, highs = _join_ranges(len(covers), owner[order], below[flat[order, 0]], below[flat[order, 1]])
    return Covers(attribute, labels, start, lows, highs, n_covered + 2, line, codes)


def _join_ranges(n: int, owner: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, CodeArray, CodeArray]:
    """Join ranges of one owner that touch; owners ascend, and so do the ranges of each."""
    apart = owner * (int(high.max(initial=0)) + 1)  # ranges of different owners never touch
    reach = np.maximum.accumulate(high + apart)
    first = np.flatnonzero(np.append(True, (low + apart)[1:] > reach[:-1])[: len(low)])
    ends = reach[np.append(first[1:], len(low))[: len(first)] - 1] - apart[first]
    return np.searchsorted(owner[first], np.arange(n + 1)), low[first].astype(np.int32), ends.astype(np.int32)


def _check_alike(attribute: Attribute, shape: set[str], covers: Sequence[Cover]) -> None:
    """Raise CoverError if covers of one shape are not written as their kind is."""
    allowed = {
        "number": ({"from", "below"}, {"values"}),
        "date": ({"from", "below"}, {"values"}),
        "prefix": ({"prefixes"}, {"values"}, {"prefixes", "values"}, {"from", "through"}),
        "category": ({"values"},),
    }[attribute.kind]
    what = f"a cover of {attribute.name!r}"
    if any(cover[flag] is not True for flag in _FLAGS if flag in shape for cover in covers):
        raise CoverError(f"{what} has a flag that is not true")
    rest = shape - set(_FLAGS)
    if "any" in shape:
        if shape != {"any"}:
            raise CoverError(f"{what} says more than 'any'")
        return
    if rest not in allowed and not (not rest and "missing" in shape):
        raise CoverError(f"{what} is not written as covers of kind {attribute.kind!r} are")
    if "through" in shape and not all(
        end is None or isinstance(end, str) for cover in covers for end in (cover["from"], cover["through"])
    ):
        raise CoverError(f"{what} has ends that are not text")
    for key in ("values", "prefixes"):
        if key in shape and not all(_is_list_of_texts(cover[key]) for cover in covers):
            raise CoverError(f"{what} has no list of texts under {key!r}")


def _check_spread(name: str, labels: Mapping[str, Cover]) -> None:
    """Raise CoverError if it is not clear over which values a record under a sensitive label spreads."""
    listed = {value for cover in labels.values() for value in cover.get("values", ())}
    for label, cover in labels.items():
        values = cover.get("values", ())
        if "any" in cover:
            raise CoverError(f"a cover of {name!r}, which is sensitive, says 'any' and does not list its values")
        if len(set(values)) != len(values):
            raise CoverError(f"a cover of {name!r} lists a value twice")
        if label in listed and (list(values) != [label] or "missing" in cover):
            raise CoverError(f"a label of {name!r} reads like a value and does not cover just this one")


def _is_list_of_texts(raw: object) -> bool:
    return isinstance(raw, list | tuple) and bool(raw) and all(isinstance(item, str) for item in raw)


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


def _list_entries(covers: Sequence[Cover], key: str) -> tuple[list[int], list[str]]:
    """Return the entries of all lists under *key*, and whose each one is."""
    found = [(owner, text) for owner, cover in enumerate(covers) if key in cover for text in cover[key]]
    return [owner for owner, _ in found], [text for _, text in found]


class NumberLine(Line):
    """Numbers and, as days since 1970, dates: half-open intervals with open ends."""

    def __init__(self, attribute: Attribute, covers: Sequence[Cover]) -> None:
        self._attribute = attribute
        listed, texts = _list_entries(covers, "values")
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
        try:
            return float((datetime.date.fromisoformat(str(raw)) - _EPOCH).days)
        except ValueError:
            raise CoverError(f"a cover of {self._attribute.name!r} has an end that is no date") from None

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
        if is_text(values.type):
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
        listed, values = _list_entries(covers, "values")
        begun, prefixes = _list_entries(covers, "prefixes")
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
        # Long lists first: a tree's groups keep the values of the groups in them together. Speed only, never truth.
        lists = sorted((cover.get("values", ()) for cover in covers), key=len, reverse=True)
        order = dict.fromkeys(chain.from_iterable(lists))
        self._place = {value: place for place, value in enumerate(order)}
        self.stretches = len(order)
        owner, values = _list_entries(covers, "values")
        low = np.array([self._place[value] for value in values], dtype=np.int64)
        self.pieces = (np.array(owner, dtype=np.int64), low, low + 1)

    def places(self, values: pa.Array) -> IntArray:
        texts = _texts(values)
        if pa.types.is_floating(values.type) and "0" in self._place:
            texts = ["0" if text == "-0" else text for text in texts]  # two spellings of one number
        found = (self._place.get(text, self.stretches) for text in texts)
        return np.fromiter(found, dtype=np.int64, count=len(texts))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(values: pa.Array) -> list[str]:
    found: list[str] = (values if is_text(values.type) else values.cast(pa.string())).to_pylist()
    return found


_SPAN = re.compile(r"(\d{4})(s|-Q([1-4])|-(\d\d))?")
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^,{}" ][^,{}"]*')
_NOT_MISSING = "(not missing)"
_DECIMAL = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_INTERVAL = re.compile(rf"\[{_DECIMAL}, {_DECIMAL}[\])]|[<>]=? {_DECIMAL}|{_DECIMAL}")
_DAY = r"\d{4}-\d\d-\d\d"
_DATES = re.compile(rf"\[{_DAY}, {_DAY}\]|[<>]= {_DAY}|{_DAY}|{_SPAN.pattern}")


def check_readings(attribute: Attribute) -> None:
    """Raise CoverError if a label of the attribute contradicts its cover: it is made again from that where it can be.

    The name of a group comes from the policy and cannot be made again. Groups of categories must be nested or disjoint,
    as the nodes of a tree are, and a name that reads like a value covers just that value.
    """
    labels = attribute.labels or {}
    reading = {"number": _number, "date": _date, "prefix": _prefix, "category": _category}[attribute.kind]
    known = {value for cover in labels.values() for value in cover.get("values", ())}
    ends = [[cover[end] for cover in labels.values() if cover.get(end) is not None] for end in ("from", "below")]
    shared: dict[str, Any] = {"known": known, "length": attribute.length, "masks": set(), "groups": [], "ends": ends}
    for label, cover in labels.items():
        if not _fits(attribute.kind, reading, label, cover, shared):
            raise CoverError(f"a label of {attribute.name!r} does not read like what it covers")
    if len(shared["masks"]) > 1 or not _are_nested(shared["groups"]):
        raise CoverError(f"labels of {attribute.name!r} do not fit together: they are not the nodes of one tree")


def _fits(kind: str, reading: Any, label: str, cover: Cover, shared: Mapping[str, Any]) -> bool:
    while label.endswith(" (range)"):
        label = label.removesuffix(" (range)")
    if "any" in cover:
        made = {"number": _INTERVAL, "date": _DATES}.get(kind)
        named = made is not None and not made.fullmatch(label) and not label.startswith("{")
        return kind == "category" or label.strip("()") == "*" or (named and label.strip("()") != "missing")
    if "missing" in cover:
        rest = {key: value for key, value in cover.items() if key != "missing"}
        if not rest:
            return label.strip("()") == "missing"
        found = re.fullmatch(r"\{(.*), \(*missing\)*\}", label, re.DOTALL)
        if kind == "category" and (found is None or _elements(found.group(1)) is not None):
            return _category(label if found is None else "{" + found.group(1) + "}", rest, shared)
        return found is not None and _fits(kind, reading, found.group(1), rest, shared)
    if "values" in cover and kind != "category":
        reading = _category
    if kind != "category" and (label.strip("()") in ("*", "missing") or label.startswith("{")):
        return False
    return label == _NOT_MISSING or bool(reading(label, cover, shared))


def _number(label: str, cover: Cover, shared: Mapping[str, Any]) -> bool:  # noqa: ARG001
    return label in _intervals(cover["from"], cover["below"]) or _INTERVAL.fullmatch(label) is None


def _intervals(low: float | None, below: float | None) -> Iterator[str]:
    """Yield how the numbers from *low* up to *below* may be written: whole ones, or decimals with either end."""
    whole = not isinstance(low, float) and not isinstance(below, float)
    less = [end if end is None else end - 1 if whole else math.nextafter(end, -math.inf) for end in (below, low)]
    last, before = less
    if low is None or below is None:
        yield from (f"<= {_text(last)}", f"< {_text(below)}") if low is None else ()
        yield from (f">= {_text(low)}", f"> {_text(before)}") if below is None else ()
        return
    yield f"[{_text(low)}, {_text(last)}]"
    if not whole:
        yield f"[{_text(low)}, {_text(below)})"
    if low == last:
        yield from (_text(low), repr(float(low)))


def _text(number: float | None) -> str:
    return "" if number is None else repr(number).removesuffix(".0")


def _date(label: str, cover: Cover, shared: Mapping[str, Any]) -> bool:
    if _DATES.fullmatch(label) is None:
        return True
    low, below = cover["from"], cover["below"]
    last = None if below is None else str(datetime.date.fromisoformat(below) - datetime.timedelta(1))
    if low is None or below is None:
        return label in ((f"<= {last}",) if low is None else (f">= {low}",))
    if label == f"[{low}, {last}]" or (label == low and low == last):
        return True
    span = _SPAN.fullmatch(label)
    if span is None:
        return False
    year, kind, quarter, month = int(span[1]), span[2], span[3], span[4]
    first = 3 * int(quarter) - 2 if quarter else int(month or 1)
    after = year * 12 + first - 1 + (120 if kind == "s" else 3 if quarter else 1 if month else 12)
    start, end = f"{year:04}-{first:02}-01", f"{after // 12:04}-{after % 12 + 1:02}-01"
    # A span that reaches beyond the ends of the domain is cut there.
    return low in (start, max(start, min(shared["ends"][0]))) and below in (end, min(end, max(shared["ends"][1])))


def _prefix(label: str, cover: Cover, shared: Mapping[str, Any]) -> bool:
    if "through" in cover:
        first, last = cover["from"], cover["through"]
        if first is None or last is None:
            return label in ((f"<= {last}",) if first is None else (f">= {first}",))
        return label == f"[{first}, {last}]"
    (prefix, *more) = cover["prefixes"]
    mask = set(label.removeprefix(prefix))
    shared["masks"].update(mask)
    whole = shared["length"] is None or len(label) == shared["length"]
    return not more and label.startswith(prefix) and len(mask) <= 1 and whole


def _category(label: str, cover: Cover, shared: Mapping[str, Any]) -> bool:
    values = cover["values"]
    if label in shared["known"]:
        return bool(list(values) == [label])
    ends = re.fullmatch(r"\[(.+) \.\.\. (.+)\]", label, re.DOTALL)
    if ends is not None:
        return all(_unquote(end) in values for end in ends.groups())
    elements = _elements(label[1:-1]) if label.startswith("{") and label.endswith("}") else None
    if elements is None:  # the name of a group
        shared["groups"].append(frozenset(values))
        return True
    # Blank values stand in quotes.
    named = {name for element in elements for name in (element, element.strip('"')) if name in shared["known"]}
    return named <= set(values) and (len(named) < len(elements) or named == set(values))


def _elements(text: str) -> list[str] | None:
    """Return the names in a set; None if it is not written as one."""
    found = _ELEMENT.findall(text)
    return [_unquote(one) for one in found] if ", ".join(found) == text else None


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _are_nested(groups: list[frozenset[str]]) -> bool:
    """Whether any two of some sets are disjoint or one of them holds the other."""
    within: dict[str, frozenset[str]] = {}  # value -> the largest set so far that holds it
    for group in sorted(groups, key=len):
        held = Counter(within[value] for value in group if value in within)
        if any(times < len(inner) for inner, times in held.items()):
            return False
        within |= dict.fromkeys(group, group)
    return True

"""The labels of an attribute: the values that each one covers, as ranges of codes.

Values and labels of an attribute are on a line, which is cut wherever a label begins or ends. All values between two
neighbouring cuts are covered by the same labels and have the same code. Two codes follow: one for values that have no
place on the line, and one for missing values.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute

_FLAGS = ("any", "missing")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_EPOCH = datetime.date(1970, 1, 1)
Cover: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[Any, Any]  # where it begins and ends on the line; None: it is open


class CoverError(Exception):
    """A cover of the manifest has no meaning; the message names the attribute and no value."""


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """The labels of one attribute as ranges of codes, in the order of the labels; ranges of a label do not touch."""

    n_labels: int  # with the one of missing values, if these are published as such
    owner: IntArray  # (n_ranges,) the number of the label
    low: IntArray  # (n_ranges,)
    high: IntArray  # (n_ranges,)

    def widths(self) -> IntArray:
        """Return (n_labels + 1,) how many codes each label covers; the last one, of unknown texts, covers none."""
        return np.bincount(self.owner, self.high - self.low, minlength=self.n_labels + 1).astype(np.int64)


def read_covers(attribute: Attribute) -> Covers:
    """Return the labels of an attribute as ranges, or raise CoverError if one has no meaning."""
    covers: list[Cover] = list(attribute.covers.values())
    shapes: dict[tuple[str, ...], list[Cover]] = {}  # most covers have one of very few
    for cover in covers:
        shapes.setdefault(tuple(cover), []).append(cover)
    for shape, alike in shapes.items():
        _check_alike(attribute, set(shape), alike)
    if attribute.may_keep_missing:
        _check_spread(attribute.name, attribute.covers)
        covers.append({"missing": True})
    find_spans = {"number": _find_intervals, "date": _find_intervals, "prefix": _find_texts, "category": _find_values}
    spans = find_spans[attribute.kind](attribute, covers)
    edges = sorted({end for own in spans for span in own for end in span if end is not None})
    code = {edge: number for number, edge in enumerate(edges, 1)}
    last = len(edges) + 2  # the code of missing values
    owner, low, high = [], [], []
    for number, (cover, own) in enumerate(zip(covers, spans, strict=True)):
        ranges = [(0 if begin is None else code[begin], last - 1 if end is None else code[end]) for begin, end in own]
        ranges += [(0, last + 1)] if "any" in cover else [(last, last + 1)] if "missing" in cover else []
        for begin, end in _join_ranges(ranges):
            owner.append(number)
            low.append(begin)
            high.append(end)
    return Covers(len(covers), *(np.array(column, dtype=np.int64) for column in (owner, low, high)))


def _join_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same ranges without those that touch another one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


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


def _find_intervals(attribute: Attribute, covers: Sequence[Cover]) -> list[list[Span]]:
    """Return half-open intervals of numbers or, as days since 1970, of dates."""
    name, read = attribute.name, _read_day if attribute.kind == "date" else _read_end
    found: list[list[Span]] = []
    for cover in covers:
        points = read_numbers(attribute, pa.array(cover.get("values", ()), pa.string())).tolist()
        if not all(map(math.isfinite, points)):
            raise CoverError(f"a cover of {name!r} lists values that cannot be read")
        found.append([(point, math.nextafter(point, math.inf)) for point in points])
        if "from" in cover:
            low, high = (None if cover[key] is None else read(name, cover[key]) for key in ("from", "below"))
            if low is not None and high is not None and low >= high:
                raise CoverError(f"a cover of {name!r} is an empty interval")
            found[-1].append((low, high))
    return found


def _read_day(name: str, raw: object) -> float:
    try:
        return float((datetime.date.fromisoformat(str(raw)) - _EPOCH).days)
    except ValueError:
        raise CoverError(f"a cover of {name!r} has an end that is no date") from None


def _read_end(name: str, raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or abs(raw) > sys.float_info.max:
        raise CoverError(f"a cover of {name!r} has an end that is no number")
    return float(raw)


def read_numbers(attribute: Attribute, values: pa.Array) -> FloatArray:
    """Return (n,) numbers, or days since 1970; NaN for texts that are neither. No value is missing."""
    dates = attribute.kind == "date"
    if is_text(values.type):
        texts = values.to_pylist()
        read = (_read_date(text, attribute.format) for text in texts) if dates else map(_read_number, texts)
        return np.fromiter(read, dtype=np.float64, count=len(texts))
    if dates:
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    return np.asarray(pc.cast(values, pa.float64(), safe=False), dtype=np.float64)


def _read_date(text: str, form: str | None) -> float:
    try:
        found = datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return math.nan
    return float((found.date() - _EPOCH).days)


def _read_number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _find_texts(attribute: Attribute, covers: Sequence[Cover]) -> list[list[Span]]:
    """Return ranges of texts in the order of their bytes: a prefix is one of them."""
    found: list[list[Span]] = []
    for cover in covers:
        spans: list[Span] = [(_raw(text), _raw(text) + b"\0") for text in cover.get("values", ())]
        for prefix in map(_raw, cover.get("prefixes", ())):
            if not prefix:
                raise CoverError(f"a cover of {attribute.name!r} has an empty prefix")
            spans.append((prefix, prefix[:-1] + bytes([prefix[-1] + 1])))  # UTF-8 has no byte 0xff
        if "through" in cover:
            first, last = (None if cover[key] is None else _raw(cover[key]) for key in ("from", "through"))
            if first is not None and last is not None and first > last:
                raise CoverError(f"a cover of {attribute.name!r} is an empty range")
            spans.append((first, None if last is None else last + b"\0"))
        found.append(spans)
    return found


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _find_values(attribute: Attribute, covers: Sequence[Cover]) -> list[list[Span]]:  # noqa: ARG001
    """Return categories, in an order that keeps the values of a label together where the lists allow it."""
    # Long lists first, because groups of a tree are parts of longer ones. This affects speed only.
    lists = sorted((cover.get("values", ()) for cover in covers), key=len, reverse=True)
    place = {value: at for at, value in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
    return [[(place[value], place[value] + 1) for value in cover.get("values", ())] for cover in covers]


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

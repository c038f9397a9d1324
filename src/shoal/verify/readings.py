"""Compare the text of each label with its cover, from which most labels can be written again."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.manifest import Attribute
from shoal.verify.covers import Cover, CoverError

_SPAN = re.compile(r"(\d{4})(s|-Q([1-4])|-(\d\d))?")
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^,{}" ][^,{}"]*')
_NOT_MISSING = "(not missing)"
_DECIMAL = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_INTERVAL = re.compile(rf"\[{_DECIMAL}, {_DECIMAL}[\])]|[<>]=? {_DECIMAL}|{_DECIMAL}")
_DAY = r"\d{4}-\d\d-\d\d"
_DATES = re.compile(rf"\[{_DAY}, {_DAY}\]|[<>]= {_DAY}|{_DAY}|{_SPAN.pattern}")


def check_readings(attribute: Attribute) -> None:
    """Raise CoverError if a label of the attribute contradicts its cover.

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
            raise CoverError(f"a label of {attribute.name!r} does not read like its cover")
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
    # Blank values are quoted.
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

"""From what somebody typed to the parameters of a taxonomy, and back to the text of a field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.policy.profiling import ColumnProfile
from shoal.studio.taxonomies.entries import EntryError
from shoal.taxonomies.scales import Number, number_text

Fields = Mapping[str, Sequence[str]]

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BETWEEN = re.compile(r"[\s,;]+")


def taxonomy_from(kind: str, fields: Fields, column: ColumnProfile) -> dict[str, Any]:
    """Return the taxonomy that a form declares, or say which field cannot be read."""
    if kind not in READERS:
        raise EntryError(f"there is no form for a taxonomy of kind {kind!r}; edit it in the policy", "kind")
    return {kind: READERS[kind](fields, column)}


def number(text: str, field: str) -> Number:
    """Read one number as it is typed: whole if it has no point.

    >>> number("18", "min"), number("0.50", "step")
    (18, 0.5)
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    raise EntryError(f"must be a number such as 18 or 0.5; received {text!r}", field)


def numbers(text: str, field: str) -> list[Number]:
    """Read numbers with commas or blanks between them.

    >>> numbers("5, 10 20", "widths")
    [5, 10, 20]
    """
    return [number(part, field) for part in _BETWEEN.split(text.strip()) if part]


def numbers_text(given: Sequence[Number]) -> str:
    """Write numbers as a field shows them."""
    return ", ".join(map(number_text, given))


def edges_text(levels: Sequence[Sequence[Number]]) -> str:
    """Write the edges of several levels, a line for each."""
    return "\n".join(map(numbers_text, levels))


def _intervals(fields: Fields, column: ColumnProfile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in ("min", "max"):
        if not _one(fields, field):
            raise EntryError("is required", field)
        found[field] = number(_one(fields, field), field)
    if _one(fields, "cut") == "edges":
        lines = [numbers(line, "edges") for line in _one(fields, "edges").splitlines()]
        found["edges"] = [line for line in lines if line]
    else:
        found["widths"] = sorted(set(numbers(_one(fields, "widths"), "widths")))
    for field in ("step", "origin"):
        if _one(fields, field):
            found[field] = number(_one(fields, field), field)
    if _one(fields, "open") not in ("", "none"):
        found["open"] = _one(fields, "open")
    if column.kind == "decimal":  # else an interval of whole numbers, which has no place for the others
        found["min"] = float(found["min"])
    return {key: value for key, value in found.items() if value != []}


def _dates(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    found: dict[str, Any] = {"levels": list(fields.get("levels", ()))}
    return found | {field: _one(fields, field) for field in ("min", "max", "format") if _one(fields, field)}


def _mask(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    found: dict[str, Any] = {"length": _whole(_one(fields, "length"), "length")}
    if _one(fields, "keep"):
        kept = {_whole(part, "keep") for part in _BETWEEN.split(_one(fields, "keep")) if part}
        found["keep"] = sorted(kept, reverse=True)
    if _one(fields, "character") not in ("", "*"):
        found["character"] = _one(fields, "character")
    if _one(fields, "alphabet"):
        found["alphabet"] = "digits"
    return found


def _flat(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    listed = [line.strip("\r") for line in "".join(fields.get("values", ())).split("\n")]
    return {"values": values} if (values := [line for line in listed if line.strip()]) else {}


def _nothing(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    return {}


def _whole(text: str, field: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise EntryError(f"must be a whole number{f'; received {text!r}' if text else ''}", field)
    return int(text)


def _one(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()


READERS: dict[str, Callable[[Fields, ColumnProfile], dict[str, Any]]] = {
    "intervals": _intervals,
    "dates": _dates,
    "mask": _mask,
    "flat": _flat,
    "numbers": _nothing,
}

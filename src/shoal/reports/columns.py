"""What the columns of a release are: the same words in the README and in both reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.release.forms.kinds import form_of

_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return what kind of values a column has."""
    return "text" if entry["kind"] == "prefix" and "labels" not in entry else _KINDS[entry["kind"]]


def published_as(name: str, manifest: Mapping[str, Any]) -> str:
    """Say what a column's values are."""
    entry, form = manifest["attributes"][name], form_of(manifest)
    changed = name in manifest.get("techniques", {})
    own = "changed: see above" if changed else "as in the original table"
    if form == "synthetic":
        return "drawn; see below"
    if entry["role"] == "quasi" and form == "centres":
        made = _centre(entry["kind"], manifest["method_parameters"])
    elif "labels" not in entry:
        return own
    elif entry["role"] == "quasi":
        made = "generalized; see below"
    else:
        made = f"{'' if changed else f'some {own}, '}some generalized; see below"
    return f"{own}; then {made}" if changed else made


def meaning(cover: Mapping[str, Any]) -> str:
    """Say what a label covers.

    >>> meaning({"from": 20, "below": 30})
    'from 20, below 30'
    """
    parts = []
    if cover.get("any"):
        parts.append("any value")
    if "values" in cover:
        parts.append(", ".join(str(value) for value in cover["values"]))
    if "prefixes" in cover:
        parts.append("beginning with " + ", ".join(cover["prefixes"]))
    if "through" in cover:
        low = "" if cover["from"] is None else f"from {cover['from']}"
        high = "" if cover["through"] is None else f"through {cover['through']}"
        parts.append(" ".join(part for part in (low, high) if part) or "any text")
    elif "from" in cover:
        low = "" if cover["from"] is None else f"from {cover['from']}"
        high = "" if cover["below"] is None else f"below {cover['below']}"
        parts.append(", ".join(part for part in (low, high) if part) or "any number")
    if cover.get("missing"):
        parts.append("missing")
    return " or ".join(parts)


def _centre(kind: str, parameters: Mapping[str, Any]) -> str:
    """Say what all records of a group show of a column."""
    if kind not in ("number", "date"):
        return "the most frequent value of a group"
    written = ", as year-month-day" if kind == "date" else ""
    return f"the {parameters['numbers']} of a group{written}"

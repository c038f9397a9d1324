"""What the columns of a release are: the same words in the README and in both reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return what kind of values a column has."""
    return "text" if entry["kind"] == "prefix" and "labels" not in entry else _KINDS[entry["kind"]]


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

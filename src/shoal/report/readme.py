"""The page that travels with the data: what the columns are and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.models.base import PrivacyModel
from shoal.registry import discover
from shoal.report.agreed_readme import CLASS_ROW, agreed_promises, classes
from shoal.report.sliced_readme import sliced_promises, slices
from shoal.report.text import cell, promise_line
from shoal.sliced.table import is_sliced

_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}
_MOST_LABELS = 40


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it tells only what the manifest tells."""
    sliced, agreed = is_sliced(manifest), "agreed" in manifest
    lines = [
        "# About these data",
        "",
        _origin(manifest) + (_buckets(manifest) if sliced else _rows()) + _withheld(manifest),
        "",
        *(slices(manifest) if sliced else ()),
        *(classes(manifest) if agreed else ()),
        "## What is promised",
        "",
        *(sliced_promises(manifest) if sliced else agreed_promises(manifest) if agreed else _promises(manifest)),
        "",
        "`manifest.json` states this for machines; `shoal verify` checks it against the data file.",
        "",
        "## Columns",
        "",
        "| column | role | kind | values |",
        "|---|---|---|---|",
        *(["| bucket | bucket | number | rows with the same number share a bucket |"] if sliced else ()),
        *([CLASS_ROW] if agreed else ()),
        *(_row(name, entry) for name, entry in manifest["attributes"].items()),
        "",
    ]
    if agreed:
        lines.append("No value is missing.")
    elif manifest["missing"]["policy"] == "category":
        where = "generalized" if sliced else "quasi"
        lines.append(f"A missing value is published as `missing` in {where} columns and as empty elsewhere.")
    else:
        where = "quasi" if sliced else "generalized"
        lines.append(f"Records with a missing value in a {where} or sensitive column were left out.")
    for name, entry in manifest["attributes"].items():
        if "labels" in entry:
            lines += ["", f"### {cell(name)}", "", *_labels(entry)]
    return "\n".join(lines) + "\n"


def _origin(manifest: Mapping[str, Any]) -> str:
    return (
        f"{manifest['rows']:,} records, published with shoal {manifest['shoal_version']} "
        f"(method `{manifest['method']}`). "
    )


def _rows() -> str:
    return (
        "Each row is one record of the original table. Values of the generalized columns stand for a range or a set "
        "that contains the original value. Rows are in random order."
    )


def _buckets(manifest: Mapping[str, Any]) -> str:
    return (
        f"They are in {manifest['buckets']:,} buckets, and their columns in {len(manifest['parts'])} parts. **Values "
        "in one row that are in different parts need not belong to the same person.**"
    )


def _withheld(manifest: Mapping[str, Any]) -> str:
    return f" {manifest['withheld']:,} more records were withheld." if manifest["withheld"] else ""


def _promises(manifest: Mapping[str, Any]) -> list[str]:
    known = discover("shoal.models", PrivacyModel)
    return [promise_line(promise, known[promise["model"]].title) for promise in manifest["guarantees"]]


def _row(name: str, entry: Mapping[str, Any]) -> str:
    if "labels" not in entry:
        published = "as in the original table"
    elif entry["role"] == "quasi":
        published = "generalized; see below"
    else:
        published = "some as in the original table, some generalized; see below"
    description = f"{cell(entry['description'])}; " if "description" in entry else ""
    return f"| {cell(name)} | {entry['role']} | {_KINDS[entry['kind']]} | {description}{published} |"


def _labels(entry: Mapping[str, Any]) -> list[str]:
    shown = list(entry["labels"].items())[:_MOST_LABELS]
    lines = ["| published | stands for |", "|---|---|"]
    lines += [f"| `{cell(label)}` | {cell(_meaning(cover))} |" for label, cover in shown]
    if len(shown) < len(entry["labels"]):
        lines += ["", f"... and {len(entry['labels']) - len(shown)} more, all listed in `manifest.json`."]
    return lines


def _meaning(cover: Mapping[str, Any]) -> str:
    """Say what a label covers.

    >>> _meaning({"from": 20, "below": 30})
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

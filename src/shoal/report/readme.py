"""The page that travels with the data: what the columns are and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.methods.base import Publishes
from shoal.report.agreed_readme import CLASS_ROW, agreed_promises, classes
from shoal.report.changes import changes, sample_told
from shoal.report.form import form_of
from shoal.report.promises import of_changed_values, promises
from shoal.report.sliced_readme import sliced_promises, slices
from shoal.report.synthetic_readme import drawn, kept
from shoal.report.text import cell
from shoal.sliced.table import is_sliced

_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}
_MOST_LABELS = 40
_ROWS: Mapping[Publishes, str] = {
    "classes": (
        "Each row is one record of the original table. Values of the generalized columns stand for a range or a set "
        "that contains the original value. Rows are in random order."
    ),
    "values": "Each row is one record of the original table. Rows are in random order.",
    "centres": (
        "Each row is one record of the original table, but its quasi columns hold averages: records were put into "
        "groups of similar ones, and all records of a group show the same. Rows are in random order."
    ),
}


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it tells only what the manifest tells."""
    sliced, agreed, synthetic = is_sliced(manifest), "agreed" in manifest, "synthetic" in manifest
    lines = [
        "# About these data",
        "",
        drawn(manifest) if synthetic else _origin(manifest),
        "",
        *(slices(manifest) if sliced else ()),
        *(classes(manifest) if agreed else ()),
        *(kept(manifest) if synthetic else ()),
        *changes(manifest),
        "## What is promised",
        "",
        *(sliced_promises(manifest) if sliced else agreed_promises(manifest) if agreed else promises(manifest)),
        *of_changed_values(manifest),
        "",
        "`manifest.json` states this for machines; `shoal verify` checks it against the data file.",
        "",
        "## Columns",
        "",
        "| column | role | kind | values |",
        "|---|---|---|---|",
        *(["| bucket | bucket | number | rows with the same number share a bucket |"] if sliced else ()),
        *([CLASS_ROW] if agreed else ()),
        *(_row(name, manifest) for name in manifest["attributes"]),
        "",
        _missing(manifest),
    ]
    for name, entry in manifest["attributes"].items():
        if "labels" in entry:
            lines += ["", f"### {cell(name)}", "", *_labels(entry)]
    return "\n".join(lines) + "\n"


def _origin(manifest: Mapping[str, Any]) -> str:
    made = f"published with shoal {manifest['shoal_version']} (method `{manifest['method']}`)"
    head = f"{manifest['rows']:,} records, {made}."
    rows = _buckets(manifest) if is_sliced(manifest) else _ROWS[form_of(manifest)]
    withheld = f"{manifest['withheld']:,} more records were withheld." if manifest["withheld"] else ""
    return " ".join(part for part in (head, sample_told(manifest), rows, withheld) if part)


def _buckets(manifest: Mapping[str, Any]) -> str:
    return (
        f"They are in {manifest['buckets']:,} buckets, and their columns in {len(manifest['parts'])} parts. **Values "
        "in one row that are in different parts need not belong to the same person.**"
    )


def _missing(manifest: Mapping[str, Any]) -> str:
    """Say how a missing value is published."""
    if "agreed" in manifest:
        return "No value is missing."
    if manifest["missing"]["policy"] == "drop":
        where = "generalized" if form_of(manifest) == "classes" else "quasi"
        return f"Records with a missing value in a {where} or sensitive column were left out."
    if "synthetic" in manifest:
        return "A missing value is published as `missing`."
    quasi = [entry for entry in manifest["attributes"].values() if entry["role"] == "quasi"]
    if not any("labels" in entry for entry in quasi):
        return "A missing value is published as empty."
    where = "generalized" if is_sliced(manifest) else "quasi"
    return f"A missing value is published as `missing` in {where} columns and as empty elsewhere."


def _row(name: str, manifest: Mapping[str, Any]) -> str:
    entry = manifest["attributes"][name]
    description = f"{cell(entry['description'])}; " if "description" in entry else ""
    published = _published(entry, form_of(manifest), changed=name in manifest.get("techniques", {}))
    kind = "text" if entry["kind"] == "prefix" and "labels" not in entry else _KINDS[entry["kind"]]
    return f"| {cell(name)} | {entry['role']} | {kind} | {description}{published} |"


def _published(entry: Mapping[str, Any], form: Publishes, *, changed: bool) -> str:
    """Say what a column's values are."""
    if form == "synthetic":
        return "drawn; see below"
    own = "changed: see above" if changed else "as in the original table"
    if entry["role"] == "quasi" and form == "centres":
        average = "the most frequent value" if entry["kind"] == "category" else "the average"
        return f"{f'{own}; then ' if changed else ''}{average} of a group"
    if "labels" not in entry:
        return own
    if entry["role"] == "quasi":
        return f"{f'{own}; then ' if changed else ''}generalized; see below"
    return f"{own}; some generalized: see below" if changed else f"some {own}, some generalized; see below"


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

"""What whoever receives a sliced release must know before counting anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.registry import discover
from shoal.models.base import PrivacyModel
from shoal.release.sliced.table import published_columns
from shoal.reports.text import code, promise_line, words

_MEANING = (
    "Rows with the same number in the column `bucket` make up a bucket. Within each bucket the parts were shuffled "
    "independently of each other: the values in one part of a row belong to one person, those in another part of the "
    "same row to a person of the same bucket, who need not be the same. Buckets are numbered at random."
)
_BELIEFS = (
    "Somebody who knows all quasi values of a person can compute from the whole table how likely each sensitive value "
    "is for that person, if all ways to link the parts within a bucket are equally likely. Where a promise below "
    "speaks of a *class*, it means this distribution of sensitive values."
)
_NOT_PROMISED = (
    "Nothing is promised about who is in the table: the combination of all quasi values of a person may fit a single "
    "record."
)


def slices(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the parts are."""
    columns = published_columns(manifest["parts"])
    return [
        "| part | columns |",
        "|---|---|",
        *(f"| {number} | {words(', '.join(names))} |" for number, names in enumerate(columns, start=1)),
        "",
        *parts_told(manifest),
        "",
    ]


def parts_told(manifest: Mapping[str, Any]) -> list[str]:
    """Say what buckets and parts are."""
    return [_MEANING, *_repeated(manifest), *_two_files(manifest)]


def sliced_promises(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the promises say of somebody who knows all quasi values of a person and has the whole table."""
    known = discover("shoal.models", PrivacyModel)
    lines = []
    if any(known[promise["model"]].sees == "values" for promise in manifest["guarantees"]):
        lines += [_BELIEFS, ""]
    for promise in manifest["guarantees"]:
        lines.append(promise_line(promise, known[promise["model"]].title))
    return [*lines, "", _NOT_PROMISED]


def _repeated(manifest: Mapping[str, Any]) -> list[str]:
    names = [name for part in manifest["parts"] for name in part]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if not twice:
        return []
    listed = ", ".join(code(f"{name} (2)") for name in twice)
    return ["", f"Some parts share attributes: {listed} is the same attribute, repeated in a later part."]


def _two_files(manifest: Mapping[str, Any]) -> list[str]:
    if "tables" not in manifest:
        return []
    quasi, sensitive = (manifest["tables"][name]["file"] for name in ("quasi", "sensitive"))
    told = (
        f"Two further files contain the same data: `{quasi}` has all parts except the one with sensitive values, "
        f"`{sensitive}` the number of records of each bucket and sensitive value."
    )
    return ["", told]

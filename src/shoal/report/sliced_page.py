"""What the internal report says of a sliced release: its parts, and how well records hide in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from shoal.report.html import number, size_range, table
from shoal.sliced.table import published_columns

_MEANING = (
    "<p>Values in one row that are in different parts need not belong to the same person: within each bucket, every "
    "part is in a random order of its own.</p>"
)
_FAKES = (
    "<p>A fake tuple is a combination of quasi values that nobody in the table has, although a bucket could form it. "
    "Many of them, with about as many matching buckets as the tuples of the table, hide who is in it.</p>"
)


def sliced_risks(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[str]:
    """Return the sections on parts and on risk."""
    before, after = evidence["risk_before"], evidence["risk_after"]
    columns = published_columns(manifest["parts"])
    return [
        "<h2>Parts</h2>",
        _MEANING,
        table(
            "Columns that stay together",
            ("part", "columns"),
            ((str(place), ", ".join(names)) for place, names in enumerate(columns, start=1)),
        ),
        "<h2>Risk before and after</h2>",
        table(
            "Original: how easily a record is found by its quasi values",
            ("", "value"),
            (
                ("classes", number(before["classes"])),
                ("smallest class", number(before["smallest_class"])),
                ("unique records", number(before["unique_records"])),
            ),
        ),
        table(
            "Released: among how many records the parts of a record hide",
            ("", "value"),
            (
                ("buckets", number(after["buckets"])),
                ("smallest bucket", number(after["smallest_bucket"])),
                ("mean bucket", number(after["mean_bucket"])),
            ),
        ),
        table(
            "Bucket sizes",
            ("size", "buckets", "records"),
            (
                (size_range(entry["from"], entry["to"]), number(entry["buckets"]), number(entry["records"]))
                for entry in after["bucket_sizes"]
            ),
        ),
        *_membership(after["membership"]),
    ]


def _membership(told: Mapping[str, Any]) -> list[str]:
    """Return the section on whether one can tell who is in the table."""
    lines = ["<h2>Membership</h2>", _FAKES]
    if told["reason"] is not None:
        lines.append(f"<p>Not all was counted: {escape(told['reason'])}.</p>")
    titles = (
        ("original_records", "records of the table"),
        ("original_tuples", "different tuples of the table"),
        ("fake_tuples", "fake tuples"),
    )
    counted = told["matching_buckets"] or {}
    rows = [(title, counted[key]) for key, title in titles if key in counted]
    if rows:
        heads = tuple(rows[0][1])
        lines.append(
            table(
                "By the number of buckets that match",
                ("", *heads),
                ((title, *(number(figures[head]) for head in heads)) for title, figures in rows),
            )
        )
    return lines

"""The internal report: one self-contained page for those who must decide on a release."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from shoal.report.html import number, size_range, table, verdict
from shoal.report.sections import (
    carrier_sections,
    changed_sections,
    drawn_summary,
    promised_sections,
    synthetic_sections,
)
from shoal.report.sliced_page import sliced_risks
from shoal.sliced.table import is_sliced
from shoal.utility.base import told

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b42318; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; } caption { text-align: left; font-weight: 600; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
pre { overflow: auto; border: 1px solid var(--line); padding: .6rem; }
@media (prefers-color-scheme: dark) { :root { --good: #57c877; --bad: #ff8a80; } }
@media print { body { max-width: none; margin: 0; } h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""


def internal_report(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """Return the page as HTML; it needs nothing but itself."""
    source = evidence["source"]
    body = [
        "<h1>Release report <small>(internal: do not publish)</small></h1>",
        _summary(manifest, source),
        *_generalized(evidence),
        *_agreed(manifest, evidence),
        *changed_sections(manifest, evidence),
        *promised_sections(manifest, evidence),
        *_risks(manifest, evidence),
        *_utility(manifest, evidence),
        *_method(evidence),
        "<h2>Checks of the verifier</h2>",
        table(
            "Every check that the written files had to pass",
            ("check", "verdict", "what was found"),
            ((c["name"], verdict(c["ok"]), c["detail"]) for c in evidence["verification"]["checks"]),
        ),
        "<h2>Origin</h2>",
        table(
            "What this release was made from",
            ("item", "value"),
            (
                ("source SHA-256", source["sha256"]),
                ("randomness", evidence["randomness"]),
                ("shoal", evidence["shoal_version"]),
                *((f"seconds: {step}", number(value)) for step, value in evidence["seconds"].items()),
            ),
        ),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Release report</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _risks(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[str]:
    """Return how well records hide, and what gives them away."""
    if "synthetic" in manifest:
        return synthetic_sections(evidence)
    hiding = sliced_risks(manifest, evidence) if is_sliced(manifest) else _class_risks(evidence)
    return [*hiding, *carrier_sections(evidence)]


def _utility(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[str]:
    """Return what is left of the table, where it was measured."""
    rows = [(name, title, number(value)) for name, title, value in told(evidence["utility"])]
    if not rows:
        return []
    what = "the table after all that was changed" if "techniques" in manifest else "the table"
    return ["<h2>Utility</h2>", table(f"What is left of {what}", ("measure", "what it says", "value"), rows)]


def _class_risks(evidence: Mapping[str, Any]) -> list[str]:
    before, after = evidence["risk_before"], evidence["risk_after"]
    return [
        "<h2>Risk before and after</h2>",
        table(
            "How easily a record is found by its quasi values",
            ("", "original", "released"),
            (
                (title, number(before[key]), number(after[key]))
                for key, title in (
                    ("classes", "classes"),
                    ("smallest_class", "smallest class"),
                    ("unique_records", "unique records"),
                    ("prosecutor_highest", "highest risk of a known participant (prosecutor)"),
                    ("marketer", "expected share re-identified (marketer)"),
                )
            ),
        ),
        table(
            "Class sizes",
            ("size", "original classes", "released classes", "released records"),
            _class_sizes(before["class_sizes"], after["class_sizes"]),
        ),
    ]


def _method(evidence: Mapping[str, Any]) -> list[str]:
    """Return what the method told of its search, and its warnings, if there is anything."""
    parts = []
    if evidence["warnings"]:
        parts += ["<h2>Warnings</h2>", "<ul>", *(f"<li>{escape(text)}.</li>" for text in evidence["warnings"]), "</ul>"]
    if evidence["search"]:
        rows = ((name.replace("_", " "), json.dumps(value)) for name, value in evidence["search"].items())
        parts += ["<h2>Search</h2>", table("What the method tells of its search", ("figure", "value"), rows)]
    return parts


def _summary(manifest: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    if "synthetic" in manifest:
        return drawn_summary(manifest, source)
    return (
        f"<p>{manifest['rows']:,} of {source['rows']:,} records of <code>{escape(source['name'])}</code> were "
        f"published with the method <code>{escape(manifest['method'])}</code>; {manifest['withheld']:,} were "
        f"withheld and {manifest['missing']['dropped']:,} dropped for missing values.</p>"
    )


def _generalized(evidence: Mapping[str, Any]) -> Iterable[str]:
    """Say how many records publish a generalized sensitive value, where there are some."""
    for name, records in evidence["generalized_sensitive"].items():
        yield f"<p>{records:,} records publish a generalized <code>{escape(name)}</code>.</p>"


def _agreed(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> Iterable[str]:
    """Say by which plan a release was made, what the plan asked for, and what was left out."""
    if "agreed" not in manifest:
        return
    plan = manifest["agreed"]
    yield (
        f"<p>It was made by the plan of an agency (digest <code>{escape(plan['digest'])}</code>, {plan['classes']:,} "
        f"classes), which asks for at least {evidence['records_needed']:,} records. Classes are those of the plan, in "
        "what follows too. That the plan was not made from these very records, nobody but you can know.</p>"
    )
    if evidence["left_out"]:
        listed = ", ".join(f"<code>{escape(name)}</code>" for name in evidence["left_out"])
        yield f"<p>Columns that the plan does not know were left out: {listed}.</p>"


def _class_sizes(before: list[dict[str, int]], after: list[dict[str, int]]) -> Iterable[tuple[str, ...]]:
    for place in range(max(len(before), len(after))):
        low, high = 2**place, 2 ** (place + 1) - 1
        raw = before[place] if place < len(before) else {"classes": 0}
        released = after[place] if place < len(after) else {"classes": 0, "records": 0}
        yield size_range(low, high), number(raw["classes"]), number(released["classes"]), number(released["records"])

"""The policy, and what the release was made from."""

from __future__ import annotations

import yaml

from shoal.core.wording import counted_text
from shoal.reports.frame import Section
from shoal.reports.html import block, code, details, number, paragraph, table
from shoal.reports.internal.given import Given


def policy(given: Given) -> Section:
    """Return the policy as YAML."""
    text = yaml.safe_dump(given.evidence["policy"], sort_keys=False, allow_unicode=True, width=100)
    lines = text.count("\n")
    shown = block(text, "Policy")
    return Section.of(
        "policy",
        "Policy",
        paragraph("What was asked for, as it was written; paths of keys are left out."),
        shown if lines <= 40 else details(f"The policy ({counted_text(lines, 'line')})", shown),
    )


def sources(given: Given) -> Section:
    """Return which table it was, by its digest, and what made the release."""
    evidence, source = given.evidence, given.evidence["source"]
    populations = given.manifest.get("populations", {})
    written = given.manifest.get("data", {})
    files = [(f"published: {written['file']}", code(written["sha256"]))] if written else []
    return Section.of(
        "sources",
        "Sources",
        table(
            "SHA-256 of the tables",
            ("table", "digest"),
            (
                (f"source: {source['name']}", code(source["sha256"])),
                *((f"population: {name}", code(entry["sha256"])) for name, entry in populations.items()),
                *files,
            ),
        ),
        table(
            "What made this release",
            ("item", "value"),
            (
                ("records of the source", number(source["rows"])),
                ("method", given.manifest["method"]),
                ("randomness", evidence["randomness"]),
                ("shoal", evidence["shoal_version"]),
                ("Python", evidence["python"]),
                *((f"seconds: {step}", number(value)) for step, value in evidence["seconds"].items()),
            ),
        ),
    )

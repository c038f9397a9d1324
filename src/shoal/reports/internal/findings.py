"""What no promise covers: findings that are open, and those that the data holder accepted, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import counted_text, listed
from shoal.reports.frame import Section
from shoal.reports.html import paragraph, table
from shoal.reports.internal.given import Given

_MEANING = (
    "Findings are risks that the promises do not cover, looked for in the published table. A release without open "
    "findings is not therefore safe for every recipient."
)


def findings(given: Given) -> Section | None:
    """Return the open findings with their fixes, and the accepted ones; None of evidence from before there were any."""
    if "findings" not in given.evidence:
        return None
    found = given.evidence["findings"]
    left = [one for one in found if one["accepted"] is None]
    accepted = [one for one in found if one["accepted"] is not None]
    high = sum(one["severity"] == "high" for one in left)
    said = f"{counted_text(len(left), 'finding')} open, {high} high; {len(accepted)} accepted."
    return Section.of(
        "findings",
        "Findings",
        paragraph(said),
        paragraph(_MEANING),
        _listed("Open", left, "fix", "what to do"),
        _listed("Accepted by the policy", accepted, "accepted", "reason"),
    )


def _listed(title: str, found: list[Mapping[str, Any]], last: str, headline: str) -> str:
    """Return a table of findings that ends with one more of their entries; nothing if there are none."""
    rows = [
        (one["severity"], one["id"], listed(one["about"]) if one["about"] else "the table", one["text"], one[last])
        for one in found
    ]
    return table(title, ("severity", "finding", "about", "what was found", headline), rows) if rows else ""

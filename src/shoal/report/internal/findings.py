"""What no promise covers: findings that are open, and those that the data holder accepted, with the reasons."""

from __future__ import annotations

from shoal.report.frame import Section
from shoal.report.html import paragraph, table
from shoal.report.internal.given import Given
from shoal.wording import counted_text, listed

_MEANING = (
    "A promise that holds says nothing about what it does not cover. These are the things that were looked for beside "
    "the promises, on the published table; that nothing was found does not mean that a release is safe for every "
    "recipient."
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
        table(
            "Open",
            ("severity", "finding", "about", "what was found", "what to do"),
            ((one["severity"], one["id"], _about(one["about"]), one["text"], one["fix"]) for one in left),
        )
        if left
        else "",
        table(
            "Accepted by the policy",
            ("severity", "finding", "about", "what was found", "reason"),
            ((one["severity"], one["id"], _about(one["about"]), one["text"], one["accepted"]) for one in accepted),
        )
        if accepted
        else "",
    )


def _about(names: list[str]) -> str:
    return listed(names) if names else "the table"

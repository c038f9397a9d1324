"""Warnings, what the method told of its search, and every check of the verifier."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shoal.report.frame import Section
from shoal.report.html import bullets, details, paragraph, table, verdict
from shoal.report.internal.given import Given
from shoal.wording import counted_text


def warnings(given: Given) -> Section | None:
    """Return what the data holder should know; None if there is nothing."""
    if not given.evidence["warnings"]:
        return None
    return Section.of("warnings", "Warnings", bullets(f"{text}." for text in given.evidence["warnings"]))


def checks(given: Given) -> Section:
    """Return every check that the written files had to pass, and the figures of the search."""
    found = given.evidence["verification"]["checks"]
    failed = [check for check in found if not check["ok"]]
    rows = [(check["name"], verdict(check["ok"]), check["detail"]) for check in found]
    heads = ("check", "verdict", "what was found")
    told = f"{counted_text(len(failed), 'check')} failed." if failed else "All of them hold."
    return Section.of(
        "checks",
        "Checks of the verifier",
        paragraph(
            "The verifier shares no code with the methods. It read the written files and the source anew. ", told
        ),
        details(counted_text(len(found), "check"), table("Checks that the files had to pass", heads, rows)),
        _search(given),
    )


def _search(given: Given) -> Sequence[str]:
    if not given.evidence["search"]:
        return []
    rows = ((name.replace("_", " "), json.dumps(value)) for name, value in given.evidence["search"].items())
    return [details("What the method tells of its search", table("Search", ("figure", "value"), rows))]

"""What was promised, what was achieved, and what that does not cover."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shoal.core.wording import counted_text, model_text, parameters_text
from shoal.reports.frame import Section
from shoal.reports.html import bullets, code, details, number, paragraph, table, verdict
from shoal.reports.internal.given import Given

_CLAIMED = "No class of records is promised anything, for no row is a record. What is claimed, no file can show."
_NOTHING = "This release promises nothing about people."
_MEASURE = (
    "The verifier checked the form of the files and that values are those of the source, or changed as the policy "
    "says. Whoever knows some values of a person may find the row; "
)


def guarantees(given: Given) -> Section:
    """Return the guarantees with the verifier's answers, claims, or that nothing is promised."""
    return Section.of("guarantees", "Guarantees promised and achieved", _told(given))


def limitations(given: Given) -> Section:
    """Return what the promises do not protect against."""
    models = given.form.weaknesses()
    return Section.of(
        "limitations",
        "Limitations",
        table("What each promise does not protect against", ("promise", "limits"), models) if models else "",
        paragraph("Of all promises together:" if models else "What to keep in mind:"),
        bullets(given.form.general_limits()),
    )


def _told(given: Given) -> Sequence[str]:
    manifest = given.manifest
    if manifest.get("claims"):
        claims = ((one.model, parameters_text(one.parameters), one.meaning) for one in given.form.claims())
        caption = "Claimed, and not to be checked by files"
        return [paragraph(_CLAIMED), table(caption, ("claim", "parameters", "meaning"), claims)]
    if not manifest["guarantees"]:
        return [
            paragraph(_NOTHING, class_="bad"),
            paragraph(_MEASURE, code("shoal attack"), " measures how often."),
        ]
    rows = [
        (
            model_text(one),
            parameters_text(one["parameters"]),
            given.form.models[one["model"]].title.replace("`", ""),
            number(one["achieved"]),
            verdict(one["ok"]),
        )
        for one in given.evidence["verification"]["guarantees"]
    ]
    heads = ("model", "parameters", "what it says", "achieved", "verdict")
    return [
        table("Promised, and recomputed by the verifier from the written file", heads, rows),
        paragraph(f"Achieved is the strongest main parameter that every {given.group} reaches."),
    ]


def warnings(given: Given) -> Section | None:
    """Return what the data holder should know; None if there is nothing."""
    if not given.evidence["warnings"]:
        return None
    return Section.of("warnings", "Warnings", bullets(f"{text}." for text in given.evidence["warnings"]))


def checks(given: Given) -> Section:
    """Return every check that the written files had to pass, and the figures of the search."""
    found = given.evidence["verification"]["checks"]
    failed = [check for check in found if not check["ok"]]
    rows = [
        (check["name"], verdict(check["ok"]) if check.get("done", True) else "not done", check["detail"])
        for check in found
    ]
    heads = ("check", "verdict", "what was found")
    told = f"{counted_text(len(failed), 'check')} failed." if failed else "No check failed."
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

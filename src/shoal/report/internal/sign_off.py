"""A block to print, decide on and sign."""

from __future__ import annotations

from shoal.report.frame import Section
from shoal.report.html import Html, bullets, code, paragraph, table, tag
from shoal.report.internal.given import Given

_QUESTIONS = (
    "Are the roles of all columns right: is there none among the insensitive ones that others can look up?",
    "Is what is promised enough for these people, these values and these recipients?",
    "Who receives the data, under which agreement, and what else do they have about the same people?",
    "What is done if somebody is found all the same?",
)
_ROLES = ("Prepared by", "Reviewed by", "Approved by")


def sign_off(given: Given) -> Section:
    """Return what the board still has to answer, which files it is about, and lines to sign."""
    data = given.manifest.get("data")
    about = (
        paragraph("This decision is about ", code(data["file"]), " with the SHA-256 ", code(data["sha256"]), ".")
        if data
        else paragraph("This decision is about a release in memory, which has no files.")
    )
    empty = Html("&nbsp;")
    lines = [(role, empty, empty, empty) for role in _ROLES]
    choices = tag("p", "Decision: ☐ release  ☐ release under conditions  ☐ do not release")
    return Section.of(
        "sign-off",
        "Sign-off",
        about,
        paragraph("What no program can answer:"),
        bullets(_QUESTIONS),
        choices,
        tag("div", table("Signatures", ("role", "name", "date", "signature"), lines), class_="sign"),
    )

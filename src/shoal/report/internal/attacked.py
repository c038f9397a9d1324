"""What attacks found, if they were recorded, and else how to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.plots import Interval, intervals
from shoal.report.frame import Section
from shoal.report.html import block, bullets, details, figure, paragraph, table
from shoal.report.internal.given import Given
from shoal.wording import attack_text

_NONE = (
    "No attacks were recorded. A promise says what cannot happen; an attack measures what does. Put records aside that "
    "are not published, so that there is a control group, and run:"
)
_COMMAND = "shoal attack THIS_FOLDER --source TABLE --control PUT_ASIDE --record"
_MEANING = (
    "Risk is the share of what would stay hidden without the release that an attack finds, with an interval of 95 % "
    "confidence. 0 % is what chance, or people who are not in the data, give. Something is found if the whole interval "
    "is above that."
)


def attacked(given: Given) -> Section:
    """Return the attacks with their intervals."""
    if given.attacks is None:
        return Section.of("attacks", "Attacks", paragraph(_NONE), block(_COMMAND, "Command"))
    tried = sorted(given.attacks["attacks"], key=lambda one: -one["risk"]["value"])
    found = sum(one["risk"]["low"] > 0 for one in tried)
    rows = [Interval(attack_text(one), one["risk"]["value"], one["risk"]["low"], one["risk"]["high"]) for one in tried]
    return Section.of(
        "attacks",
        "Attacks",
        _other_source(given),
        paragraph(f"{found or 'None'} of {len(tried)} attacks found more than chance explains."),
        figure(intervals(rows)) if rows else "",
        paragraph(_MEANING),
        table(
            "Answers that were right",
            ("attack", "on people of the source", "baseline", "control group"),
            ((attack_text(one), *(_rate(one[key]) for key in ("attack", "baseline", "control"))) for one in tried),
        )
        if tried
        else "",
        _notes(given.attacks),
    )


def _other_source(given: Given) -> str:
    """Say so if answers were judged by another file than the release was made from."""
    if given.attacks is None or given.attacks["source"]["sha256"] == given.evidence["source"]["sha256"]:
        return ""
    return paragraph(
        f"Answers were judged by {given.attacks['source']['name']}, whose digest is not that of the source. If it is "
        "not the same table in another form, these figures mean nothing.",
        class_="bad",
    )


def _rate(tally: Mapping[str, int] | None) -> str:
    if tally is None:
        return "–"
    return f"{tally['success'] / tally['trials']:.1%} ({tally['success']:,} of {tally['trials']:,})"


def _notes(attacks: Mapping[str, Any]) -> Sequence[str]:
    said: dict[str, list[str]] = {}
    for one in attacks["attacks"]:
        for note in one.get("notes", ()):
            said.setdefault(note, []).append(attack_text(one))
    everywhere = len(attacks["attacks"])
    notes = [f"{'all' if len(names) == everywhere else ', '.join(names)}: {note}." for note, names in said.items()]
    refused = [f"{attack_text(one)}: {one['refused']}." for one in attacks["refused"]]
    parts = [details("Notes", bullets(notes))] if notes else []
    return [*parts, details("Not tried, for they have no meaning here", bullets(refused))] if refused else parts

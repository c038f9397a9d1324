"""How easily people are found, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.core.wording import attack_text
from shoal.release.sliced.table import published_columns
from shoal.reports.frame import Section
from shoal.reports.html import block, bullets, details, figure, number, paragraph, percent, table
from shoal.reports.internal.given import Given
from shoal.reports.plots.class_sizes import class_sizes
from shoal.reports.plots.intervals import Interval, intervals
from shoal.reports.plots.risks import risks

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
_PARTS = (
    "Values in one row that are in different parts need not belong to the same person: within each bucket, the "
    "parts were shuffled independently of each other."
)
_FAKES = (
    "A fake tuple is a combination of quasi values that nobody in the table has, although a bucket could form it. The "
    "more of them there are, and the more they match like tuples of the table, the less can be concluded from a person "
    "matching a bucket. Whether that hides who is in the table is for the membership attack to measure, not for counts."
)
_NOBODY = (
    "No class of rows hides a person, for no row is one. What follows are distances between the shares that values "
    "have among records and among rows: 0 if they are equal, 1 if they have nothing in common. They are exact figures "
    "of the data: whoever learns them learns what noise was to hide."
)
_MEMBERSHIP = (
    ("original_records", "records of the table"),
    ("original_tuples", "different tuples of the table"),
    ("fake_tuples", "fake tuples"),
)
_OTHERS = (
    "Highest and mean risk are those of somebody who is known to be in the table (the prosecutor's). A marketer wants "
    "as many records as possible. Both are taken to know all quasi values of everybody."
)


def risk(given: Given) -> Section:
    """Return how well records hide, and what gives them away."""
    if not given.form.of_people:
        inside = [*_before(given), paragraph(_NOBODY), *_distances(given.evidence["synthetic"])]
    elif not given.form.whole_records:
        inside = [*_before(given), *_buckets(given), *_carriers(given)]
    else:
        before, after = given.evidence["risk_before"], given.evidence["risk_after"]
        plots = [risks(before, after), class_sizes(before["class_sizes"], after["class_sizes"])]
        inside = [*map(figure, plots), paragraph(_OTHERS), *_carriers(given)]
    return Section.of("risk", "Risk before and after", inside)


def _before(given: Given) -> Sequence[str]:
    before = given.evidence["risk_before"]
    titles = (("classes", "classes"), ("smallest_class", "smallest class"), ("unique_records", "unique records"))
    rows = [(title, number(before[key])) for key, title in titles]
    return [table("Original: how easily a record is found by its quasi values", ("figure", "value"), rows)]


def _buckets(given: Given) -> Sequence[str]:
    after = given.evidence["risk_after"]
    columns = published_columns(given.manifest["parts"])
    titles = (("buckets", "buckets"), ("smallest_bucket", "smallest bucket"), ("mean_bucket", "mean bucket"))
    rows = [(title, number(after[key])) for key, title in titles]
    parts = ((str(place), ", ".join(names)) for place, names in enumerate(columns, start=1))
    return [
        table("Released: among how many records the parts of a record hide", ("figure", "value"), rows),
        figure(class_sizes(None, after["bucket_sizes"])),
        paragraph(_PARTS),
        table("Columns that stay together", ("part", "columns"), parts),
        *_membership(after["membership"]),
    ]


def _membership(told: Mapping[str, Any]) -> Sequence[str]:
    """Say whether one can tell who is in the table."""
    lines = [paragraph(_FAKES)]
    if told["reason"] is not None:
        lines.append(paragraph(f"Not all was counted: {told['reason']}."))
    counted = told["matching_buckets"] or {}
    rows = [(title, counted[key]) for key, title in _MEMBERSHIP if key in counted]
    if rows:
        heads = tuple(rows[0][1])
        figures = ((title, *(number(found[head]) for head in heads)) for title, found in rows)
        lines.append(table("Membership: tuples by the number of buckets that match", ("tuples", *heads), figures))
    return lines


def _carriers(given: Given) -> Sequence[str]:
    """Say which attributes single records out, before and after."""
    sections = []
    for when, title in (("before", "original"), ("after", "released")):
        found = given.evidence["risk_carriers"].get(when)
        if found and found["sets"]:
            sections += [
                table(
                    f"Attributes by their share in singling out the {found['unique_records']:,} unique records of the "
                    f"{title} table (shares overlap)",
                    ("attribute", "share of the score"),
                    ((name, percent(share)) for name, share in found["contributions"].items()),
                ),
                table(
                    f"Riskiest combinations of the {title} table: they single records out, fewer of them do not",
                    ("attributes", "records", "share of the score"),
                    (
                        (", ".join(one["attributes"]), number(one["records"]), percent(one["score_share"]))
                        for one in found["sets"]
                    ),
                ),
            ]
    return [details("What carries the risk", *sections)] if sections else []


def _distances(found: Mapping[str, Any]) -> Sequence[str]:
    return [
        table("Attributes", ("attribute", "distance"), ((name, number(d)) for name, d in found["attributes"].items())),
        details(
            "Pairs of attributes",
            table(
                "Pairs of attributes",
                ("pair", "joint counts kept", "distance"),
                (
                    (", ".join(one["pair"]), "yes" if one["kept"] else "no", number(one["distance"]))
                    for one in found["pairs"]
                ),
            ),
        ),
    ]


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

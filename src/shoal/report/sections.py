"""Sections of the internal report: changes and samples, promises and claims, what carries the risk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from shoal.report.changes import change_told
from shoal.report.html import number, table, verdict
from shoal.report.promises import claim_told
from shoal.wording import parameters_text

_NOTHING = (
    '<p class="bad">This release promises nothing about people.</p><p>The verifier checked the form of the files and '
    "that values are those of the source, or changed as the policy says. Whoever knows some values of a person may "
    "find the row; <code>shoal attack</code> measures how often.</p>"
)
_CLAIMED = "<p>No class of records is promised anything, for no row is a record. What is claimed, no file can show.</p>"
_NOBODY = (
    "<p>Distances between the shares that values have among records and among rows: 0 if they are equal, 1 if they "
    "have nothing in common. They are exact figures of the data: whoever learns them learns what noise was to hide.</p>"
)
_TITLES = {
    "groups": "groups of records that exchange values",
    "rows_alone_in_group": "records alone in their group",
    "rows_with_their_own_value": "records that have their own value",
}


def changed_sections(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> Iterable[str]:
    """Return what was drawn from the table and changed in it; nothing where nothing was."""
    if "sample" in evidence:
        drawn = evidence["sample"]
        yield (
            f"<p>{drawn['sampled_rows']:,} of {drawn['source_rows']:,} records were drawn, each with a chance of "
            f"{100 * manifest['sample']['share']:g}%. How many there were is not published.</p>"
        )
    if "techniques" in evidence:
        yield "<h2>What was changed</h2>"
        rows = (
            (name, change_told(entry).replace("**", "").replace("`", ""), _found(evidence["techniques"][name]))
            for name, entry in manifest["techniques"].items()
        )
        yield table("Columns that do not hold the values of the source", ("column", "what was done", "found"), rows)


def promised_sections(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[str]:
    """Return the guarantees with the verifier's answers, claims, or that nothing is promised."""
    sections = ["<h2>Guarantees</h2>"]
    if manifest.get("claims"):
        rows = (
            (claim["model"], parameters_text(claim["parameters"]), claim_told(claim)) for claim in manifest["claims"]
        )
        sections += [
            _CLAIMED,
            table("Claimed, and not to be checked by files", ("claim", "parameters", "meaning"), rows),
        ]
    elif not manifest["guarantees"]:
        sections.append(_NOTHING)
    else:
        sections.append(
            table(
                "Promised, and recomputed by the verifier from the written file",
                ("model", "parameters", "achieved", "verdict"),
                (
                    (
                        entry["model"],
                        parameters_text(entry["parameters"]),
                        number(entry["achieved"]),
                        verdict(entry["ok"]),
                    )
                    for entry in evidence["verification"]["guarantees"]
                ),
            )
        )
    return sections


def carrier_sections(evidence: Mapping[str, Any]) -> list[str]:
    """Return which attributes single records out, before and after."""
    sections = []
    for when, title in (("before", "original"), ("after", "released")):
        found = evidence["risk_carriers"].get(when)
        if found and found["sets"]:
            sections += [
                table(
                    f"Attributes by their share in singling out the {found['unique_records']:,} unique records of the "
                    f"{title} table (shares overlap)",
                    ("attribute", "share of the score"),
                    ((name, f"{share:.1%}") for name, share in found["contributions"].items()),
                ),
                table(
                    f"Riskiest combinations of the {title} table: they single records out, fewer of them do not",
                    ("attributes", "records", "share of the score"),
                    (
                        (", ".join(one["attributes"]), number(one["records"]), f"{one['score_share']:.1%}")
                        for one in found["sets"]
                    ),
                ),
            ]
    return ["<h2>What carries the risk</h2>", *sections] if sections else []


def synthetic_sections(evidence: Mapping[str, Any]) -> list[str]:
    """Return how far synthetic rows are from the records."""
    found = evidence["synthetic"]
    return [
        "<h2>Rows and records</h2>",
        _NOBODY,
        table("Attributes", ("attribute", "distance"), ((name, number(d)) for name, d in found["attributes"].items())),
        table(
            "Pairs of attributes",
            ("pair", "joint counts kept", "distance"),
            (
                (", ".join(one["pair"]), "yes" if one["kept"] else "no", number(one["distance"]))
                for one in found["pairs"]
            ),
        ),
    ]


def drawn_summary(manifest: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Say of how many records a synthetic table was drawn."""
    return (
        f"<p>{manifest['rows']:,} rows were drawn from noisy counts of {source['rows']:,} records of "
        f"<code>{escape(source['name'])}</code> with the method <code>{escape(manifest['method'])}</code>. No row is a "
        "record.</p>"
    )


def _found(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{_TITLES.get(name, name.replace('_', ' '))}: {count:,}" for name, count in counts.items())

"""What was generalized and withheld, attribute by attribute, and up to which level of its hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.report.columns import published_as
from shoal.report.frame import Section
from shoal.report.html import marked, paragraph, percent, table
from shoal.report.internal.given import Given

_STEPS = (
    "Steps are counted from the original values up the hierarchy of the policy. Its top stands for all values and says "
    "nothing. A range between is no node of the hierarchy: it was cut where the records asked for it."
)
_WHY_NOT = {
    "values": "No hierarchy was used: quasi columns hold values, not labels.",
    "centres": "Hierarchies do not show in the data: quasi columns hold averages of groups.",
    "synthetic": "Rows have values of the lowest level only, drawn from noisy counts.",
    "buckets": "No part was generalized: all quasi columns hold values as they are.",
}


def published(given: Given) -> Section:
    """Return what each attribute publishes, what is withheld, and the levels that were used."""
    manifest, losses = given.manifest, given.manifest["utility"].get("attribute-loss", {})
    rows = [
        (name, entry["role"], marked(published_as(name, manifest)), percent(losses[name]) if name in losses else "–")
        for name, entry in manifest["attributes"].items()
    ]
    return Section.of(
        "published",
        "What was generalized and withheld",
        table("Columns", ("column", "role", "published", "information lost"), rows),
        paragraph(_withheld(given)),
        _levels(given),
    )


def _withheld(given: Given) -> str:
    manifest, source = given.manifest, given.evidence["source"]
    if "synthetic" in manifest:
        return "No record was withheld, and none was published."
    left_out = manifest["withheld"] + manifest["missing"]["dropped"]
    if not left_out:
        return "No record was withheld or dropped."
    return (
        f"{manifest['withheld']:,} records were withheld because no {given.group} could take them and keep the "
        f"promises, and {manifest['missing']['dropped']:,} dropped for missing values: "
        f"{percent(left_out / source['rows'])} of the source. Whoever analyses the data does not see them."
    )


def _levels(given: Given) -> Sequence[str]:
    found = given.evidence.get("levels")
    if not found:
        return [paragraph(_WHY_NOT.get(given.form, "Levels were not counted by the version that made this release."))]
    highest = max(2, *(len(entry["nodes"]) for entry in found.values()))
    heads = ("column", "original", *(f"{step} up" for step in range(1, highest - 1)), "top", "ranges between")
    rows = [(name, *_shares(entry, highest)) for name, entry in found.items()]
    told = [table("Hierarchy levels used, as shares of the published records", heads, rows), paragraph(_STEPS)]
    if "levels" in given.manifest:
        fixed = ", ".join(f"{name} {level}" for name, level in given.manifest["levels"].items())
        told.append(paragraph(f"All records have the same steps: {fixed}."))
    return told


def _shares(entry: dict[str, Any], highest: int) -> Sequence[str]:
    """Return the share of records at each step, a dash where there is none, at the top, and that of ranges."""
    total = sum(entry["nodes"]) + entry["ranges"]
    shares = [percent(count / total) if count else "0" for count in (*entry["nodes"], entry["ranges"])]
    *nodes, top, between = shares if len(shares) > 2 else (shares[0], "–", shares[1])
    return [*nodes, *(["–"] * (highest - 1 - len(nodes))), top, between]

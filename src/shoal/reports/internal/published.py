"""What was generalized and withheld, attribute by attribute, and up to which level of its hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.reports.frame import Section
from shoal.reports.html import code, figure, joined, marked, number, paragraph, percent, table
from shoal.reports.internal.given import Given
from shoal.reports.plots.associations import associations
from shoal.reports.plots.attribute_loss import attribute_loss
from shoal.reports.plots.sensitive_shares import sensitive_shares
from shoal.utility.base import told

_NONE = "Measures compare records with what is published of them; synthetic rows are nobody's. Distances are above."
_NO_RECORDS = "Not told: rows are nobody's, and shares of records by class would tell what noise was to hide."
_NO_ATTRIBUTE = "No attribute is sensitive."
_NOT_COUNTED = "Not counted by the version that made this release."
_STEPS = (
    "Steps are counted from the original values up the hierarchy of the policy. Its top stands for all values and says "
    "nothing. A range between is no node of the hierarchy: it was cut where the records asked for it."
)


def published(given: Given) -> Section:
    """Return what each attribute publishes, what is withheld, and the levels that were used."""
    manifest, losses = given.manifest, given.manifest["utility"].get("attribute-loss", {})
    rows = [
        (name, entry["role"], marked(given.form.published_as(name)), percent(losses[name]) if name in losses else "–")
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
    if not given.form.of_people:
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
        return [paragraph(given.form.no_levels)]
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


def sensitive(given: Given) -> Section:
    """Return for each sensitive attribute how far shares in classes go from those in the whole table."""
    return Section.of("sensitive", f"Sensitive values by {given.group}", _told(given))


def _told(given: Given) -> Sequence[str]:
    if not given.form.of_people:
        return [paragraph(_NO_RECORDS)]
    if all(entry["role"] != "sensitive" for entry in given.manifest["attributes"].values()):
        return [paragraph(_NO_ATTRIBUTE)]
    if "sensitive" not in given.evidence:
        return [paragraph(_NOT_COUNTED)]
    lines = [
        paragraph(
            f"What somebody who finds a person's {given.group} learns: the share of each value there, against its "
            "share among all published records. The wider a range, the more there is to learn. "
            f"A lowest share of 0 means that some {given.group} rules the value out."
        )
    ]
    for name, entry in given.evidence["sensitive"].items():
        lines.append(figure(sensitive_shares(name, entry["values"], entry["more"], group=given.group)))
    return lines


def usefulness(given: Given) -> Section:
    """Return measures of utility, the loss of each attribute, and which associations are kept."""
    return Section.of("utility", "Utility", _measures(given), _associations(given))


def _measures(given: Given) -> Sequence[str]:
    utility = given.evidence["utility"]
    if not utility:
        return [paragraph(_NONE)]
    losses = utility.get("attribute-loss")
    single = {name: value for name, value in utility.items() if not isinstance(value, dict)}
    what = "the table after all that was changed" if "techniques" in given.manifest else "the table"
    rows = [(name, title, number(value)) for name, title, value in told(single)]
    return [
        figure(attribute_loss(losses)) if isinstance(losses, dict) else "",
        table(f"What is left of {what}", ("measure", "what it says", "value"), rows),
    ]


def _associations(given: Given) -> Sequence[str]:
    found = given.evidence.get("associations")
    if found:
        return [
            paragraph(
                "Correlations kept: Cramer's V of pairs of attributes, 0 if they are independent and 1 if one follows "
                "from the other, in the table and as expected from what is published."
            ),
            figure(associations(found)),
        ]
    if not given.form.of_people or len(given.manifest["attributes"]) < 2:
        return []
    if "regions" in given.evidence["search"]:
        return [paragraph("Correlations were not counted: the table is larger than the memory that was allowed.")]
    return [
        paragraph(joined(("Correlations were not counted, for the table is large; ", code("--utility full"), " does.")))
    ]

"""The distribution of sensitive values by class against the whole."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.plots import sensitive_shares
from shoal.report.frame import Section
from shoal.report.html import figure, paragraph
from shoal.report.internal.given import Given

_NO_RECORDS = "Not told: rows are nobody's, and shares of records by class would tell what noise was to hide."
_NO_ATTRIBUTE = "No attribute is sensitive."
_NOT_COUNTED = "Not counted by the version that made this release."


def sensitive(given: Given) -> Section:
    """Return for each sensitive attribute how far shares in classes go from those in the whole table."""
    return Section.of("sensitive", f"Sensitive values by {given.group}", _told(given))


def _told(given: Given) -> Sequence[str]:
    if given.form == "synthetic":
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

"""What is left of the table: information, attribute by attribute, and associations between attributes."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.plots import associations, attribute_loss
from shoal.report.frame import Section
from shoal.report.html import code, figure, joined, number, paragraph, table
from shoal.report.internal.given import Given
from shoal.utility.base import told

_NONE = "Measures compare records with what is published of them; synthetic rows are nobody's. Distances are above."


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
    if given.form == "synthetic" or len(given.manifest["attributes"]) < 2:
        return []
    if "regions" in given.evidence["search"]:
        return [paragraph("Correlations were not counted: the table is larger than the memory that was allowed.")]
    return [
        paragraph(joined(("Correlations were not counted, for the table is large; ", code("--utility full"), " does.")))
    ]

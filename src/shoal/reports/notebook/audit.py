"""An audit in a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shoal.core.display import register
from shoal.core.wording import parameters_text
from shoal.reports.notebook.page import folded, heading, output, paragraph, plots, table
from shoal.reports.plots.class_sizes import class_sizes
from shoal.reports.plots.svg import percent

if TYPE_CHECKING:
    from shoal.audit.result import Audit
    from shoal.audit.singling import SetRisk

_MOST_SETS = 10
_HOLDER = "These figures are about the table as it is: they are for the data holder."


@register("audit")
def audit_html(audit: Audit) -> str:
    """Return what anybody could learn from the table as it is."""
    risks = [
        ("records", f"{audit.records:,}"),
        ("k that the table reaches", f"{audit.k:,}"),
        ("unique records", f"{audit.unique_records:,} ({percent(audit.unique_share)})"),
        ("highest risk, for somebody who is known to be in the table", percent(audit.prosecutor.highest)),
        ("mean risk", percent(audit.prosecutor.mean)),
        ("share that a marketer finds", percent(audit.marketer)),
    ]
    models = [
        (
            verdict.model.name,
            parameters_text(verdict.model.model_dump(mode="json", exclude_none=True)),
            f"{verdict.achieved:,.4g}" if math.isfinite(verdict.achieved) else "–",
            "holds" if verdict.holds else f"missed by {verdict.records_missed:,} records",
        )
        for verdict in audit.models
    ]
    sensitive = [(one.attribute, f"{one.certain_records:,}", f"{one.entropy_l:,.3g}") for one in audit.sensitive]
    return output(
        heading(f"Audit of {audit.source}"),
        paragraph(audit.headline),
        *(paragraph(f"Warning: {warning}.") for warning in audit.warnings),
        table("How easily people are found", ("measure", "value"), risks),
        table("The policy's models, of the table as it is", ("model", "asked for", "achieved", "verdict"), models),
        table("What classes give away", ("attribute", "records known for certain", "entropy l"), sensitive),
        plots([class_sizes(None, audit.class_sizes)]),
        folded("What somebody must know", _sets("Attributes that single out most", audit.sets[:_MOST_SETS])),
        paragraph(_HOLDER, "soft"),
    )


def _sets(caption: str, found: tuple[SetRisk, ...]) -> str:
    rows = [(", ".join(one.attributes), f"{one.unique_records:,}", percent(one.unique_share)) for one in found]
    return table(caption, ("known attributes", "unique records", "share"), rows)

"""The plots of one release, as far as its evidence has what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.reports.plots.associations import associations
from shoal.reports.plots.attribute_loss import attribute_loss
from shoal.reports.plots.class_sizes import class_sizes
from shoal.reports.plots.plot import Plot
from shoal.reports.plots.risks import risks
from shoal.reports.plots.sensitive_shares import sensitive_shares


def release_plots(evidence: Mapping[str, Any]) -> list[Plot]:
    """Return what can be drawn: risks and sizes, losses, sensitive values by class, associations kept."""
    before, after = evidence.get("risk_before", {}), evidence.get("risk_after", {})
    found: list[Plot] = []
    if "prosecutor_highest" in before and "prosecutor_highest" in after:
        found += [risks(before, after), class_sizes(before["class_sizes"], after["class_sizes"])]
    elif "bucket_sizes" in after:
        found.append(class_sizes(None, after["bucket_sizes"]))
    losses = evidence.get("utility", {}).get("attribute-loss")
    if losses:
        found.append(attribute_loss(losses))
    group = "bucket" if "bucket_sizes" in after else "class"
    found += [
        sensitive_shares(name, told["values"], told["more"], group)
        for name, told in evidence.get("sensitive", {}).items()
    ]
    if evidence.get("associations"):
        found.append(associations(evidence["associations"]))
    return found

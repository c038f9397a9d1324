"""Plots of a release, as far as its evidence has what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.plots import (
    Interval,
    Plot,
    associations,
    attribute_loss,
    class_sizes,
    histogram,
    intervals,
    risks,
    sensitive_shares,
)
from shoal.studio.previewing import Bars


def release_plots(evidence: Mapping[str, Any]) -> list[Plot]:
    """Return what can be drawn: risks and sizes, losses, sensitive values by class, associations kept."""
    before, after = evidence["risk_before"], evidence["risk_after"]
    plots: list[Plot] = []
    if "prosecutor_highest" in after:
        plots += [risks(before, after), class_sizes(before["class_sizes"], after["class_sizes"])]
    elif "bucket_sizes" in after:
        plots.append(class_sizes(None, after["bucket_sizes"]))
    losses = evidence["utility"].get("attribute-loss")
    if isinstance(losses, Mapping) and losses:
        plots.append(attribute_loss(losses))
    for name, entry in evidence.get("sensitive", {}).items():
        plots.append(sensitive_shares(name, entry["values"], entry["more"]))
    if evidence.get("associations"):
        plots.append(associations(evidence["associations"]))
    return plots


def distribution(bars: Bars, title: str) -> Plot:
    """Return how often a column has which value."""
    return histogram(bars.labels, bars.counts, title)


def attack_plot(found: Mapping[str, Any]) -> Plot | None:
    """Return the risks that attacks found, the greatest first; None if none was tried."""
    tried = sorted(found.get("attacks", ()), key=lambda one: -one["risk"]["value"])
    rows = [Interval(one["name"], one["risk"]["value"], one["risk"]["low"], one["risk"]["high"]) for one in tried]
    return intervals(rows, "Risk by attack") if rows else None

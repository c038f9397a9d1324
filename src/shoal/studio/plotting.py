"""Plots of the studio's own: how a column's values are spread, and what attacks found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.plots import Interval, Plot, histogram, intervals
from shoal.studio.previewing import Bars
from shoal.wording import attack_text


def distribution(bars: Bars, title: str) -> Plot:
    """Return how often a column has which value."""
    return histogram(bars.labels, bars.counts, title)


def attack_plot(found: Mapping[str, Any]) -> Plot | None:
    """Return the risks that attacks found, the greatest first; None if none was tried."""
    tried = sorted(found.get("attacks", ()), key=lambda one: -one["risk"]["value"])
    rows = [Interval(attack_text(one), one["risk"]["value"], one["risk"]["low"], one["risk"]["high"]) for one in tried]
    return intervals(rows, "Risk by attack") if rows else None

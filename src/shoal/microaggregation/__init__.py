"""Groups of k to 2k - 1 records that lie near each other (MDAV), and what they have in common."""

from __future__ import annotations

from shoal.microaggregation.centres import Averages, Centres, centres
from shoal.microaggregation.shared import (
    Grouping,
    Space,
    group_means,
    group_medians,
    group_modes,
    joined,
    microaggregate,
    squared_errors,
)

__all__ = [
    "Averages",
    "Centres",
    "Grouping",
    "Space",
    "centres",
    "group_means",
    "group_medians",
    "group_modes",
    "joined",
    "microaggregate",
    "squared_errors",
]

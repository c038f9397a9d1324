"""Groups of k to 2k - 1 records that lie near each other (MDAV), and what they have in common."""

from __future__ import annotations

from shoal.microaggregation.centres import Averages, Centres, centres
from shoal.microaggregation.grouping import Grouping, microaggregate
from shoal.microaggregation.joining import joined
from shoal.microaggregation.shared import group_means, group_medians, group_modes, squared_errors
from shoal.microaggregation.space import Space

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

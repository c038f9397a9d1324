"""Groups of k to 2k - 1 records that lie near each other (MDAV), and what they have in common."""

from __future__ import annotations

from shoal.microaggregation.grouping import Grouping, microaggregate
from shoal.microaggregation.shared import group_means, group_medians, group_modes, squared_errors
from shoal.microaggregation.space import Space

__all__ = ["Grouping", "Space", "group_means", "group_medians", "group_modes", "microaggregate", "squared_errors"]

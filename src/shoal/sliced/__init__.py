"""Using sliced releases: reading them, asking them, linking their parts again."""

from __future__ import annotations

from shoal.sliced.query import Estimate, Query
from shoal.sliced.reading import SlicedData, read_sliced
from shoal.sliced.table import SlicedPart, SlicedTable

__all__ = ["Estimate", "Query", "SlicedData", "SlicedPart", "SlicedTable", "read_sliced"]

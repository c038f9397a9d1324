"""Checking sliced releases: buckets in which values of different parts are no longer linked.

Li, Li, Zhang and Molloy, "Slicing: A New Approach for Privacy Preserving Data Publishing", TKDE 2012.
"""

from __future__ import annotations

from shoal.verify.sliced.checking import verify_sliced

__all__ = ["verify_sliced"]

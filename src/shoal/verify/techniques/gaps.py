"""Missing values where rows without a value are left out."""

from __future__ import annotations

from shoal.verify.manifest import Manifest
from shoal.verify.techniques.values import ColumnValues


def gap_fault(manifest: Manifest, name: str, published: ColumnValues) -> str | None:
    """Return a fault if rows lack a value of an attribute, and yet such rows are said to be dropped."""
    needed = {attribute.name for attribute in manifest.attributes if attribute.role != "insensitive"}
    if manifest.missing_policy == "drop" and name in needed and published.missing:
        return "has missing values, and rows that lack a value are said to be dropped"
    return None

"""Values that changed rows: what is published is a part of the source's values, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.verify.fields import ManifestError, texts_of
from shoal.verify.techniques.base import Declared


@dataclass(frozen=True, slots=True)
class Moved(Declared):
    """Rows have each other's values, within groups of rows that agreed in some columns of the source."""

    moved: ClassVar[bool] = True

    within: tuple[str, ...]

    @property
    def confirmed(self) -> str:
        """What was found."""
        return "values are among the source's, each no more often than there; that they were moved, no file shows"


def within_of(column: str, entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the columns that make groups, or raise a ManifestError."""
    within = texts_of(entry["within"], f"{where}.within")
    if column in within or len(set(within)) != len(within):
        raise ManifestError(f"{where}.within names a column twice, or the column itself")
    return within

"""Swapping: a share of the rows exchanged their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.verify.fields import ManifestError, check_keys, number
from shoal.verify.techniques.moved import Moved, within_of


@dataclass(frozen=True, slots=True)
class Swapping(Moved):
    """A share of the rows of a group exchanged their values in pairs."""

    name: ClassVar[str] = "swapping"

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Swapping:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "share", "within"), ())
        if not 0 < number(entry["share"], f"{where}.share") <= 1:
            raise ManifestError(f"{where}.share is not above 0 and at most 1")
        return cls(column, within_of(column, entry, where))

"""Permutation: the values of a group were dealt out anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.verify.fields import check_keys
from shoal.verify.techniques.moved import Moved, within_of


@dataclass(frozen=True, slots=True)
class Permutation(Moved):
    """All values of a group were dealt out anew."""

    name: ClassVar[str] = "permutation"

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Permutation:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "within"), ())
        return cls(column, within_of(column, entry, where))

"""All that the internal report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.methods.base import Publishes
from shoal.release.forms.kinds import form_of


@dataclass(frozen=True, slots=True)
class Given:
    """A manifest, its evidence and, once attacks were recorded, what they found."""

    manifest: Mapping[str, Any]
    evidence: Mapping[str, Any]
    attacks: Mapping[str, Any] | None = None

    @property
    def form(self) -> Publishes:
        """What the rows of the release are."""
        return form_of(self.manifest)

    @property
    def group(self) -> str:
        """What a set of records that hide each other is called."""
        return "bucket" if self.form == "buckets" else "class"

"""All that the internal report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.release.forms.base import Form, read_form


@dataclass(frozen=True, slots=True)
class Given:
    """A manifest, its evidence and, once attacks were recorded, what they found."""

    manifest: Mapping[str, Any]
    evidence: Mapping[str, Any]
    attacks: Mapping[str, Any] | None = None

    @property
    def form(self) -> Form:
        """What the rows of the release are."""
        return read_form(self.manifest)

    @property
    def group(self) -> str:
        """What a set of records that hide each other is called."""
        return self.form.group

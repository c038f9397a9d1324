"""Rows from figures that are kept, and from releases where none are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.comparing.cache import Cache
from shoal.comparing.entries import Findings
from shoal.comparing.keys import Common
from shoal.comparing.result import Row
from shoal.comparing.trying import Asked, Field
from shoal.policy import Policy
from shoal.progress import Progress


@dataclass(slots=True)
class Memory:
    """Fills rows; the ground that releases are measured on is built when the first one must be made."""

    cache: Cache | None
    common: Common
    build: Callable[[], Field]
    field: Field | None = None
    ground: str | None = None  # what the field was built on

    def row(self, asked: Asked, progress: Progress) -> Row:
        """Return a row with figures of an earlier comparison of the same content, or with new ones, which are kept."""
        policy = asked.policy
        if policy is None:
            return asked.row
        key = None if self.cache is None else self.common.key(policy)
        kept = None if key is None else self._kept(key, asked.row, policy)
        if kept is not None:
            return kept
        with progress.step(asked.row.name, 1, unit="release") as step:
            if self.field is None:
                self.ground = self.common.ground()
                self.field = self.build()
            row = self.field.tried(asked)
            step.advance(1)
        self._keep(key, row, policy)
        return row

    def tidy(self) -> None:
        """Keep the folder small."""
        if self.cache is not None:
            self.cache.tidy()

    def _kept(self, key: str, row: Row, policy: Policy) -> Row | None:
        content = None if self.cache is None else self.cache.found(key)
        found = None if content is None else Findings.read(content)
        return None if found is None else found.filled(row, policy)

    def _keep(self, key: str | None, row: Row, policy: Policy) -> None:
        """Keep a row, unless a file that it comes from changed meanwhile, or since rows are compared by it."""
        if self.cache is None or key is None or self.common.key(policy) != key or self.common.ground() != self.ground:
            return
        found = Findings.of(row, policy)
        if found is not None:
            self.cache.keep(key, found.as_dict())

"""How much memory a verification may hold, and what happens to one that needs more."""

from __future__ import annotations

from dataclasses import dataclass


class OutgrownError(Exception):
    """What is being counted does not fit; *needed* is what would be, as far as it was counted, in bytes."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that may be held at a time; None: as many as there are."""

    limit: int | None = None

    def holds(self, needed: int) -> bool:
        """Whether there is room for this much."""
        return self.limit is None or needed <= self.limit

    def check(self, needed: int) -> None:
        """Raise OutgrownError if this is too much."""
        if not self.holds(needed):
            raise OutgrownError(needed)

    def shared(self, n: int) -> Room:
        """Return what each of n has."""
        return self if self.limit is None else Room(self.limit // n)

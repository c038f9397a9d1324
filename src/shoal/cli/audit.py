"""``shoal audit``."""

from __future__ import annotations


def audit() -> None:
    """Placeholder until its part is in place."""

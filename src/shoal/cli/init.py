"""``shoal init``."""

from __future__ import annotations


def init() -> None:
    """Placeholder until its part is in place."""

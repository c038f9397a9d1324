"""What the rows of a release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.methods.base import Method, Publishes
from shoal.registry import discover


def form_of(manifest: Mapping[str, Any]) -> Publishes:
    """Return what the rows of a release are, by its method.

    >>> form_of({"method": "mondrian"})
    'classes'
    """
    return "classes" if "agreed" in manifest else discover("shoal.methods", Method)[manifest["method"]].publishes

"""What the rows of a release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.errors import InputError
from shoal.core.registry import discover
from shoal.methods.base import Method, Publishes


def form_of(manifest: Mapping[str, Any]) -> Publishes:
    """Return what the rows of a release are, by the method that its manifest names.

    >>> form_of({"method": "mondrian"})
    'classes'
    """
    if "agreed" in manifest:
        return "classes"
    method = discover("shoal.methods", Method).get(str(manifest.get("method")))
    if method is None:
        raise InputError("the manifest names no method that this shoal knows; run `shoal verify` on the release")
    return method.publishes

"""Releases of a few rows with a manifest that states no more than a test needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from shoal.attacks.view import ReleaseView
from shoal.core.registry import discover
from shoal.manifest import Manifest, read_manifest
from shoal.methods.base import Method
from shoal.release.published import PublishedRelease

DEFAULTS: dict[str, Any] = {
    "format": 1,
    "shoal_version": "3",
    "method": "mondrian",
    "method_parameters": {},
    "guarantees": [],
    "rows": 0,
    "withheld": 0,
    "missing": {"policy": "category", "tokens": [""], "dropped": 0},
}


def state(document: Mapping[str, Any]) -> Manifest:
    """Return a manifest with these entries, and defaults for all others."""
    attributes = {name: {"kind": "category", **entry} for name, entry in document["attributes"].items()}
    promises = [{"achieved": None, **one} for one in document.get("guarantees", ())]
    parts = document.get("parts", [list(attributes)])
    method = discover("shoal.methods", Method).get(document.get("method", DEFAULTS["method"]))
    form = "agreed" if "agreed" in document else "classes" if method is None else method.form
    entries = {"form": form, **document, "attributes": attributes, "guarantees": promises, "parts": parts}
    return read_manifest(DEFAULTS | entries)


def publish(rows: pa.Table, stated: Mapping[str, Any] | Manifest) -> PublishedRelease:
    """Return rows as a published release."""
    return PublishedRelease("the release", stated if isinstance(stated, Manifest) else state(stated), rows)


def view(rows: pa.Table, stated: Mapping[str, Any] | Manifest, *more: Any, **options: Any) -> ReleaseView:
    """Return rows as the attacks see them."""
    return ReleaseView.of(publish(rows, stated), *more, **options)

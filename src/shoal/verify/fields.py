"""Reading values of a manifest: each has the right shape, or a ManifestError says which has not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


class ManifestError(Exception):
    """The manifest cannot be understood; the message says what and where, in one sentence."""


def check_keys(entry: Mapping[str, Any], where: str, required: Sequence[str], optional: Sequence[str]) -> None:
    """Raise if keys are absent or do not belong there."""
    absent = [key for key in required if key not in entry]
    if absent:
        raise ManifestError(f"{where} lacks {', '.join(absent)}")
    unknown = len(set(entry) - set(required) - set(optional))
    if unknown:
        raise ManifestError(f"{where} has {unknown} keys that do not belong there")


def mapping(raw: object, where: str) -> Mapping[str, Any]:
    """Return an object of JSON."""
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise ManifestError(f"{where} is not an object")
    return raw


def sequence(raw: object, where: str) -> Sequence[Any]:
    """Return a list."""
    if not isinstance(raw, list | tuple):
        raise ManifestError(f"{where} is not a list")
    return raw


def texts_of(raw: object, where: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(text_of(item, f"an entry of {where}") for item in sequence(raw, where))


def text_of(raw: object, where: str) -> str:
    """Return a text."""
    if not isinstance(raw, str):
        raise ManifestError(f"{where} is not text")
    return raw


def whole(raw: object, where: str) -> int:
    """Return a whole number from 0 on."""
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise ManifestError(f"{where} is not a whole number from 0 on")
    return raw


def digest_of(raw: object, where: str) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    digest = text_of(raw, where)
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ManifestError(f"{where} is not 64 hexadecimal digits")
    return digest

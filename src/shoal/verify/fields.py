"""Reading values of a manifest: each has the right shape, or a ManifestError says which has not."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_MANY = 2**53  # more rows than any table has
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half a character, or the first half of a whole one


class ManifestError(Exception):
    """The manifest cannot be understood; the message says what and where, in one sentence."""


def parse_json(text: str) -> object:
    """Return the value, refusing what JSON readers disagree on: repeated keys, half characters, NaN and infinities."""
    collecting = gc.isenabled()
    gc.disable()  # a large manifest makes many objects and no garbage
    try:
        found = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()  # half a character cannot be encoded, a ValueError
        return found
    except RecursionError:
        raise ManifestError("it is nested too deeply") from None
    except ValueError:
        raise ManifestError("it is not valid JSON") from None
    finally:
        if collecting:
            gc.enable()


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ManifestError("an object in it has the same key twice")
    return found


def _no_constant(name: str) -> object:
    raise ManifestError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ManifestError("it holds a number that is too large")
    return found


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
    """Return a whole number from 0 on, not more than rows could be counted."""
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < _MANY:
        raise ManifestError(f"{where} is not a whole number from 0 on, or is too large")
    return raw


def number(raw: object, where: str) -> float:
    """Return a number that floating point can hold, or an infinite one."""
    if isinstance(raw, bool) or not isinstance(raw, int | float) or raw != raw:
        raise ManifestError(f"{where} is not a number")
    try:
        return float(raw)
    except OverflowError:
        raise ManifestError(f"{where} is too large") from None


def digest_of(raw: object, where: str) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    digest = text_of(raw, where)
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ManifestError(f"{where} is not 64 hexadecimal digits")
    return digest

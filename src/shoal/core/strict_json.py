"""JSON that others wrote: what readers of JSON disagree on is refused, so that everybody reads the same."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half a character, or the first half of a whole one


class AmbiguousJsonError(ValueError):
    """It can be read in several ways; the message says why, without a value."""


def read_json(content: bytes | str) -> Any:
    """Return what JSON in UTF-8 says; a key that comes twice, half a character, NaN or an infinity is a ValueError.

    >>> read_json('{"k": 5, "k": 1}')
    Traceback (most recent call last):
    shoal.core.strict_json.AmbiguousJsonError: an object has the same key twice
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError:
        raise AmbiguousJsonError("it is nested too deeply") from None
    if _SURROGATE.search(text):
        json.dumps(found, ensure_ascii=False).encode()  # of half a character it raises a ValueError
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise AmbiguousJsonError("an object has the same key twice")
    return found


def _finite(text: str) -> float:
    found = float(text)
    return found if math.isfinite(found) else _not_finite(text)


def _not_finite(_: str) -> Any:
    raise AmbiguousJsonError("it has a number that is not finite")

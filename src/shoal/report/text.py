"""Lines that several pages of Markdown share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.wording import parameters_text


def promise_line(promise: Mapping[str, Any], meaning: str) -> str:
    """Return one promise of a manifest as an item of a list."""
    return f"- **{promise['model']}** ({parameters_text(promise['parameters'])}): {meaning}."


def cell(text: str) -> str:
    """Return a text that cannot leave its cell of a table.

    >>> cell("a|b")
    'a\\\\|b'
    """
    return text.replace("|", "\\|").replace("\n", " ")

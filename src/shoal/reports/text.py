"""Lines that several pages of Markdown share, and names and values that can do nothing in them but be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shoal.core.wording import parameters_text

_ACTIVE = re.compile(r"[\\`*\[\]|]")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_TICKS = re.compile("`+")


def promise_line(promise: Mapping[str, Any], meaning: str) -> str:
    """Return one promise of a manifest as an item of a list."""
    counted = f", counting people (by {promise['counts']}) and not records" if "counts" in promise else ""
    return f"- **{promise['model']}** ({words(parameters_text(promise['parameters']))}): {meaning}{counted}."


def words(text: str) -> str:
    """Return a name or a value as Markdown that shows it as it is: no HTML, no link, no picture.

    >>> words("<img src=x> [a](b)"), words("age_group")
    ('&lt;img src=x> \\\\[a\\\\](b)', 'age_group')
    """
    told = _ACTIVE.sub(r"\\\g<0>", _ENTITY.sub("&amp;", text))
    return " ".join(told.replace("<", "&lt;").splitlines())


def code(text: str) -> str:
    """Return a name or a value as code; whatever it has of backticks, it ends where it ends.

    >>> code("[20, 30)"), code("a`b")
    ('`[20, 30)`', '`` a`b ``')
    """
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence, blank = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{blank}{' '.join(text.splitlines())}{blank}{fence}"


def code_cell(text: str) -> str:
    """Return a name or a value as code that cannot leave its cell of a table.

    >>> code_cell("a|b")
    '`a\\\\|b`'
    """
    return code(text).replace("|", "\\|")


def unmarked(text: str) -> str:
    """Return what a piece of Markdown that :func:`words` made shows.

    >>> unmarked(words("<b> & [a|b] &lt; c*"))
    '<b> & [a|b] &lt; c*'
    """
    return re.sub(r"\\([\\`*\[\]|])", r"\1", text.replace("&lt;", "<").replace("&amp;", "&"))

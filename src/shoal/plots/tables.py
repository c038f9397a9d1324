"""Figures as a table of HTML; everything that comes from outside is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoal.plots.svg import element, escaped

_NUMERIC = re.compile(r"[<>]?-?[\d,.]+(e[-+]?\d+)?%?|–")


def number_columns(rows: Sequence[Sequence[str]], n_columns: int) -> list[bool]:
    """Return which columns have nothing but numbers, shares and dashes, and so stand to the right.

    >>> number_columns([("age", "12.5%"), ("sex", "–")], 2)
    [False, True]
    """
    return [bool(rows) and all(_NUMERIC.fullmatch(row[column]) for row in rows) for column in range(n_columns)]


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column names the rows."""
    kinds = ["number" if numeric else None for numeric in number_columns(rows, len(heads))]
    head = "".join(
        element("th", escaped(word), scope="col", class_=kind) for word, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(f"<tr>{_cells(row, kinds)}</tr>" for row in rows)
    return f"<table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], kinds: Sequence[str | None]) -> str:
    name = element("th", escaped(row[0]) or " ", scope="row", class_=kinds[0])
    others = (element("td", escaped(word) or " ", class_=kind) for word, kind in zip(row[1:], kinds[1:], strict=True))
    return name + "".join(others)

"""Tables and their cells in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_NUMERIC = re.compile(r"[\d,.]+(e[-+]?\d+)?|–")


class _Html(str):
    """Text that is already HTML."""


def verdict(ok: bool) -> str:
    """Return a coloured word."""
    return _Html('<span class="good">holds</span>' if ok else '<span class="bad">fails</span>')


def number(value: float | None) -> str:
    """Return a number as people read it, a dash if there is none."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def table(caption: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; columns of numbers stand to the right."""
    cells = list(rows)
    style = [
        " class=number" if cells and all(_NUMERIC.fullmatch(row[column]) for row in cells) else ""
        for column in range(len(head))
    ]

    def line(tag: str, texts: tuple[str, ...]) -> str:
        shown = (text if isinstance(text, _Html) else escape(text) for text in texts)
        return (
            "<tr>"
            + "".join(f"<{tag}{s}>{text}</{tag.split()[0]}>" for s, text in zip(style, shown, strict=True))
            + "</tr>"
        )

    body = "\n".join(line("td", row) for row in cells)
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{line('th scope=col', head)}</thead>"
        f"<tbody>\n{body}\n</tbody></table>"
    )


def size_range(low: int, high: int) -> str:
    """Return a range of sizes in words.

    >>> size_range(1, 1), size_range(1024, 2047)
    ('1', '1,024 to 2,047')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

"""A plot: a drawing together with its description in words and the table that it was drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from shoal.reports.plots.look import STANDALONE
from shoal.reports.plots.svg import element, escaped, place_text

_NUMERIC = re.compile(r"[<>]?-?[\d,.]+(e[-+]?\d+)?%?|–")
WIDTH = 480.0
LIMIT = 20  # rows that a plot shows; the rest is told in words


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing that is never without its table and its description; all its parts are escaped."""

    title: str
    description: str
    drawing: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def figure(self) -> str:
        """Return the drawing, its caption and its table as HTML, to be styled by ``look.STYLE``."""
        return (
            f'<figure class="plot-figure">{self.drawing}'
            f"<figcaption><strong>{escaped(self.title)}.</strong> {escaped(self.description)}</figcaption>"
            f"<details><summary>The figures</summary>{self.table()}</details></figure>"
        )

    def table(self) -> str:
        """Return the figures as a table; columns of numbers stand to the right."""
        return table(self.title, self.heads, self.rows)

    def standalone(self) -> str:
        """Return the drawing as an SVG file of its own."""
        opening, rest = self.drawing.split(">", 1)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening}><style>{STANDALONE}</style>{rest}\n'


def drawn(
    title: str,
    description: str,
    parts: Iterable[str],
    height: float,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: float = WIDTH,
    linked: bool = False,
) -> Plot:
    """Return the plot of some parts; a screen reader tells its title and description, and links if there are any."""
    inside = "".join(parts)
    name = "plot-" + sha256(f"{title}\n{description}\n{inside}".encode("utf-8", "replace")).hexdigest()[:12]
    drawing = element(
        "svg",
        element("title", escaped(title), id=f"{name}-title"),
        element("desc", escaped(description), id=f"{name}-description"),
        inside,
        xmlns="http://www.w3.org/2000/svg",
        class_="plot" if width == WIDTH else "plot plot-small",
        viewBox=f"0 0 {place_text(width)} {place_text(height)}",
        width=width,
        height=height,
        role="group" if linked else "img",
        aria_labelledby=f"{name}-title {name}-description",
    )
    return Plot(title, description, drawing, tuple(heads), tuple(map(tuple, rows)))


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

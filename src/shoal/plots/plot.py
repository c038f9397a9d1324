"""A plot: a drawing together with its description in words and the table that it was drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from shoal.plots.look import STANDALONE
from shoal.plots.svg import element, escaped, place_text
from shoal.plots.tables import table

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

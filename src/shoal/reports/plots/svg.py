"""Elements, texts and scales of drawings; everything that comes from outside is escaped here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, takewhile

TEXT = 13.0  # size of all texts, in units of the drawing
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NARROW = frozenset(" ijlIt.,:;'|!()[]-/fr")
_BROAD = frozenset("mwMW@%&…–")


def escaped(words: str) -> str:
    """Return any text so that it can stand in an element or an attribute of HTML and of XML.

    >>> escaped('<b a="1">' + chr(0))
    '&lt;b a=&quot;1&quot;&gt;\ufffd'
    """
    return escape(_NOT_XML.sub("\ufffd", words))


def element(tag: str, *children: str, **attributes: str | float | None) -> str:
    """Return an element; children are markup, attributes are escaped, and those that are None are left out.

    An underscore at the end of a name is dropped, others become hyphens.

    >>> element("rect", x=1.26, class_="plot-after")
    '<rect x="1.3" class="plot-after"/>'
    """
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else place_text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{told}>{''.join(children)}</{tag}>" if children else f"<{tag}{told}/>"


def titled(words: str) -> str:
    """Return what is shown when somebody points at the element that it stands in."""
    return element("title", escaped(words))


def text(x: float, y: float, words: str, kind: str, width: float | None = None, anchor: str = "start") -> str:
    """Return a text; if it is longer than *width*, it is cut and its title tells it whole."""
    whole = " ".join(words.split())
    shown = whole if width is None else fitted(whole, width)
    inside = escaped(shown) if shown == whole else titled(whole) + escaped(shown)
    return element("text", inside, x=x, y=y, class_=kind, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def diamond(x: float, y: float, radius: float, kind: str, *children: str) -> str:
    """Return a square that stands on a corner."""
    corners = ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y))
    return element("polygon", *children, points=points_text(corners), class_=kind)


def points_text(corners: Iterable[tuple[float, float]]) -> str:
    """Return corners as the attribute ``points`` has them."""
    return " ".join(f"{place_text(x)},{place_text(y)}" for x, y in corners)


def place_text(value: float) -> str:
    """Return a coordinate with at most one decimal.

    >>> place_text(3.0), place_text(-0.04), place_text(1.25)
    ('3', '0', '1.2')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def text_width(words: str) -> float:
    """Return how wide a text is at most, by the widths of common typefaces."""
    return TEXT * sum(map(_character_width, words))


def fitted(words: str, width: float) -> str:
    """Return as much of a text as has room, with an ellipsis if some is left out.

    >>> fitted("occupation", 40), fitted("age", 40)
    ('occ…', 'age')
    """
    if text_width(words) <= width:
        return words
    ends = accumulate(map(text_width, words))
    kept = sum(1 for _ in takewhile(lambda end: end <= width - text_width("…"), ends))
    return words[:kept].rstrip() + "…"


def count_text(count: float) -> str:
    """Return a count as people read it.

    >>> count_text(12345), count_text(2500000.0), count_text(0.5)
    ('12,345', '2,500,000', '0.5')
    """
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.3g}"


def short_count_text(count: float) -> str:
    """Return a count for an axis.

    >>> short_count_text(12000), short_count_text(2500000.0), short_count_text(4e9)
    ('12,000', '2.5 M', '4,000 M')
    """
    return f"{count / 1e6:,.4g} M" if abs(count) >= 1e6 else count_text(count)


def percent(share: float) -> str:
    """Return a share as people read it; only 0 is 0%, and only 1 is 100%.

    >>> percent(0.0), percent(0.07005), percent(0.00012), percent(0.99995), percent(1.0), percent(-0.25)
    ('0%', '7.0%', '0.012%', '>99.9%', '100%', '-25%')
    """
    hundred = round(100 * share, 9)
    if hundred == round(hundred):
        return f"{hundred + 0.0:.0f}%"
    if abs(hundred) < 1:
        return f"{hundred:.2g}%"
    return ">99.9%" if 99.95 <= hundred < 100 else f"{hundred:.1f}%"


@dataclass(frozen=True, slots=True)
class Scale:
    """Places numbers from *low* to *high* between two coordinates; numbers beyond stay at the ends."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the coordinate of a number."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round numbers within the scale, at most so many.

        >>> Scale(0, 1, 0, 100).ticks(), Scale(0, 1300, 0, 100).ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 500.0, 1000.0])
        """
        step = tick_step(self.high - self.low, most - 1)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def scale(values: Sequence[float], start: float, end: float, least: float = 0.0) -> Scale:
    """Return the scale from 0, or the least value below it, to the largest value or *least*."""
    low, high = min(0.0, *values, 0.0), max(least, *values, 0.0)
    return Scale(low, high if high > low else low + 1.0, start, end)


def tick_step(span: float, most: int) -> float:
    """Return the smallest round step that goes into a span at most so often.

    >>> tick_step(1.0, 4), tick_step(20000, 4)
    (0.25, 5000.0)
    """
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (step * power) <= most + 1e-9)


def _character_width(character: str) -> float:
    """Return the width of a character in the size of the text."""
    if character in _NARROW:
        return 0.42
    if character in _BROAD:
        return 1.0
    if character.isascii() and character.isprintable():
        return 0.74 if character.isupper() else 0.64
    if unicodedata.combining(character):
        return 0.0
    return 0.8 if character.isalpha() and unicodedata.east_asian_width(character) not in "WF" else 1.3

"""The parts of drawings: elements, texts, scales, and labelled rows over an axis; all texts are escaped here."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from shoal.reports.templates import escape_text

TEXT = 13.0  # size of all texts, in units of the drawing
WIDTH = 480.0  # of a drawing
_BAR = 14.0
_LEGEND = 26.0
_MARGIN = 8.0
_LABELS = 190.0  # at most, of the width
_NARROW = frozenset(" ijlIt.,:;'|!()[]-/fr")
_BROAD = frozenset("mwMW@%&…–")


def element(tag: str, *children: str, **attributes: str | float | None) -> str:
    """Return an element; children are markup, attributes are escaped, and attributes that are None are omitted.

    A trailing underscore in a name is dropped, other underscores become hyphens.

    >>> element("rect", x=1.26, class_="plot-after")
    '<rect x="1.3" class="plot-after"/>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape_text(value) if isinstance(value, str) else place_text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{given}>{''.join(children)}</{tag}>" if children else f"<{tag}{given}/>"


def tooltip(words: str) -> str:
    """Return the text shown when the pointer is over the enclosing element."""
    return element("title", escape_text(words))


def text(x: float, y: float, words: str, kind: str, width: float | None = None, anchor: str = "start") -> str:
    """Return a text; if it is longer than *width*, it is cut and its tooltip has all of it."""
    whole = " ".join(words.split())
    shown = whole if width is None else fit(whole, width)
    inside = [escape_text(shown)] if shown == whole else [tooltip(whole), escape_text(shown)]
    return element("text", *inside, x=x, y=y, class_=kind, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def diamond(x: float, y: float, radius: float, kind: str, *children: str) -> str:
    """Return a square turned by 45 degrees."""
    corners = ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y))
    return element("polygon", *children, points=points_text(corners), class_=kind)


def points_text(corners: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{place_text(x)},{place_text(y)}" for x, y in corners)


def place_text(value: float) -> str:
    """Return a coordinate with at most one decimal.

    >>> place_text(3.0), place_text(-0.04), place_text(1.25)
    ('3', '0', '1.2')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def text_width(words: str) -> float:
    return TEXT * sum(map(_character_width, words))


def fit(words: str, width: float) -> str:
    """Return as much of a text as fits, with an ellipsis if it is cut.

    >>> fit("occupation", 40), fit("age", 40)
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


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps numbers from *low* to *high* to coordinates; numbers beyond are mapped to the ends."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return at most this many round numbers within the scale.

        >>> Scale(0, 1, 0, 100).ticks(), Scale(0, 1300, 0, 100).ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 500.0, 1000.0])
        """
        step = tick_step(self.high - self.low, most - 1)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def scale(values: Sequence[float], start: float, end: float, least: float = 0.0) -> Scale:
    """Return the scale from 0 (or the smallest negative value) to the largest value or *least*."""
    low, high = min(0.0, *values, 0.0), max(least, *values, 0.0)
    return Scale(low, high if high > low else low + 1.0, start, end)


def tick_step(span: float, most: int) -> float:
    """Return the smallest round step that fits into a span at most this often.

    >>> tick_step(1.0, 4), tick_step(20000, 4)
    (0.25, 5000.0)
    """
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (step * power) <= most + 1e-9)


def _character_width(character: str) -> float:
    """Return the width of a character relative to the size of the text."""
    if character in _NARROW:
        return 0.42
    if character in _BROAD:
        return 1.0
    if character.isascii() and character.isprintable():
        return 0.74 if character.isupper() else 0.64
    if unicodedata.combining(character):
        return 0.0
    return 0.8 if character.isalpha() and unicodedata.east_asian_width(character) not in "WF" else 1.3


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows and the axis of a plot; everything placed by it stays inside the drawing."""

    labels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]  # shape with class, and meaning
    scale: Scale
    row: float  # height of one row
    title: str  # of the axis

    @property
    def top(self) -> float:
        return _MARGIN + (_LEGEND if self.legend else 0.0)

    @property
    def bottom(self) -> float:
        return self.top + self.row * max(len(self.labels), 1)

    @property
    def height(self) -> float:
        return self.bottom + 2 * TEXT + 20.0

    def middle(self, place: int) -> float:
        return self.top + self.row * (place + 0.5)

    def parts(self, tick_text: Callable[[float], str]) -> list[str]:
        """Return grid, axis, legend and labels, to be drawn before the marks."""
        found = []
        for tick in self.scale.ticks():
            x = self.scale.place(tick)
            found.append(line(x, self.top, x, self.bottom, "plot-grid"))
            words = tick_text(tick)
            found.append(text(_within(x, words), self.bottom + TEXT + 4, words, "plot-soft", anchor="middle"))
        found.append(line(self.scale.start, self.bottom, self.scale.end, self.bottom, "plot-axis"))
        zero = self.scale.place(0.0)
        found.append(line(zero, self.top, zero, self.bottom, "plot-axis"))
        middle = _within((self.scale.start + self.scale.end) / 2, self.title)
        found.append(text(middle, self.bottom + 2 * TEXT + 12, self.title, "plot-soft", WIDTH - 4, "middle"))
        wide = sum(36 + text_width(words) for _, words in self.legend)
        x = max(min(self.scale.start, WIDTH - wide), 2.0)
        for kind, words in self.legend:
            found += [swatch(kind, x + 7, _MARGIN + 7), text(x + 20, _MARGIN + 12, words, "plot-label")]
            x += 36 + text_width(words)
        end = self.scale.start - 8
        for place, label in enumerate(self.labels):
            found.append(text(end, self.middle(place) + TEXT / 3, label, "plot-label", end - 2, "end"))
        return found


def make_frame(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    row: float,
    legend: Sequence[tuple[str, str]] = (),
    least: float = 0.0,
    right: float = 24.0,
) -> Frame:
    """Return the frame with space for the labels, and for *right* units of text behind the marks."""
    widest = max(map(text_width, labels), default=0.0)
    start = min(max(widest + 12, 30.0), _LABELS)
    return Frame(tuple(labels), tuple(legend), scale(values, start, WIDTH - right, least), row, title)


def _within(x: float, words: str) -> float:
    """Return the middle of a text such that the text stays in the drawing."""
    half = min(text_width(words), WIDTH) / 2
    return min(max(x, half), WIDTH - half)


def swatch(kind: str, x: float, y: float) -> str:
    shape, look = kind.split()
    if shape == "bar":
        return element("rect", x=x - 7, y=y - 5, width=14.0, height=10.0, class_=look)
    if shape == "diamond":
        return diamond(x, y, 6, look)
    if shape == "line":
        return line(x - 7, y, x + 7, y, look)
    return element("circle", cx=x, cy=y, r=5.0, class_=look)


def draw_bars(
    rows: Mapping[str, Sequence[float]],
    legend: Sequence[tuple[str, str]],
    *,
    title: str,
    value_text: Callable[[float], str],
    tick_text: Callable[[float], str],
    least: float = 0.0,
) -> tuple[list[str], float]:
    """Return the parts of a drawing with bars and their values, and its height.

    Each row has a name, and a value for each entry of the legend.
    """
    values = [value for row in rows.values() for value in row]
    behind = max((text_width(value_text(value)) for value in values), default=0.0)
    frame = make_frame(
        list(rows),
        values,
        title=title,
        row=_BAR * len(legend) + 10,
        legend=legend if len(legend) > 1 else (),
        least=least,
        right=max(behind + 10, 24.0),
    )
    found = frame.parts(tick_text)
    zero = frame.scale.place(0.0)
    for place, (label, row) in enumerate(rows.items()):
        top = frame.middle(place) - _BAR * len(legend) / 2
        for number, (value, (kind, words)) in enumerate(zip(row, legend, strict=True)):
            y, end = top + _BAR * number, frame.scale.place(value)
            tip = tooltip(f"{label}, {words}: {value_text(value)}")
            bar = {"x": min(zero, end), "y": y + 2, "width": abs(end - zero), "height": _BAR - 4}
            found.append(element("rect", tip, **bar, class_=kind.split()[1]))
            found.append(text(max(zero, end) + 5, y + _BAR / 2 + TEXT / 3, value_text(value), "plot-soft"))
    return found, frame.height


def range_mark(low: float, high: float, y: float, half: float, words: str) -> str:
    """Return a line between two places with end marks of height 2 *half*; *words* are its tooltip."""
    strokes = [line(low, y, high, y, "plot-range")]
    strokes += [line(x, y - half, x, y + half, "plot-range") for x in (low, high)]
    return element("g", tooltip(words), *strokes)

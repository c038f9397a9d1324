"""The frame of plots that have a labelled row for each thing they tell of, and an axis below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.reports.plots.plot import WIDTH
from shoal.reports.plots.svg import TEXT, Scale, diamond, element, line, scale, text, text_width, titled

_BAR = 14.0
BEFORE = ("bar plot-before", "before")
AFTER = ("bar plot-after", "after")
_LEGEND = 26.0
_MARGIN = 8.0
_LABELS = 190.0  # at most, of the width


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the rows and the axis of a plot are; nothing that is placed by it leaves the drawing."""

    labels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]  # shape with class, and what it means
    scale: Scale
    row: float  # height of one row
    title: str  # of the axis

    @property
    def top(self) -> float:
        """Where the first row begins."""
        return _MARGIN + (_LEGEND if self.legend else 0.0)

    @property
    def bottom(self) -> float:
        """Where the axis is."""
        return self.top + self.row * max(len(self.labels), 1)

    @property
    def height(self) -> float:
        """The height of the whole drawing."""
        return self.bottom + 2 * TEXT + 20.0

    def middle(self, place: int) -> float:
        """Return the middle of a row."""
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
            found += [_swatch(kind, x + 7, _MARGIN + 7), text(x + 20, _MARGIN + 12, words, "plot-label")]
            x += 36 + text_width(words)
        end = self.scale.start - 8
        for place, label in enumerate(self.labels):
            found.append(text(end, self.middle(place) + TEXT / 3, label, "plot-label", end - 2, "end"))
        return found


def framed(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    row: float,
    legend: Sequence[tuple[str, str]] = (),
    least: float = 0.0,
    right: float = 24.0,
) -> Frame:
    """Return the frame that has room for the labels, and for *right* units of text behind the marks."""
    widest = max(map(text_width, labels), default=0.0)
    start = min(max(widest + 12, 30.0), _LABELS)
    return Frame(tuple(labels), tuple(legend), scale(values, start, WIDTH - right, least), row, title)


def _within(x: float, words: str) -> float:
    """Return where the middle of a text must be so that it stays in the drawing."""
    half = min(text_width(words), WIDTH) / 2
    return min(max(x, half), WIDTH - half)


def _swatch(kind: str, x: float, y: float) -> str:
    """Return the mark of a legend: its shape and class are separated by a blank."""
    shape, look = kind.split()
    if shape == "bar":
        return element("rect", x=x - 7, y=y - 5, width=14.0, height=10.0, class_=look)
    if shape == "diamond":
        return diamond(x, y, 6, look)
    if shape == "line":
        return line(x - 7, y, x + 7, y, look)
    return element("circle", cx=x, cy=y, r=5.0, class_=look)


@dataclass(frozen=True, slots=True)
class Bars:
    """A row: its name, and a value for each kind of bar; None where there is none."""

    label: str
    values: tuple[float | None, ...]


def bars(
    rows: Sequence[Bars],
    legend: Sequence[tuple[str, str]],
    *,
    title: str,
    value_text: Callable[[float], str],
    tick_text: Callable[[float], str],
    least: float = 0.0,
) -> tuple[list[str], float]:
    """Return the parts of a drawing, and its height; bars are as long as their values, which stand behind them."""
    values = [value for row in rows for value in row.values if value is not None]
    behind = max((text_width(value_text(value)) for value in values), default=0.0)
    frame = framed(
        [row.label for row in rows],
        values,
        title=title,
        row=_BAR * len(legend) + 10,
        legend=legend if len(legend) > 1 else (),
        least=least,
        right=max(behind + 10, 24.0),
    )
    found = frame.parts(tick_text)
    zero = frame.scale.place(0.0)
    for place, row in enumerate(rows):
        top = frame.middle(place) - _BAR * len(legend) / 2
        for number, (value, (kind, words)) in enumerate(zip(row.values, legend, strict=True)):
            if value is None:
                continue
            y, end = top + _BAR * number, frame.scale.place(value)
            told = titled(f"{row.label}, {words}: {value_text(value)}")
            bar = {"x": min(zero, end), "y": y + 2, "width": abs(end - zero), "height": _BAR - 4}
            found.append(element("rect", told, **bar, class_=kind.split()[1]))
            found.append(text(max(zero, end) + 5, y + _BAR / 2 + TEXT / 3, value_text(value), "plot-soft"))
    return found, frame.height

"""Bars in rows, one or two in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.plots.rows import framed
from shoal.plots.svg import TEXT, element, text, text_width, titled

_BAR = 14.0
BEFORE = ("bar plot-before", "before")
AFTER = ("bar plot-after", "after")


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

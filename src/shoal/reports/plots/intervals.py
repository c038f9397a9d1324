"""What attacks found, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.reports.plots.plot import Plot, drawn
from shoal.reports.plots.rows import framed
from shoal.reports.plots.svg import element, line, percent, titled

_LEGEND = (
    ("circle plot-after", "surely more than chance"),
    ("circle plot-hollow", "may be chance"),
)
_LOWEST = -0.25  # intervals that go on below are cut


@dataclass(frozen=True, slots=True)
class Interval:
    """A risk that was measured, with the interval that it lies in."""

    name: str
    value: float
    low: float
    high: float
    note: str = ""


def intervals(rows: Sequence[Interval], title: str = "Attacks") -> Plot:
    """Draw each risk with its interval; a mark is full where the whole interval lies above 0."""
    ends = [max(end, _LOWEST) for row in rows for end in (row.value, row.low, row.high)]
    frame = framed([row.name for row in rows], ends, title="risk: 0% is what chance gives", row=26.0, legend=_LEGEND)
    parts = frame.parts(percent)
    for place, row in enumerate(rows):
        y, (low, high) = frame.middle(place), (frame.scale.place(row.low), frame.scale.place(row.high))
        told = f"{row.name}: {_range(row)}" + (f"; {row.note}" if row.note else "")
        strokes = [line(low, y, high, y, "plot-range")]
        strokes += [line(x, y - 4, x, y + 4, "plot-range") for x in (low, high)]
        parts.append(element("g", titled(told), *strokes))
        look = "plot-after" if row.low > 0 else "plot-hollow"
        parts.append(element("circle", titled(told), cx=frame.scale.place(row.value), cy=y, r=5.0, class_=look))
    noted = any(row.note for row in rows)
    heads = ("attack", "risk", "from", "to", *(("note",) if noted else ()))
    cells = [
        (row.name, percent(row.value), percent(row.low), percent(row.high), *((row.note,) if noted else ()))
        for row in rows
    ]
    return drawn(title, _words(rows), parts, frame.height, heads, cells)


def _words(rows: Sequence[Interval]) -> str:
    if not rows:
        return "No attack was tried."
    worst = max(rows, key=lambda row: row.value)
    sure = sum(row.low > 0 for row in rows)
    told = "None is" if not sure else f"{sure} of {len(rows)} {'is' if sure == 1 else 'are'}"
    return f"The largest risk is that of {worst.name}: {_range(worst)}. {told} surely above 0."


def _range(row: Interval) -> str:
    return f"{percent(row.value)}, between {percent(row.low)} and {percent(row.high)}"

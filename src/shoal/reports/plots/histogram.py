"""A small histogram of one column."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.wording import counted_text
from shoal.reports.plots.plot import Plot, drawn
from shoal.reports.plots.svg import TEXT, count_text, element, line, scale, text, titled

_WIDTH, _TOP, _BOTTOM = 240.0, 6.0, 70.0


def histogram(labels: Sequence[str], counts: Sequence[int], title: str = "Values", head: str = "value") -> Plot:
    """Draw a bar for each label, in their order; the first and the last label stand below."""
    heights = scale([float(count) for count in counts], _BOTTOM, _TOP, least=1.0)
    room = (_WIDTH - 4) / max(len(labels), 1)
    gap = min(2.0, room / 4)
    parts = [line(2, _BOTTOM, _WIDTH - 2, _BOTTOM, "plot-axis")]
    for place, (label, count) in enumerate(zip(labels, counts, strict=True)):
        top = heights.place(count)
        told = titled(f"{label}: {count_text(count)}")
        bar = {"x": 2 + place * room + gap / 2, "y": top, "width": room - gap, "height": _BOTTOM - top}
        parts.append(element("rect", told, **bar, class_="plot-flat"))
    if labels:
        parts.append(text(2, _BOTTOM + TEXT + 4, labels[0], "plot-soft", _WIDTH / 2 - 8))
    if len(labels) > 1:
        parts.append(text(_WIDTH - 2, _BOTTOM + TEXT + 4, labels[-1], "plot-soft", _WIDTH / 2 - 8, "end"))
    rows = [(label, count_text(count)) for label, count in zip(labels, counts, strict=True)]
    words = _words(labels, counts)
    return drawn(title, words, parts, _BOTTOM + 2 * TEXT - 2, (head, "records"), rows, width=_WIDTH)


def _words(labels: Sequence[str], counts: Sequence[int]) -> str:
    if not labels:
        return "There are no values."
    place = max(range(len(counts)), key=counts.__getitem__)
    return (
        f"{counted_text(len(labels), 'bar')} from {labels[0]} to {labels[-1]}; the highest is {labels[place]} "
        f"with {counted_text(counts[place], 'record')}."
    )

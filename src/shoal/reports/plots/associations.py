"""How much of the association between two attributes is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.reports.plots.plot import LIMIT, Plot, drawn
from shoal.reports.plots.rows import framed
from shoal.reports.plots.svg import diamond, element, fitted, line, titled

_LEGEND = (("diamond plot-before", "before"), ("circle plot-after", "after"))
_NAME = 78.0  # the room that each of the two names has at most


def associations(pairs: Sequence[Mapping[str, Any]]) -> Plot:
    """Draw each pair before and after, the strongest before first, at most 20."""
    ordered = sorted(pairs, key=lambda entry: -abs(entry["before"]))
    shown, hidden = ordered[:LIMIT], max(len(ordered) - LIMIT, 0)
    labels = [" – ".join(map(str, entry["pair"])) for entry in shown]
    values = [float(entry[side]) for entry in shown for side in ("before", "after")]
    short = [" – ".join(fitted(str(name), _NAME) for name in entry["pair"]) for entry in shown]
    frame = framed(short, values, title="association: 0 is none, 1 is complete", row=24.0, legend=_LEGEND, least=1.0)
    parts = frame.parts(_tick)
    for place, entry in enumerate(shown):
        y = frame.middle(place)
        before, after = (frame.scale.place(entry[side]) for side in ("before", "after"))
        told = f"{labels[place]}: {entry['before']:.2f} before, {entry['after']:.2f} after"
        parts.append(line(before, y, after, y, "plot-thin"))
        parts.append(diamond(before, y, 6.5, "plot-before", titled(told)))
        parts.append(element("circle", titled(told), cx=after, cy=y, r=4.0, class_="plot-after"))
    rows = [
        (label, *(f"{entry[side]:.2f}" for side in ("before", "after")))
        for label, entry in zip(labels, shown, strict=True)
    ]
    return drawn(
        "Associations kept", _words(shown, labels, hidden), parts, frame.height, ("attributes", "before", "after"), rows
    )


def _words(shown: Sequence[Mapping[str, Any]], labels: Sequence[str], hidden: int) -> str:
    if not shown:
        return "No pair of attributes was measured."
    place = max(range(len(shown)), key=lambda number: abs(shown[number]["before"] - shown[number]["after"]))
    most = shown[place]
    words = f"The largest change is that of {labels[place]}, from {most['before']:.2f} to {most['after']:.2f}."
    return words + (f" {hidden:,} weaker {'pair is' if hidden == 1 else 'pairs are'} not shown." if hidden else "")


def _tick(value: float) -> str:
    return f"{value:g}"

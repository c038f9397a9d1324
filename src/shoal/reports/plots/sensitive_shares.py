"""The share of each sensitive value in the whole table, against its range over classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.reports.plots.plot import LIMIT, Plot, drawn
from shoal.reports.plots.rows import framed
from shoal.reports.plots.svg import diamond, element, line, percent, titled


def sensitive_shares(name: str, entries: Sequence[Mapping[str, Any]], more: int = 0, group: str = "class") -> Plot:
    """Draw the values as they come, at most 20; how many *more* were not given is added to those not shown.

    The *group* is a class or a bucket.
    """
    shown, hidden = entries[:LIMIT], max(len(entries) - LIMIT, 0) + more
    legend = (("diamond plot-before", "whole table"), ("line plot-range", f"lowest to highest in a {group}"))
    labels = [str(entry["value"]) for entry in shown]
    highest = [float(entry[key]) for entry in shown for key in ("whole", "lowest", "highest")]
    frame = framed(labels, highest, title=f"share of records that have this {name}", row=24.0, legend=legend)
    parts = frame.parts(percent)
    for place, entry in enumerate(shown):
        y, (low, high) = frame.middle(place), (frame.scale.place(entry["lowest"]), frame.scale.place(entry["highest"]))
        told = (
            f"{labels[place]}: {percent(entry['whole'])} of the whole table, {percent(entry['lowest'])} to "
            f"{percent(entry['highest'])} of a {group}"
        )
        strokes = [line(low, y, high, y, "plot-range")]
        strokes += [line(x, y - 5, x, y + 5, "plot-range") for x in (low, high)]
        parts.append(element("g", titled(told), *strokes))
        parts.append(diamond(frame.scale.place(entry["whole"]), y, 5.5, "plot-before", titled(told)))
    rows = [
        (label, *(percent(entry[key]) for key in ("whole", "lowest", "highest")))
        for label, entry in zip(labels, shown, strict=True)
    ]
    heads = (name, "whole table", f"lowest in a {group}", f"highest in a {group}")
    title = f"{name}: {'classes' if group == 'class' else f'{group}s'} against the whole table"
    return drawn(title, _words(shown, hidden, group), parts, frame.height, heads, rows)


def _words(shown: Sequence[Mapping[str, Any]], hidden: int, group: str) -> str:
    if not shown:
        return "There are no values."
    widest = max(shown, key=lambda entry: float(entry["highest"]) - float(entry["whole"]))
    words = (
        f"The farthest above the whole table is {widest['value']}: {percent(widest['whole'])} of all records, and "
        f"{percent(widest['highest'])} of the {group} that has most of it."
    )
    return words + (f" {hidden:,} more {'value is' if hidden == 1 else 'values are'} not shown." if hidden else "")

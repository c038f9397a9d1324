"""The plot of risk against utility, with the frontier of the releases that no other dominates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.core.wording import count_noun, percent
from shoal.reports import svg
from shoal.reports.plots import Plot, draw

Box = tuple[float, float, float, float]  # left, top, right, bottom
_SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))  # directions of labels, best first
_FAR = (4.0, 14.0, 26.0, 40.0)  # their distances from the point's edge
_LONGEST = 170.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 62.0, 30.0, svg.WIDTH - 16.0, 300.0
_HEIGHT = _BOTTOM + 2 * svg.TEXT + 20
_RADIUS = 6.0
_NAMED = 8  # points that are named in the drawing; more are numbered


@dataclass(frozen=True, slots=True)
class Point:
    """One release: its remaining risk and its kept share, and whether another release dominates it."""

    name: str
    risk: float
    kept: float
    dominated: bool = False
    rank: int | None = None
    href: str | None = None
    risk_low: float | None = None
    risk_high: float | None = None


def frontier(points: Sequence[Point], title: str = "Risk against utility") -> Plot:
    """Draw each point in the order of ranks, filled on the frontier and hollow if it is dominated.

    Labels never cover points or one another: they are names if these fit, or else the numbers of the table.
    """
    ordered = sorted(points, key=lambda point: (point.rank is None, point.rank or 0))
    across, up = _scales(ordered)
    places = [(across.place(point.risk), up.place(point.kept)) for point in ordered]
    best = sorted((point.risk, point.kept) for point in ordered if not point.dominated)
    edge = [(risk, kept) for risk, kept in best if not any(less <= risk and more > kept for less, more in best)]
    parts = _axes(across, up)
    if len(edge) > 1:
        steps = [(across.place(risk), up.place(kept)) for risk, kept in edge]
        parts.append(svg.element("polyline", points=svg.points_text(steps), class_="plot-frontier"))
    intervals = [
        (across.place(point.risk_low), y, across.place(point.risk_high))
        for point, (_, y) in zip(ordered, places, strict=True)
        if point.risk_low is not None and point.risk_high is not None
    ]
    parts += [svg.line(low, y, high, y, "plot-thin") for low, y, high in intervals]
    labels, numbered = _labels(ordered, places, [(low, y - 1, high, y + 1) for low, y, high in intervals])
    marks = [_mark(*drawing) for drawing in zip(ordered, places, labels, strict=True)]
    parts += [mark for point, mark in zip(ordered, marks, strict=True) if point.dominated]
    parts += [mark for point, mark in zip(ordered, marks, strict=True) if not point.dominated]
    heads = (*(("number",) if numbered else ()), "release", "risk", "kept", "frontier")
    rows = [
        (*((str(number),) if numbered else ()), point.name, *_figures(point))
        for number, point in enumerate(ordered, start=1)
    ]
    linked = any(point.href is not None for point in ordered)
    return draw(title, _words(ordered, numbered), parts, _HEIGHT, heads, rows, linked=linked)


def _scales(points: Sequence[Point]) -> tuple[svg.Scale, svg.Scale]:
    risks = [point.risk for point in points] + [point.risk_high for point in points if point.risk_high is not None]
    low, high = min([0.0, *(point.risk for point in points)]), max([0.1, *risks])
    across = svg.Scale(low, low + 1.05 * (high - low), _LEFT, _RIGHT)
    kept = [point.kept for point in points] or [0.0, 1.0]
    margin = max(0.05, 0.12 * (max(kept) - min(kept)))
    step = svg.tick_step(max(kept) - min(kept) + 2 * margin, 5)
    bottom = step * int((min(kept) - margin) // step)
    top = step * -int(-(max(kept) + margin) // step)
    low, high = (max(bottom, 0.0) if min(kept) >= 0 else bottom), (min(top, 1.0) if max(kept) <= 1 else top)
    return across, svg.Scale(low, high, _BOTTOM, _TOP)


def _axes(across: svg.Scale, up: svg.Scale) -> list[str]:
    found = []
    for tick in up.ticks(7):
        y = up.place(tick)
        found.append(svg.line(_LEFT, y, _RIGHT, y, "plot-grid"))
        found.append(svg.text(_LEFT - 7, y + svg.TEXT / 3, percent(tick), "plot-soft", anchor="end"))
    for tick in across.ticks():
        x, words = across.place(tick), percent(tick)
        found.append(svg.line(x, _TOP, x, _BOTTOM, "plot-grid"))
        middle = min(x, svg.WIDTH - svg.text_width(words) / 2)
        found.append(svg.text(middle, _BOTTOM + svg.TEXT + 4, words, "plot-soft", anchor="middle"))
    found.append(svg.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "plot-axis"))
    found.append(svg.line(_LEFT, _TOP, _LEFT, _BOTTOM, "plot-axis"))
    found.append(svg.text(4, svg.TEXT + 2, "kept (more is better)", "plot-soft"))
    end = (_LEFT + _RIGHT) / 2
    found.append(svg.text(end, _BOTTOM + 2 * svg.TEXT + 12, "risk (less is better)", "plot-soft", anchor="middle"))
    return found


def _labels(
    points: Sequence[Point], places: Sequence[tuple[float, float]], lines: Sequence[Box]
) -> tuple[list[str], bool]:
    """Return the label of each point, "" if it does not fit, and whether labels are numbers."""
    box = (_LEFT, _TOP - 6, svg.WIDTH, _BOTTOM)
    if len(points) <= _NAMED:
        named = place_labels([point.name for point in points], places, _RADIUS, box, lines)
        if all(named):
            return named, False
    numbers = [str(number) for number in range(1, len(points) + 1)]
    return place_labels(numbers, places, _RADIUS, box, lines), True


def _mark(point: Point, place: tuple[float, float], label: str) -> str:
    x, y = place
    state = "dominated" if point.dominated else "on the frontier"
    tip = svg.tooltip(f"{point.name}: {percent(point.risk)} risk, {percent(round(point.kept, 3))} kept, {state}")
    kind = "plot-worse" if point.dominated else "plot-after"
    mark = svg.element("circle", tip, cx=x, cy=y, r=_RADIUS, class_=kind)
    if point.href is None:
        return mark + label
    name = f"{point.name}, {state}"
    return svg.element("a", mark, label, href=point.href, aria_label=name, tabindex=0)


def _figures(point: Point) -> tuple[str, str, str]:
    interval = ""
    if point.risk_low is not None and point.risk_high is not None:
        interval = f" ({percent(point.risk_low)} to {percent(point.risk_high)})"
    return percent(point.risk) + interval, percent(round(point.kept, 3)), "dominated" if point.dominated else "yes"


def _words(points: Sequence[Point], numbered: bool) -> str:
    if not points:
        return "No release was compared."
    best = [point for point in points if not point.dominated]
    first = points[0]
    words = f"On the frontier {'is' if len(best) == 1 else 'are'} {len(best)} of {count_noun(len(points), 'release')}: "
    words += "no other release that promises as much has less risk and keeps more."
    if first.rank is not None and first.rank > 1:
        words += " No release is first in the ranking: each is above the threshold or below shuffled columns."
    elif first.rank is not None:
        figures = f"{percent(first.risk)} risk, {percent(round(first.kept, 3))} kept"
        words += f" First in the ranking is {first.name} ({figures})."
    if len(best) < len(points):
        words += " Hollow points are dominated."
    return words + (" The numbers refer to the table." if numbered else "")


def place_labels(
    labels: Sequence[str], places: Sequence[tuple[float, float]], radius: float, within: Box, lines: Sequence[Box]
) -> list[str]:
    """Return the text of each label, with a line to a distant point; "" if it does not fit.

    Labels do not cover the *lines*.
    """
    taken = [*lines, *((x - radius, y - radius, x + radius, y + radius) for x, y in places)]
    found = []
    for label, (x, y) in zip(labels, places, strict=True):
        shown, drawn = svg.fit(" ".join(label.split()), _LONGEST), ""
        for far, box in _candidates(x, y, radius, svg.text_width(shown)):
            left, top, right, bottom = box
            inside = left >= within[0] and top >= within[1] and right <= within[2] and bottom <= within[3]
            if inside and not any(a < right and left < c and b < bottom and top < d for a, b, c, d in taken):
                taken.append(box)
                drawn = svg.text(left, bottom - 4, label, "plot-label", _LONGEST)
                if far > _FAR[0]:
                    end = (min(max(x, left), right), min(max(y, top), bottom))
                    drawn = svg.line(x, y, *end, "plot-thin") + drawn
                break
        found.append(drawn)
    return found


def _candidates(x: float, y: float, radius: float, width: float) -> list[tuple[float, Box]]:
    """Return the possible boxes of a label, the nearest first."""
    found = []
    for far in _FAR:
        distance = radius + far
        for right, down in _SIDES:
            slant = 0.75 if right and down else 1.0
            left = x + right * distance * slant - (width if right < 0 else 0 if right > 0 else width / 2)
            middle = y + down * (distance * slant + svg.TEXT / 2)
            found.append((far, (left, middle - svg.TEXT / 2 - 1, left + width, middle + svg.TEXT / 2 + 1)))
    return found

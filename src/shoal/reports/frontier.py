"""Risk against what is kept, with the frontier of those that nothing else dominates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.core.wording import count_noun, percent
from shoal.reports import svg
from shoal.reports.plots import Plot, draw

Box = tuple[float, float, float, float]  # left, top, right, bottom
_SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))  # where a label stands, best first
_FAR = (4.0, 14.0, 26.0, 40.0)  # how far it is from the point's edge
_LONGEST = 170.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 62.0, 30.0, svg.WIDTH - 16.0, 300.0
_HEIGHT = _BOTTOM + 2 * svg.TEXT + 20
_RADIUS = 6.0
_NAMED = 8  # points that are named in the drawing; more are numbered


@dataclass(frozen=True, slots=True)
class Point:
    """One release: the risk that is left and the share that is kept, and whether another has less and more."""

    name: str
    risk: float
    kept: float
    dominated: bool = False
    rank: int | None = None
    href: str | None = None
    risk_low: float | None = None
    risk_high: float | None = None


def frontier(points: Sequence[Point], title: str = "Risk against what is kept") -> Plot:
    """Draw each point, full on the frontier and hollow where it is dominated, in the order of their ranks.

    Labels never cover points or one another: names if there is space, else the numbers of the table.
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
    for point, (_, y) in zip(ordered, places, strict=True):
        if point.risk_low is not None and point.risk_high is not None:
            low, high = across.place(point.risk_low), across.place(point.risk_high)
            parts.append(svg.line(low, y, high, y, "plot-thin"))
    labels, numbered = _labels(ordered, places, across)
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
    """Return the axis of risks, from 0, and that of what is kept, around what there is."""
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
    points: Sequence[Point], places: Sequence[tuple[float, float]], across: svg.Scale
) -> tuple[list[str], bool]:
    """Return the label of each point, "" where there is no space, and whether labels are numbers."""
    box = (_LEFT, _TOP - 6, svg.WIDTH, _BOTTOM)
    lines = [
        (across.place(point.risk_low), y - 1, across.place(point.risk_high), y + 1)
        for point, (_, y) in zip(points, places, strict=True)
        if point.risk_low is not None and point.risk_high is not None
    ]
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
        return "There are no releases to compare."
    best = [point for point in points if not point.dominated]
    first = points[0]
    words = f"On the frontier {'is' if len(best) == 1 else 'are'} {len(best)} of {count_noun(len(points), 'release')}: "
    words += "no other that promises as much has less risk and keeps more."
    if first.rank is not None and first.rank > 1:
        words += " No release is first in the ranking: each is above the threshold or below shuffled columns."
    elif first.rank is not None:
        figures = f"{percent(first.risk)} risk, {percent(round(first.kept, 3))} kept"
        words += f" First in the ranking is {first.name} ({figures})."
    if len(best) < len(points):
        words += " Hollow points are dominated."
    return words + (" The numbers are those of the table." if numbered else "")


def place_labels(
    labels: Sequence[str], places: Sequence[tuple[float, float]], radius: float, within: Box, lines: Sequence[Box]
) -> list[str]:
    """Return the text of each label, with a line to its point if it stands far off; "" where there is no space.

    They keep off the *lines* too.
    """
    taken = [*lines, *((x - radius, y - radius, x + radius, y + radius) for x, y in places)]
    found = []
    for label, (x, y) in zip(labels, places, strict=True):
        shown = svg.fit(" ".join(label.split()), _LONGEST)
        for far, box in _candidates(x, y, radius, svg.text_width(shown)):
            if _inside(box, within) and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append(_draw_label(label, box, (x, y), far))
                break
        else:
            found.append("")
    return found


def _candidates(x: float, y: float, radius: float, width: float) -> list[tuple[float, Box]]:
    """Return the boxes that a label may have, nearest first."""
    found = []
    for far in _FAR:
        aside = radius + far
        for right, down in _SIDES:
            slant = 0.75 if right and down else 1.0
            left = x + right * aside * slant - (width if right < 0 else 0 if right > 0 else width / 2)
            middle = y + down * (aside * slant + svg.TEXT / 2)
            found.append((far, (left, middle - svg.TEXT / 2 - 1, left + width, middle + svg.TEXT / 2 + 1)))
    return found


def _draw_label(label: str, box: Box, place: tuple[float, float], far: float) -> str:
    left, top, right, bottom = box
    words = svg.text(left, bottom - 4, label, "plot-label", _LONGEST)
    if far == _FAR[0]:
        return words
    x, y = place
    end = (min(max(x, left), right), min(max(y, top), bottom))
    return svg.line(x, y, *end, "plot-thin") + words


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

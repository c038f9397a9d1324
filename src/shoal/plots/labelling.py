"""Labels beside points that cover neither points nor one another."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.plots.svg import TEXT, fitted, line, text, text_width

Box = tuple[float, float, float, float]  # left, top, right, bottom
_SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))  # where a label stands, best first
_FAR = (4.0, 14.0, 26.0, 40.0)  # how far it is from the point's edge
_LONGEST = 170.0


def placed_labels(
    labels: Sequence[str], places: Sequence[tuple[float, float]], radius: float, within: Box, lines: Sequence[Box]
) -> list[str]:
    """Return the text of each label, with a line to its point if it stands far off; "" where there is no room.

    They keep off the *lines* too.
    """
    taken = [*lines, *((x - radius, y - radius, x + radius, y + radius) for x, y in places)]
    found = []
    for label, (x, y) in zip(labels, places, strict=True):
        shown = fitted(" ".join(label.split()), _LONGEST)
        for far, box in _candidates(x, y, radius, text_width(shown)):
            if _inside(box, within) and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append(_drawn(label, box, (x, y), far))
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
            middle = y + down * (aside * slant + TEXT / 2)
            found.append((far, (left, middle - TEXT / 2 - 1, left + width, middle + TEXT / 2 + 1)))
    return found


def _drawn(label: str, box: Box, place: tuple[float, float], far: float) -> str:
    left, top, right, bottom = box
    words = text(left, bottom - 4, label, "plot-label", _LONGEST)
    if far == _FAR[0]:
        return words
    x, y = place
    end = (min(max(x, left), right), min(max(y, top), bottom))
    return line(x, y, *end, "plot-thin") + words


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

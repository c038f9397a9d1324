"""Intervals on a scale: the histogram, each level as a strip, and edges that can be moved; places are percentages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise

import numpy as np

from shoal.studio.taxonomies.entries import EntryError
from shoal.studio.taxonomies.views import TreeView
from shoal.taxonomies.builders.numbers import IntervalsTaxonomy
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.scales import Number, Numbers, number_text

MOST_BARS = 60
MOST_EDGES = 60  # of the finest level, if they shall be moved by hand


@dataclass(frozen=True, slots=True)
class Bar:
    """How many records have numbers of one stretch."""

    left: float
    width: float
    height: float  # share of the highest
    title: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """One interval of a level."""

    left: float
    width: float
    label: str
    records: int


@dataclass(frozen=True, slots=True)
class Edge:
    """Where intervals of the finest ``levels`` levels start, and how far it may be moved."""

    value: Number
    left: float
    levels: int
    lowest: Number
    highest: Number
    text: str


@dataclass(frozen=True, slots=True)
class ScaleView:
    """A scale from ``low`` to ``high``."""

    low: Number
    high: Number
    step: Number
    whole: bool
    bars: tuple[Bar, ...]
    strips: tuple[tuple[Stretch, ...], ...]  # the coarsest first
    edges: tuple[Edge, ...]

    @property
    def ends(self) -> str:
        """The scale in words."""
        return f"{number_text(self.low)} to {number_text(self.high)}"


def scale_view(builder: IntervalsTaxonomy, drawn: TreeView) -> ScaleView:
    """Draw declared intervals over the numbers of a column."""
    low, end = float(builder.min), float(builder.max) + builder.whole
    levels = levels_of(builder)
    return ScaleView(
        low=builder.min,
        high=builder.max,
        step=builder.finest,
        whole=builder.whole,
        bars=_bars(builder, drawn, low, end),
        strips=tuple(_strip(level, drawn, low, end) for level in reversed(levels)),
        edges=_edges(builder, low, end) if builder.edges else (),
    )


def levels_of(builder: IntervalsTaxonomy) -> tuple[tuple[Number, ...], ...]:
    """Return the edges of each level, finest first, of equal widths as well; levels without edges are left out."""
    if builder.edges:
        return tuple(level for level in builder.edges if level)
    found = []
    origin = _exact(builder.min if builder.origin is None else builder.origin)
    low, high = _exact(builder.min), _exact(builder.max) + builder.whole
    for width in sorted(set(builder.widths)):
        wide = _exact(width)
        n_edges = (high - low) / wide
        if n_edges > 10 * MOST_EDGES:
            continue
        first = math.floor((low - origin) / wide) + 1
        marks = [origin + wide * place for place in range(first, first + math.ceil(n_edges) + 1)]
        level = tuple(int(mark) if builder.whole else float(mark) for mark in marks if low < mark < high)
        if level:
            found.append(level)
    return tuple(found)


def by_hand(builder: IntervalsTaxonomy) -> dict[str, object]:
    """Return the same intervals with edges of their own in place of widths, so that each can be moved.

    >>> by_hand(IntervalsTaxonomy(min=0, max=29, widths=(5, 10)))
    {'min': 0, 'max': 29, 'edges': [[5, 10, 15, 20, 25], [10, 20]]}
    """
    levels = [level for level in levels_of(builder) if len(level) <= MOST_EDGES]
    if not levels:
        raise EntryError(
            f"give widths that make at most {MOST_EDGES} edges first, so that there are some to move", "widths"
        )
    kept = builder.model_dump(exclude_defaults=True, exclude={"widths", "edges"})
    if not builder.whole and builder.step is None:
        kept["step"] = builder.finest
    return {"min": kept.pop("min"), "max": kept.pop("max"), "edges": [list(level) for level in levels], **kept}


def _strip(level: tuple[Number, ...], drawn: TreeView, low: float, end: float) -> tuple[Stretch, ...]:
    scale = drawn.taxonomy.scale
    if not isinstance(scale, Numbers):
        return ()
    marks = [low, *map(float, level), end]
    leaves = np.searchsorted(scale.starts, marks).tolist()
    total = np.append(0, np.cumsum(drawn.records[: drawn.taxonomy.n_leaves]))
    return tuple(
        Stretch(
            left=_percent(a, low, end),
            width=_percent(b, low, end) - _percent(a, low, end),
            label=drawn.taxonomy.label(first, after),
            records=int(total[after] - total[first]),
        )
        for (a, b), (first, after) in zip(pairwise(marks), pairwise(leaves), strict=True)
    )


def _edges(builder: IntervalsTaxonomy, low: float, end: float) -> tuple[Edge, ...]:
    finest = sorted(set(chain(*builder.edges)))
    if len(finest) > MOST_EDGES:
        return ()
    step = _exact(builder.finest)
    origin = _exact(builder.min if builder.origin is None else builder.origin)
    first = origin + (math.floor((_exact(builder.min) - origin) / step) + 1) * step
    last = origin + (math.ceil((_exact(builder.max) + builder.whole - origin) / step) - 1) * step
    around = [first - step, *map(_exact, finest), last + step]
    return tuple(
        Edge(
            value=edge,
            left=_percent(edge, low, end),
            levels=sum(edge in level for level in builder.edges),
            lowest=_plain(before + step, builder),
            highest=_plain(after - step, builder),
            text=number_text(edge),
        )
        for before, edge, after in zip(around, finest, around[2:], strict=False)
    )


def _bars(builder: IntervalsTaxonomy, drawn: TreeView, low: float, end: float) -> tuple[Bar, ...]:
    numbers, valid = decimal_numbers(drawn.values)
    width = (end - low) / MOST_BARS
    if builder.whole:
        width = max(1.0, float(math.ceil(width)))
    marks = np.append(np.arange(low, end, width), end)
    inside = valid & (numbers >= low) & (numbers <= end)
    tall, _ = np.histogram(numbers[inside], marks, weights=drawn.counts[inside])
    highest = max(float(tall.max(initial=0)), 1.0)
    return tuple(
        Bar(
            left=_percent(a, low, end),
            width=_percent(b, low, end) - _percent(a, low, end),
            height=round(n / highest, 4),
            title=f"from {number_text(a)}: {int(n):,} records",
        )
        for (a, b), n in zip(pairwise(marks.tolist()), tall.tolist(), strict=True)
        if n
    )


def _percent(number: float, low: float, end: float) -> float:
    return round(100 * (number - low) / (end - low), 3)


def _exact(number: Number) -> Fraction:
    return Fraction(repr(number))


def _plain(number: Fraction, builder: IntervalsTaxonomy) -> Number:
    return int(number) if builder.whole else float(number)

"""Views of a taxonomy: the records of each node, its levels, examples, and values outside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.policy.profiling import ColumnProfile
from shoal.studio.taxonomies.entries import EntryError
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.fitting import Uncovered, find_uncovered
from shoal.taxonomies.parse import decimal_numbers, texts
from shoal.taxonomies.scales import Number, Numbers, number_text
from shoal.taxonomies.tree import Taxonomy

MOST_CHILDREN = 60  # of one node, in a tree that cannot be edited
MOST_SHOWN = 1_500
MOST_LOOSE = 200
_EXAMPLES = 3
MOST_BARS = 60
MOST_EDGES = 60  # of the finest level, if edges can be moved


@dataclass(frozen=True, slots=True)
class Branch:
    """A drawn node; ``number`` is its position in reading order, ``rest`` the number of children not drawn."""

    number: int
    label: str
    records: int
    values: int
    level: int
    children: tuple[Branch, ...] = ()
    rest: int = 0

    @property
    def group(self) -> bool:
        return bool(self.children) or self.rest > 0

    @property
    def rest_records(self) -> int:
        return self.records - sum(child.records for child in self.children)


@dataclass(frozen=True, slots=True)
class LevelView:
    """One level of generalization: the number of labels, and the smallest number of records per label."""

    height: int
    n_nodes: int
    smallest: int
    example: str


@dataclass(frozen=True, slots=True)
class TreeView:
    """A taxonomy with the records of a table."""

    taxonomy: Taxonomy
    codes: CodeArray  # (n_values,) the leaf of each value, or -1
    values: pa.Array
    counts: IntArray  # (n_values,)
    records: IntArray  # (n_nodes,)
    gaps: Uncovered

    def levels(self) -> tuple[LevelView, ...]:
        """Return the levels, finest first."""
        often = np.bincount(self.codes[self.codes >= 0], self.counts[self.codes >= 0], self.taxonomy.n_leaves)
        found = []
        for height in range(self.taxonomy.height + 1):
            per_node = np.bincount(self.taxonomy.node_at(height), often, self.taxonomy.n_nodes).astype(np.int64)
            taken = per_node[per_node > 0]
            example = self.taxonomy.labels[int(per_node.argmax())]
            smallest, example = (int(taken.min()), example) if len(taken) else (0, "")
            found.append(LevelView(height, len(taken), smallest, example))
        return tuple(found)

    def examples(self) -> tuple[tuple[str, ...], ...]:
        """Return the labels of the most frequent values: the value itself, then each node above."""
        placed = np.flatnonzero(self.codes >= 0)
        often = placed[np.argsort(-self.counts[placed], kind="stable")][:_EXAMPLES]
        shown = texts(self.values.take(pa.array(often))).to_pylist()
        return tuple(
            self._chain(text, int(self.codes[place])) for text, place in zip(shown, often.tolist(), strict=True)
        )

    def loose(self) -> tuple[tuple[str, int], ...]:
        """Return the most frequent values outside the tree, with their records."""
        found = np.flatnonzero(self.codes < 0)
        found = found[np.argsort(-self.counts[found], kind="stable")][:MOST_LOOSE]
        shown = texts(self.values.take(pa.array(found))).to_pylist()
        return tuple(zip(shown, self.counts[found].tolist(), strict=True))

    def draw(self, *, whole: bool) -> Branch:
        """Return the whole tree, or the part of it with records that a page can show."""
        tree = self.taxonomy
        most_children, most = (tree.n_nodes, tree.n_nodes) if whole else (MOST_CHILDREN, MOST_SHOWN)
        shown: dict[int, list[int]] = {}
        rest: dict[int, int] = {}
        order = [tree.root]  # a node before its children
        for node in order:
            below = tree.children(node)
            kept = [child for child in below if whole or self.records[child]]
            kept = kept[: min(most_children, max(0, most - len(order)))]
            shown[node], rest[node] = kept, len(below) - len(kept)
            order += kept
        numbers: dict[int, int] = {}  # in reading order
        waiting = [tree.root]
        while waiting:
            node = waiting.pop()
            numbers[node] = len(numbers)
            waiting += reversed(shown[node])
        made: dict[int, Branch] = {}
        for node in reversed(order):
            made[node] = Branch(
                number=numbers[node],
                label=tree.labels[node],
                records=int(self.records[node]),
                values=int(tree.hi[node] - tree.lo[node]),
                level=int(tree.level[node]) + 1,
                children=tuple(made[child] for child in shown[node]),
                rest=rest[node],
            )
        return made[tree.root]

    def _chain(self, text: str, leaf: int) -> tuple[str, ...]:
        found, node = [text], leaf
        while node >= 0:
            if self.taxonomy.labels[node] != found[-1]:
                found.append(self.taxonomy.labels[node])
            node = int(self.taxonomy.parent[node])
        return tuple(found)


def view(taxonomy: Taxonomy, column: ColumnProfile) -> TreeView:
    present = column.counts[1:] > 0
    values, counts = column.values.filter(pa.array(present)), column.counts[1:][present]
    codes = taxonomy.encode(values)
    leaves = np.bincount(codes[codes >= 0], counts[codes >= 0], taxonomy.n_leaves).astype(np.int64)
    below = np.append(0, np.cumsum(leaves))
    records = below[taxonomy.hi] - below[taxonomy.lo]
    return TreeView(taxonomy, codes, values, counts, records, find_uncovered(codes, values, counts))


@dataclass(frozen=True, slots=True)
class Stretch:
    """One interval of a level, or one bar of the histogram, in percent of the scale."""

    left: float
    width: float
    label: str
    records: int

    @classmethod
    def between(cls, start: float, stop: float, ends: tuple[float, float], label: str, records: float) -> Stretch:
        left = _percent(start, *ends)
        return cls(left, _percent(stop, *ends) - left, label, int(records))


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between intervals, which is in the finest ``levels`` levels, and the limits of its moves."""

    value: Number
    left: float
    levels: int
    lowest: Number
    highest: Number
    text: str


@dataclass(frozen=True, slots=True)
class ScaleView:
    low: Number
    high: Number
    step: Number
    whole: bool
    bars: tuple[Stretch, ...]
    strips: tuple[tuple[Stretch, ...], ...]  # the coarsest first
    edges: tuple[Edge, ...]

    @property
    def ends(self) -> str:
        return f"{number_text(self.low)} to {number_text(self.high)}"

    @property
    def highest(self) -> int:
        return max((bar.records for bar in self.bars), default=1)


def scale_view(builder: IntervalsTaxonomy, drawn: TreeView) -> ScaleView:
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
    """Return the edges of each level, finest first, also for equal widths; levels without edges are omitted."""
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
    """Return the same intervals with edges in place of widths, so each edge can be moved.

    >>> by_hand(IntervalsTaxonomy(min=0, max=29, widths=(5, 10)))
    {'min': 0, 'max': 29, 'edges': [[5, 10, 15, 20, 25], [10, 20]]}
    """
    levels = [level for level in levels_of(builder) if len(level) <= MOST_EDGES]
    if not levels:
        raise EntryError(f"first enter widths that make at most {MOST_EDGES} edges", "widths")
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
        Stretch.between(a, b, (low, end), drawn.taxonomy.label(first, after), total[after] - total[first])
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


def _bars(builder: IntervalsTaxonomy, drawn: TreeView, low: float, end: float) -> tuple[Stretch, ...]:
    numbers, valid = decimal_numbers(drawn.values)
    width = (end - low) / MOST_BARS
    if builder.whole:
        width = max(1.0, float(math.ceil(width)))
    marks = np.append(np.arange(low, end, width), end)
    inside = valid & (numbers >= low) & (numbers <= end)
    tall, _ = np.histogram(numbers[inside], marks, weights=drawn.counts[inside])
    return tuple(
        Stretch.between(a, b, (low, end), f"from {number_text(a)}", n)
        for (a, b), n in zip(pairwise(marks.tolist()), tall.tolist(), strict=True)
        if n
    )


def _percent(number: float, low: float, end: float) -> float:
    return round(100 * (number - low) / (end - low), 3)


def _exact(number: Number) -> Fraction:
    return Fraction(repr(number))


def _plain(number: Fraction, builder: IntervalsTaxonomy) -> Number:
    return int(number) if builder.whole else float(number)

"""Compiled loops of Mondrian: a box is a contiguous range of items, and a cut sorts its items into parts.

Arrays: ``codes`` (n_items, d) leaf codes; ``weights`` (n_items, w) records in column 0, population records in the
others; ``part`` (n_items,) each item's part in its box's cut. Items themselves are moved, not indices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import int64  # the kernels of labels are compiled for this type only

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel, light_kernel
from shoal.methods.labels import Trees, covering_node, find_range, is_range, range_width


class Boxes(NamedTuple):
    """Boxes that are ranges of items, with their occurring and published leaves."""

    starts: IntArray  # (n,)
    stops: IntArray  # (n,)
    barred: BoolArray  # (n, d) attributes that cannot be cut, because the box is the rest of such a cut
    low: CodeArray  # (n, d) the lowest leaf
    high: CodeArray  # (n, d) the highest leaf, inclusive
    lo: CodeArray  # (n, d) the published range
    hi: CodeArray  # (n, d) exclusive
    sizes: IntArray  # (n, w) records, then populations

    @property
    def n(self) -> int:
        return len(self.starts)

    @property
    def records(self) -> IntArray:
        """(n,) the records of each box."""
        return self.sizes[:, 0]

    def take(self, which: AnyIntArray | BoolArray | slice) -> Boxes:
        return Boxes._make(column[which] for column in self)

    @classmethod
    def join(cls, parts: Iterable[Boxes]) -> Boxes:
        return cls._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class Items(NamedTuple):
    """The items in the order of their boxes; cuts move them."""

    codes: AnyIntArray  # (n_items, d)
    weights: AnyIntArray  # (n_items, w)
    values: CodeArray  # (n_items, n_columns) sensitive values
    cells: CodeArray  # (n_items,)
    part: CodeArray  # (n_items,)


@kernel
def label_boxes(items: Items, trees: Trees, boxes: Boxes, everyone: bool) -> None:
    """Fill in the lowest and highest leaf, the published range, the records and the population of each box.

    Labels cover all records and, if *everyone*, also the people of the population.
    """
    codes, weights = items.codes, items.weights
    for box in range(len(boxes.starts)):
        lowest, highest, sizes = boxes.low[box], boxes.high[box], boxes.sizes[box]
        lowest[:], highest[:], sizes[:] = 2147483647, -1, 0
        for item in range(boxes.starts[box], boxes.stops[box]):
            for w in range(weights.shape[1]):
                sizes[w] += weights[item, w]
            if everyone or weights[item, 0] > 0:
                for j in range(codes.shape[1]):
                    code = np.int32(codes[item, j])
                    lowest[j] = min(lowest[j], code)
                    highest[j] = max(highest[j], code)
        for j in range(codes.shape[1]):
            if highest[j] >= 0:
                low, high = int64(lowest[j]), int64(highest[j])
                boxes.lo[box, j], boxes.hi[box, j] = find_range(trees, j, low, high)


@kernel
def rank_cuts(items: Items, trees: Trees, boxes: Boxes, nodes: IntArray, smallest: int, score: FloatArray) -> None:
    """Score the cut of each box on each attribute by the sizes of its parts alone, or 0 without a cut.

    The score is the reduction of the records' label width, divided by the entropy of the parts. Parts below *smallest*
    form the rest, which absorbs the smallest other part if it is itself too small. *nodes* is (2, n_nodes) scratch
    space of zeros.
    """
    codes, weights, d = items.codes, items.weights, items.codes.shape[1]
    tally, seen = nodes[0], nodes[1]
    for box in range(len(boxes.starts)):
        begin, stop = boxes.starts[box], boxes.stops[box]
        for j in range(d):
            low, high = int64(boxes.low[box, j]), int64(boxes.high[box, j])
            if boxes.barred[box, j] or high <= low or is_range(trees, j, low, high):
                continue
            node = covering_node(trees, j, low, high)
            level = trees.level[trees.first_node[j] + node] + 1
            row = trees.first_ancestor[j] + level * trees.n_leaves[j]
            n_seen = 0
            for item in range(begin, stop):
                child = trees.ancestor[row + codes[item, j]]
                if weights[item, 0] > 0:
                    if tally[child] == 0:
                        seen[n_seen] = child
                        n_seen += 1
                    tally[child] += weights[item, 0]
            score[box, j] = _level_score(trees, j, node, seen[:n_seen], tally, smallest)
            for at in range(n_seen):
                tally[seen[at]] = 0


@kernel
def rank_range_cuts(
    items: Items, trees: Trees, boxes: Boxes, nodes: IntArray, smallest: int, score: FloatArray, cut: CodeArray
) -> None:
    """Score the cuts of ranges, which are divided after the leaf *cut*, in the same way."""
    tally = nodes[0]
    for box in range(len(boxes.starts)):
        for j in range(items.codes.shape[1]):
            low, high = int64(boxes.low[box, j]), int64(boxes.high[box, j])
            if boxes.barred[box, j] or high <= low or not is_range(trees, j, low, high):
                continue
            for item in range(boxes.starts[box], boxes.stops[box]):
                tally[items.codes[item, j] - low] += items.weights[item, 0]
            score[box, j], cut[box, j] = _best_range_cut(trees, j, low, high, tally, smallest)
            tally[: high - low + 1] = 0


@light_kernel
def _level_score(trees: Trees, j: int, node: int, children: IntArray, tally: IntArray, smallest: int) -> float:
    """Score the cut of a node into children with at least *smallest* records and the rest."""
    total, rest, least = 0, 0, -1
    for child in children:
        total += tally[child]
        if tally[child] < smallest:
            rest += tally[child]
        elif least < 0 or tally[child] < tally[least]:
            least = child
    back = least if 0 < rest < smallest else -1  # absorbed, to make the rest large enough
    base = trees.first_node[j]
    width = trees.width[base + node]
    gain, entropy = 0.0, 0.0
    for child in children:
        size = tally[child]
        if size < smallest:
            continue
        if child == back:
            rest += size
            continue
        gain += size * (width - trees.width[base + child])
        entropy -= size / total * np.log(size / total)
    if 0 < rest < total:
        entropy -= rest / total * np.log(rest / total)
    return gain / entropy if gain > 0.0 and entropy > 0.0 else 0.0


@light_kernel
def _best_range_cut(trees: Trees, j: int, first: int, last: int, tally: IntArray, smallest: int) -> tuple[float, int]:
    """Return the score and the place of the best cut in two, at a boundary of the finest groups."""
    base, total = trees.first_leaf[j], 0
    for at in range(last - first + 1):
        total += tally[at]
    lo, hi = find_range(trees, j, first, last)
    width = range_width(trees, j, lo, hi)
    best, place = 0.0, -1
    left, left_high = 0, first
    for at in range(last - first):
        left += tally[at]
        if tally[at] > 0:
            left_high = first + at
        leaf = first + at
        if trees.high_end[base + leaf] != leaf or left < smallest or left == total:
            continue
        right = total - left
        if right < smallest:
            break
        following = at + 1
        while tally[following] == 0:
            following += 1
        left_lo, left_hi = find_range(trees, j, first, left_high)
        right_lo, right_hi = find_range(trees, j, first + following, last)
        gain = left * (width - range_width(trees, j, left_lo, left_hi))
        gain += right * (width - range_width(trees, j, right_lo, right_hi))
        entropy = -(left / total * np.log(left / total) + right / total * np.log(right / total))
        if gain / entropy > best:
            best, place = gain / entropy, leaf
    return best, place


@kernel
def number_parts(
    items: Items, trees: Trees, boxes: Boxes, nodes: IntArray, attribute: CodeArray, cut: CodeArray, n_parts: IntArray
) -> None:
    """Number the parts of each box in the order of their nodes, assign them to items, and fill in their number.

    Parts are the children of the lowest node that covers the box, or the two sides of a divided range.
    """
    codes, part = items.codes, items.part
    number, seen = nodes[0], nodes[1]
    for box in range(len(boxes.starts)):
        begin, stop, j = boxes.starts[box], boxes.stops[box], int64(attribute[box])
        lowest, highest = int64(boxes.low[box, j]), int64(boxes.high[box, j])
        if is_range(trees, j, lowest, highest):
            for item in range(begin, stop):
                part[item] = 1 if codes[item, j] > cut[box] else 0
            n_parts[box] = 2
            continue
        node = covering_node(trees, j, lowest, highest)
        row = trees.first_ancestor[j] + (trees.level[trees.first_node[j] + node] + 1) * trees.n_leaves[j]
        n_seen = 0
        for item in range(begin, stop):
            child = trees.ancestor[row + codes[item, j]]
            if number[child] == 0:
                number[child] = 1
                seen[n_seen] = child
                n_seen += 1
        _sort(seen[:n_seen])
        for at in range(n_seen):
            number[seen[at]] = at
        for item in range(begin, stop):
            part[item] = number[trees.ancestor[row + codes[item, j]]]
        for at in range(n_seen):
            number[seen[at]] = 0
        n_parts[box] = n_seen


@light_kernel
def _sort(numbers: IntArray) -> None:
    """Sort in place by Shell sort, which compiles in a tenth of the time of `places_ascending`."""
    gap = len(numbers) // 2
    while gap > 0:
        for at in range(gap, len(numbers)):
            number, to = numbers[at], at
            while to >= gap and numbers[to - gap] > number:
                numbers[to] = numbers[to - gap]
                to -= gap
            numbers[to] = number
        gap //= 2


@kernel
def tally_parts(
    items: Items, column: int, boxes: Boxes, first: IntArray, row_of: IntArray, sizes: IntArray, counts: IntArray
) -> None:
    """Count records, people and the values of one column; part p of box b is counted in row ``row_of[first[b] + p]``.

    Parts with row -1 are not counted.
    """
    n_weights, with_values = items.weights.shape[1], counts.shape[1] > 0
    for box in range(len(boxes.starts)):
        for item in range(boxes.starts[box], boxes.stops[box]):
            row = row_of[first[box] + items.part[item]]
            if row < 0:
                continue
            for w in range(n_weights):
                sizes[row, w] += items.weights[item, w]
            if with_values:
                counts[row, items.values[item, column]] += items.weights[item, 0]


@kernel
def measure_parts(
    items: Items, boxes: Boxes, attribute: CodeArray, first: IntArray, sizes: IntArray, low: CodeArray, high: CodeArray
) -> None:
    """Count the records of each part; extend ``low`` and ``high``, both inclusive, to its leaves on the attribute."""
    for box in range(len(boxes.starts)):
        j = attribute[box]
        for item in range(boxes.starts[box], boxes.stops[box]):
            if items.weights[item, 0] > 0:
                at, code = first[box] + items.part[item], np.int32(items.codes[item, j])
                sizes[at] += items.weights[item, 0]
                low[at] = min(low[at], code)
                high[at] = max(high[at], code)


@kernel
def partition(
    items: Items, boxes: Boxes, first: IntArray, piece: CodeArray, ends: IntArray, following: IntArray
) -> None:
    """Reorder the items of each box by their pieces.

    Part p of box b belongs to piece ``piece[first[b] + p]``. *ends* gets the end of every piece, one for each part.
    *following* is scratch space for one more entry than any box has parts.
    """
    for box in range(len(boxes.starts)):
        own = piece[first[box] : first[box + 1]]
        for p in range(len(own) + 1):
            following[p] = 0
        for item in range(boxes.starts[box], boxes.stops[box]):
            following[own[items.part[item]] + 1] += 1
        following[0] = boxes.starts[box]
        for p in range(len(own)):
            following[p + 1] += following[p]
            ends[first[box] + p] = following[p + 1]
        for p in range(len(own)):
            end = ends[first[box] + p]
            while following[p] < end:
                here = following[p]
                target = own[items.part[here]]
                if target != p:
                    _swap(items, here, following[target])
                following[target] += 1


@light_kernel
def _swap(items: Items, one: int, other: int) -> None:
    codes, weights, values = items.codes, items.weights, items.values
    for i in range(codes.shape[1]):
        codes[one, i], codes[other, i] = codes[other, i], codes[one, i]
    for w in range(weights.shape[1]):
        weights[one, w], weights[other, w] = weights[other, w], weights[one, w]
    for s in range(values.shape[1]):
        values[one, s], values[other, s] = values[other, s], values[one, s]
    items.cells[one], items.cells[other] = items.cells[other], items.cells[one]
    items.part[one], items.part[other] = items.part[other], items.part[one]

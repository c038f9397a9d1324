"""The items of Mondrian, one for each cell, and the compiled loops over boxes of items.

Chunks of boxes run in threads. Boxes are independent, so the number of threads does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.methods.labels import Trees, measure_labels
from shoal.methods.mondrian import kernels
from shoal.methods.mondrian.kernels import Boxes
from shoal.models.base import ClassHistograms
from shoal.plan.problem import Problem, Requirement
from shoal.utility.information import relative_widths
from shoal.utility.marginals import find_edges
from shoal.utility.rows import sum_weights

_ITEMS_PER_CHUNK = 1 << 17
_WITHIN_BINS = 1e-3  # bits for the width of a whole domain

Tally = tuple[IntArray, IntArray]  # (n, w) records and people; (n, n_values) records of each value


@dataclass(slots=True, eq=False)
class Parts:
    """The parts into which one cut sorts the items of each of some boxes; box b has parts ``first[b]:first[b + 1]``."""

    attribute: CodeArray  # (n,)
    cut: CodeArray  # (n,) the place of the cut of a range
    first: IntArray  # (n + 1,)

    @property
    def box(self) -> IntArray:
        """(n_parts,) the box of each part."""
        return np.repeat(np.arange(len(self.attribute)), np.diff(self.first))


class Items:
    """Codes, counts and values of all items, in the order of their boxes."""

    def __init__(self, problem: Problem, *, ranges: bool, by_entropy: bool = False) -> None:
        numbers = [attribute.taxonomy.positions is not None for attribute in problem.quasi]
        self.trees = Trees.of(problem.quasi, [ranges and number for number in numbers])
        if by_entropy:
            open_bits = [_measure_entropy(problem, place) for place in range(len(problem.quasi))]
            full = np.array([own[-1] for own in open_bits])  # the root is last
            self.trees = self.trees._replace(width=np.concatenate(open_bits), full=full)
        self._pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
        n = problem.cells.n_cells
        leaves = max(attribute.taxonomy.n_leaves for attribute in problem.quasi)
        nodes = max(attribute.taxonomy.n_nodes for attribute in problem.quasi)
        self._note_nodes = partial(np.zeros, (2, nodes), dtype=np.int64)
        codes = _stack(problem.quasi_codes, n, np.uint16 if leaves <= 1 << 16 else np.int32)
        self._value_columns = _distinct_columns([r.values for r in problem.requirements])
        self._value_widths = [
            next(r.n_values for r in problem.requirements if r.values is column) for column in self._value_columns
        ]
        self._population_columns = _distinct_columns([r.population for r in problem.requirements])
        self._everyone = bool(self._population_columns)  # labels then cover the population
        counted = [problem.cells.counts, *self._population_columns]
        most = max(int(column.max(initial=0)) for column in counted)
        weights = _stack(counted, n, np.int32 if most < 1 << 31 else np.int64)
        values = _stack(self._value_columns, n, np.int32)
        cells = np.arange(n, dtype=np.int32)
        self.arrays = kernels.Items(codes, weights, values, cells, np.zeros(n, dtype=np.int32))

    @property
    def widest(self) -> int:
        """The largest number of values of a requirement."""
        return max(self._value_widths, default=1)

    def close(self) -> None:
        self._pool.shutdown()

    def boxes(self, starts: IntArray, stops: IntArray, barred: BoolArray) -> Boxes:
        """Return labelled boxes of ranges of items."""
        low, high, lo, hi = (np.zeros(barred.shape, dtype=np.int32) for _ in range(4))
        sizes = np.empty((len(starts), self.arrays.weights.shape[1]), dtype=np.int64)
        found = Boxes(starts, stops, barred, low, high, lo, hi, sizes)
        self._run(kernels.label_boxes, found, self._everyone)
        return found

    def rank_cuts(self, boxes: Boxes, smallest: int) -> tuple[FloatArray, CodeArray]:
        """Return (n, d) scores of a cut on each attribute by sizes alone, 0 if there is none, and (n, d) its place."""
        score, cut = np.zeros(boxes.lo.shape), np.full(boxes.lo.shape, -1, dtype=np.int32)
        self._run(kernels.rank_cuts, boxes, self._note_nodes, smallest, score)
        if (self.trees.low_end >= 0).any():
            self._run(kernels.rank_range_cuts, boxes, self._note_nodes, smallest, score, cut)
        return score, cut

    def parts(self, boxes: Boxes, attribute: CodeArray, cut: CodeArray) -> Parts:
        """Number the parts of a cut of each box, and mark every item with its part."""
        n_parts = np.empty(boxes.n, dtype=np.int64)
        self._run(kernels.number_parts, boxes, self._note_nodes, attribute, cut, n_parts)
        return Parts(attribute, cut, np.concatenate([[0], np.cumsum(n_parts)]))

    def measure_parts(self, boxes: Boxes, parts: Parts) -> tuple[IntArray, FloatArray]:
        """Return (n_parts,) the records of each part, and its label width on the attribute that is cut."""
        low, high = (np.full(int(parts.first[-1]), end, dtype=np.int32) for end in (2147483647, -1))
        sizes = np.zeros(len(low), dtype=np.int64)
        kernels.measure_parts(self.arrays, boxes, parts.attribute, parts.first, sizes, low, high)
        widths, some = np.zeros(len(low)), high >= 0
        widths[some] = measure_labels(self.trees, parts.attribute[parts.box[some]], low[some], high[some])
        return sizes, widths

    def widths(self, boxes: Boxes, attribute: CodeArray) -> FloatArray:
        """Return (n,) the label width of each box on one attribute."""
        every = np.arange(boxes.n)
        return measure_labels(self.trees, attribute, boxes.low[every, attribute], boxes.high[every, attribute])

    def histograms(
        self,
        boxes: Boxes,
        parts: Parts,
        rows: tuple[IntArray, int],
        requirement: Requirement,
        tallies: dict[int, Tally],
    ) -> ClassHistograms:
        """Return a requirement's histograms of parts; *rows* are the row of each part and the number of rows.

        *tallies* caches counts by column. A requirement without values uses the sizes of any counted column.
        """
        column = 0 if requirement.values is None else _place_of(requirement.values, self._value_columns)
        if column not in tallies:
            row_of, n_rows = rows
            n_values = self._value_widths[column] if self._value_widths else 0
            sizes = np.zeros((n_rows, self.arrays.weights.shape[1]), dtype=np.int64)
            counts = np.zeros((n_rows, n_values), dtype=np.int64)
            kernels.tally_parts(self.arrays, column, boxes, parts.first, row_of, sizes, counts)
            tallies[column] = sizes, counts
        sizes, counts = tallies[column]
        if requirement.people is not None:
            return self._people(boxes, parts, rows, requirement)
        people = None
        if requirement.population is not None:
            people = sizes[:, 1 + _place_of(requirement.population, self._population_columns)]
        return ClassHistograms(sizes[:, 0], None if requirement.values is None else counts, people)

    def _people(
        self, boxes: Boxes, parts: Parts, rows: tuple[IntArray, int], requirement: Requirement
    ) -> ClassHistograms:
        """Return the histograms of the same rows for a requirement that counts people."""
        lengths = boxes.stops - boxes.starts
        box = np.repeat(np.arange(boxes.n), lengths)
        items = np.arange(len(box)) + (boxes.starts - (np.cumsum(lengths) - lengths))[box]
        row = rows[0][parts.first[box] + self.arrays.part[items]]
        counted = row >= 0
        return requirement.histograms_of_people(row[counted], self.arrays.cells[items[counted]], rows[1])

    def people_within(self, boxes: Boxes, population: IntArray) -> IntArray:
        return boxes.sizes[:, 1 + _place_of(population, self._population_columns)]

    def split(self, boxes: Boxes, parts: Parts, piece: CodeArray) -> tuple[IntArray, IntArray]:
        """Reorder the items of boxes by pieces, which consist of parts; return the starts and stops of pieces.

        Each box has as many pieces as parts; unused pieces are empty.
        """
        ends = np.empty(int(parts.first[-1]), dtype=np.int64)

        def work(part: slice) -> None:
            first = parts.first[part.start : part.stop + 1]
            following = np.empty(int(np.diff(first).max()) + 1, dtype=np.int64)
            kernels.partition(self.arrays, boxes.take(part), first, piece, ends, following)

        self.in_chunks(boxes, work)
        starts = np.append(0, ends[:-1])
        starts[parts.first[:-1]] = boxes.starts
        return starts, ends

    def _run(self, kernel: Callable[..., None], boxes: Boxes, *arguments: Any) -> None:
        """Run a kernel on runs of boxes in threads; arrays are sliced by run, and callables create scratch space."""

        def work(run: slice) -> None:
            own = (one[run] if isinstance(one, np.ndarray) else one() if callable(one) else one for one in arguments)
            kernel(self.arrays, self.trees, boxes.take(run), *own)

        self.in_chunks(boxes, work)

    def in_chunks(self, boxes: Boxes, work: Callable[[slice], None], costs: IntArray | None = None) -> None:
        """Run *work* in threads on runs of boxes with similar numbers of items and, if given, similar *costs*."""
        if not boxes.n:
            return
        edges = [np.array([0, boxes.n])]
        for cost, most in ((boxes.stops - boxes.starts, _ITEMS_PER_CHUNK), (costs, 1 << 21)):
            if cost is not None:
                filled = np.cumsum(cost)
                edges.append(np.searchsorted(filled, np.arange(most, int(filled[-1]), most)) + 1)
        parts = [slice(int(a), int(b)) for a, b in pairwise(np.unique(np.concatenate(edges)))]
        if len(parts) == 1:
            work(parts[0])
        else:
            for _ in self._pool.map(work, parts):
                pass


def _measure_entropy(problem: Problem, place: int) -> FloatArray:
    """Return (n_nodes,) the entropy of the records of each node in bits, times the attribute's weight.

    Values are distinguished by the bins of marginals; the width of labels adds a little for differences within bins.
    """
    attribute, codes = problem.quasi[place], problem.quasi_codes[place]
    tree, n_leaves = attribute.taxonomy, attribute.taxonomy.n_leaves
    records = sum_weights(codes, problem.cells.counts.astype(np.float64), n_leaves)
    edges, below = find_edges(tree, records), np.concatenate([[0.0], np.cumsum(records)])
    lo, hi = tree.lo[n_leaves:, np.newaxis], tree.hi[n_leaves:, np.newaxis]
    inside = below[np.clip(edges[1:], lo, hi)] - below[np.clip(edges[:-1], lo, hi)]  # (n_inner, n_bins)
    share = inside / np.maximum(inside.sum(axis=1, keepdims=True), 1.0)
    bits = -(share * np.log2(np.where(share > 0.0, share, 1.0))).sum(axis=1)
    fine = _WITHIN_BINS * relative_widths(tree, tree.lo, tree.hi)
    return np.asarray(attribute.weight * (np.append(np.zeros(n_leaves), bits) + fine))


def _stack(columns: Sequence[AnyIntArray], n: int, dtype: Any) -> Any:
    """Return columns as a row-major (n, n_columns) array."""
    out = np.empty((n, len(columns)), dtype=dtype)
    for place, column in enumerate(columns):
        out[:, place] = column
    return out


def _distinct_columns(columns: Sequence[AnyIntArray | None]) -> list[AnyIntArray]:
    """Return the distinct array objects among columns."""
    return list({id(column): column for column in columns if column is not None}.values())


def _place_of(column: AnyIntArray, columns: list[AnyIntArray]) -> int:
    return next(i for i, other in enumerate(columns) if other is column)

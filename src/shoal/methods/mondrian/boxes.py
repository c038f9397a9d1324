"""The items of Mondrian, one for each cell, the boxes they lie in, and the compiled loops over them.

A box is a contiguous range of items. Chunks of boxes run in threads; each box is handled alone, so the number of
threads does not change the result.
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
_WITHIN_BINS = 1e-3  # bits that the width of a whole domain counts

Tally = tuple[IntArray, IntArray]  # (n, w) records and people; (n, n_values) records of each value


@dataclass(slots=True, eq=False)
class Parts:
    """The parts into which one cut sorts the items of each of some boxes; box b has parts ``first[b]:first[b + 1]``."""

    attribute: CodeArray  # (n,)
    cut: CodeArray  # (n,) where a range is cut
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
        self._everyone = bool(self._population_columns)  # labels cover the population, too
        counted = [problem.cells.counts, *self._population_columns]
        most = max(int(column.max(initial=0)) for column in counted)
        weights = _stack(counted, n, np.int32 if most < 1 << 31 else np.int64)
        values = _stack(self._value_columns, n, np.int32)
        cells = np.arange(n, dtype=np.int32)
        self.arrays = kernels.Items(codes, weights, values, cells, np.zeros(n, dtype=np.int32))

    @property
    def widest(self) -> int:
        """The number of values of the requirement that has most of them."""
        return max(self._value_widths, default=1)

    def close(self) -> None:
        self._pool.shutdown()

    def boxes(self, starts: IntArray, stops: IntArray, barred: BoolArray) -> Boxes:
        """Return ranges of items as boxes, labelled."""
        low, high, lo, hi = (np.zeros(barred.shape, dtype=np.int32) for _ in range(4))
        sizes = np.empty((len(starts), self.arrays.weights.shape[1]), dtype=np.int64)
        found = Boxes(starts, stops, barred, low, high, lo, hi, sizes)
        self._run(kernels.label_boxes, found, self._everyone)
        return found

    def rank_cuts(self, boxes: Boxes, smallest: int) -> tuple[FloatArray, CodeArray]:
        """Return (n, d) how good a cut on each attribute would be by sizes alone, 0 if there is none, and its place."""
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
        """Return (n_parts,) the records of each part, and the width that it publishes on the attribute that is cut."""
        low, high = (np.full(int(parts.first[-1]), end, dtype=np.int32) for end in (2147483647, -1))
        sizes = np.zeros(len(low), dtype=np.int64)
        kernels.measure_parts(self.arrays, boxes, parts.attribute, parts.first, sizes, low, high)
        widths, some = np.zeros(len(low)), high >= 0
        widths[some] = measure_labels(self.trees, parts.attribute[parts.box[some]], low[some], high[some])
        return sizes, widths

    def widths(self, boxes: Boxes, attribute: CodeArray) -> FloatArray:
        """Return (n,) the width of what boxes publish on one attribute each."""
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
        """Return what a requirement sees of parts, or of several together: *rows* are those of parts, and how many.

        *tallies* keeps what is counted already. A requirement that sees no values takes the sizes of whatever
        column is, or must be, counted anyway.
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
        """Return what a requirement that counts people sees of the same rows."""
        lengths = boxes.stops - boxes.starts
        box = np.repeat(np.arange(boxes.n), lengths)
        items = np.arange(len(box)) + (boxes.starts - (np.cumsum(lengths) - lengths))[box]
        row = rows[0][parts.first[box] + self.arrays.part[items]]
        counted = row >= 0
        return requirement.histograms_of_people(row[counted], self.arrays.cells[items[counted]], rows[1])

    def people_within(self, boxes: Boxes, population: IntArray) -> IntArray:
        """Return (n,) the people of a population within boxes."""
        return boxes.sizes[:, 1 + _place_of(population, self._population_columns)]

    def split(self, boxes: Boxes, parts: Parts, piece: CodeArray) -> tuple[IntArray, IntArray]:
        """Move the items of boxes so that pieces, each some parts, lie together; return all starts and stops.

        There are as many for each box as it has parts; those that are not needed are empty.
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
        """Run a compiled loop on runs of boxes, in threads, with their entries of arrays and what is made for each."""

        def work(run: slice) -> None:
            own = (one[run] if isinstance(one, np.ndarray) else one() if callable(one) else one for one in arguments)
            kernel(self.arrays, self.trees, boxes.take(run), *own)

        self.in_chunks(boxes, work)

    def in_chunks(self, boxes: Boxes, work: Callable[[slice], None], costs: IntArray | None = None) -> None:
        """Run *work* on runs of boxes with similar numbers of items, in threads; *costs* bounds a run further."""
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
    """Return (n_nodes,) the bits that a node leaves open about a record of the table, times the attribute's weight.

    Values are told apart as far as marginals are; beyond that the width of labels counts a little.
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
    """Return (n, n_columns) in the order of rows."""
    out = np.empty((n, len(columns)), dtype=dtype)
    for place, column in enumerate(columns):
        out[:, place] = column
    return out


def _distinct_columns(columns: Sequence[AnyIntArray | None]) -> list[AnyIntArray]:
    """Return the different arrays among columns; the same values in two arrays count as different."""
    return list({id(column): column for column in columns if column is not None}.values())


def _place_of(column: AnyIntArray, columns: list[AnyIntArray]) -> int:
    return next(i for i, other in enumerate(columns) if other is column)

"""The items of Mondrian, a cell or a piece of one each, and the compiled loops over them.

A box is a contiguous range of items. Chunks of boxes run in threads; each box is handled alone, so the number of
threads does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.methods.mondrian import kernels as kernels
from shoal.methods.mondrian import sides as sides
from shoal.models.base import ClassHistograms
from shoal.problem import Attribute, Problem, Requirement

_ITEMS_PER_CHUNK = 1 << 17

Tally = tuple[IntArray, IntArray]  # (2n, w) records and people; (2n, n_values) records of each value


@dataclass(slots=True, eq=False)
class Boxes:
    """Boxes that are ranges of items, with the edges that cuts gave them."""

    starts: IntArray  # (n,)
    stops: IntArray  # (n,)
    lo: CodeArray  # (n, d)
    hi: CodeArray  # (n, d) exclusive

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, which: AnyIntArray | BoolArray) -> Boxes:
        """Return some of them."""
        return Boxes(self.starts[which], self.stops[which], self.lo[which], self.hi[which])

    @staticmethod
    def joined(parts: list[Boxes]) -> Boxes:
        """Return all of several."""
        return Boxes(
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            np.concatenate([part.lo for part in parts]),
            np.concatenate([part.hi for part in parts]),
        )


@dataclass(slots=True, eq=False)
class Extents:
    """What occurs within boxes."""

    low: CodeArray  # (n, d)
    high: CodeArray  # (n, d) inclusive
    sizes: IntArray  # (n, w) records, then populations

    def take(self, which: AnyIntArray | BoolArray) -> Extents:
        """Return those of some boxes."""
        return Extents(self.low[which], self.high[which], self.sizes[which])

    def put(self, which: AnyIntArray, other: Extents) -> None:
        """Replace those of some boxes."""
        self.low[which], self.high[which], self.sizes[which] = other.low, other.high, other.sizes


@dataclass(slots=True, eq=False)
class Cuts:
    """One cut for each of some boxes, or with a second axis several to try, best first."""

    attribute: CodeArray  # (n,) or (n, p); -1 is none
    cut: CodeArray  # codes up to this go left
    extra: IntArray  # relaxed: records of the next code that go left too

    @classmethod
    def none(cls, n_boxes: int, n_proposals: int) -> Cuts:
        """No proposals yet."""
        shape = (n_boxes, n_proposals)
        return cls(np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int64))

    def pick(self, boxes: AnyIntArray, proposals: AnyIntArray | int) -> Cuts:
        """Return one proposal of each of some boxes."""
        where = (boxes, proposals)
        return Cuts(self.attribute[where], self.cut[where], self.extra[where])

    def put(self, boxes: AnyIntArray, other: Cuts) -> None:
        """Replace the proposals of some boxes."""
        self.attribute[boxes], self.cut[boxes], self.extra[boxes] = other.attribute, other.cut, other.extra

    def followed_by(self, other: Cuts) -> Cuts:
        """Return the proposals of both, these first."""
        return Cuts(
            np.concatenate([self.attribute, other.attribute], axis=1),
            np.concatenate([self.cut, other.cut], axis=1),
            np.concatenate([self.extra, other.extra], axis=1),
        )

    def part(self, boxes: slice) -> Cuts:
        """Return those of a run of boxes."""
        return Cuts(self.attribute[boxes], self.cut[boxes], self.extra[boxes])


class Items:
    """Codes, counts and values of all items, in the order of their boxes."""

    def __init__(self, problem: Problem, relaxed: bool, rng: np.random.Generator) -> None:
        self.cells, counts = _pieces(problem, relaxed, rng)  # (n_items,) the cell of each
        self.place = _places(problem.quasi)  # (d, max_leaves)
        self.full = np.array([attribute.weight for attribute in problem.quasi])  # (d,) the width of a whole domain
        self._edges = _edges(problem.quasi)
        self._pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
        leaves = max(attribute.taxonomy.n_leaves for attribute in problem.quasi)
        self._codes = np.empty((len(counts), len(problem.quasi)), dtype=np.uint16 if leaves <= 1 << 16 else np.int32)
        for j, column in enumerate(problem.quasi_codes):
            self._codes[:, j] = column[self.cells] if relaxed else column
        self._value_columns = _distinct_columns(problem, "values")
        self._value_widths = [_width_of(column, problem) for column in self._value_columns]
        self._values = np.empty((len(counts), len(self._value_columns)), dtype=np.int32)
        for s, column in enumerate(self._value_columns):
            self._values[:, s] = column[self.cells] if relaxed else column
        self._population_columns = _distinct_columns(problem, "population")
        self._weights = np.empty((len(counts), 1 + len(self._population_columns)), dtype=np.int64)
        self._weights[:, 0] = counts
        for w, column in enumerate(self._population_columns):
            self._weights[:, 1 + w] = column[self.cells]
        self._side = np.zeros(len(counts), dtype=np.uint8)

    @property
    def n_attributes(self) -> int:
        """Number of quasi attributes."""
        return self._codes.shape[1]

    @property
    def records(self) -> IntArray:
        """(n_items,) the records of each item; none for an item that only a population has."""
        return self._weights[:, 0]

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def extents(self, boxes: Boxes) -> Extents:
        """Return what occurs within each box."""
        n, d = len(boxes), self._codes.shape[1]
        within = Extents(
            np.empty((n, d), dtype=np.int32),
            np.empty((n, d), dtype=np.int32),
            np.empty((n, self._weights.shape[1]), dtype=np.int64),
        )

        def work(part: slice) -> None:
            kernels.extents(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        return within

    def best_cuts(self, boxes: Boxes, within: Extents, smallest: int) -> Cuts:
        """Return up to 2d strict cuts to try for each box, of all that there are."""
        cuts = Cuts.none(len(boxes), 2 * self.n_attributes)

        def work(part: slice) -> None:
            kernels.best_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self.place, smallest, cuts.attribute[part], cuts.cut[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        return cuts

    def median_cuts(self, boxes: Boxes, within: Extents, smallest: int, wanted: int) -> Cuts:
        """Return the most even strict cuts of up to *wanted* attributes for each box."""
        cuts = Cuts.none(len(boxes), 2 * self.n_attributes)

        def work(part: slice) -> None:
            kernels.median_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self.place, smallest, wanted, cuts.attribute[part],
                cuts.cut[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        return cuts

    def relaxed_cuts(self, boxes: Boxes, within: Extents) -> Cuts:
        """Return d cuts that halve each box."""
        cuts = Cuts.none(len(boxes), self.n_attributes)

        def work(part: slice) -> None:
            kernels.relaxed_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self.place, cuts.attribute[part], cuts.cut[part],
                cuts.extra[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        return cuts

    def shedding_cuts(
        self, boxes: Boxes, labels: tuple[CodeArray, CodeArray], boxed: BoolArray
    ) -> tuple[Cuts, CodeArray, FloatArray]:
        """Return 2d cuts for each box of which one side would be withheld, that side, and the gain.

        *labels* are the published ranges and *boxed* the attributes whose ranges only cuts move.
        """
        cuts = Cuts.none(len(boxes), 2 * self.n_attributes)
        sheds, gain = np.zeros_like(cuts.cut), np.zeros(cuts.cut.shape)
        within = self.extents(boxes)
        low, high = labels[0], labels[1] - 1

        def work(part: slice) -> None:
            kernels.shed_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self.place, self.full, self._edges, boxed, low[part],
                high[part], cuts.attribute[part], cuts.cut[part], sheds[part], gain[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        return cuts, sheds, gain

    def histograms(
        self, boxes: Boxes, cuts: Cuts, requirement: Requirement, tallies: dict[int, Tally]
    ) -> ClassHistograms:
        """Return what a requirement sees of both sides of each box: rows 2n and 2n + 1.

        *tallies* keeps what is counted already. A requirement that sees no values takes the sizes of whatever
        column is, or must be, counted anyway.
        """
        column = 0 if requirement.values is None else _place_of(requirement.values, self._value_columns)
        if column not in tallies:
            tallies[column] = self.tally(boxes, cuts, column)
        sizes, counts = tallies[column]
        if requirement.people is not None:
            return self._people(boxes, requirement)
        people = None
        if requirement.population is not None:
            people = sizes[:, 1 + _place_of(requirement.population, self._population_columns)]
        return ClassHistograms(sizes[:, 0], None if requirement.values is None else counts, people)

    def _people(self, boxes: Boxes, requirement: Requirement) -> ClassHistograms:
        """Return what a requirement that counts people sees of both sides of each box, which are marked already."""
        lengths = boxes.stops - boxes.starts
        node = np.repeat(np.arange(len(boxes)), lengths)
        items = np.arange(len(node)) + (boxes.starts - (np.cumsum(lengths) - lengths))[node]
        return requirement.histograms_of_people(2 * node + self._side[items], self.cells[items], 2 * len(boxes))

    def tally(self, boxes: Boxes, cuts: Cuts, column: int = 0) -> Tally:
        """Mark the side of each item and count both: records and people, and values of one column."""
        n_values = self._value_widths[column] if self._value_widths else 0
        sizes = np.zeros((2 * len(boxes), self._weights.shape[1]), dtype=np.int64)
        counts = np.zeros((2 * len(boxes), n_values), dtype=np.int64)
        sides.tally_sides(
            self._codes, self._weights, self._values, column, boxes.starts, boxes.stops, cuts.attribute, cuts.cut,
            cuts.extra, self._side, sizes, counts,
        )  # fmt: skip
        return sizes, counts

    def people_within(self, within: Extents, requirement: Requirement) -> IntArray:
        """Return (n,) the population of a requirement within boxes."""
        if requirement.population is None:
            raise TypeError("the requirement looks at no population")
        return within.sizes[:, 1 + _place_of(requirement.population, self._population_columns)]

    def inherited(self, within: Extents, cuts: Cuts, halves: Boxes, exact_below: int) -> Extents:
        """Return the extents of both sides of cuts: exact for small boxes, for large ones those of the box before.

        Large boxes need them only to rank attributes, and passing over all items once less is worth it.
        """
        rows = np.arange(len(cuts.cut))
        left_high, right_low = within.high.copy(), within.low.copy()
        left_high[rows, cuts.attribute] = cuts.cut + (cuts.extra > 0)
        right_low[rows, cuts.attribute] = cuts.cut + 1
        found = Extents(
            np.concatenate([within.low, right_low]),
            np.concatenate([left_high, within.high]),
            np.empty((len(halves), self._weights.shape[1]), dtype=np.int64),
        )

        def work(part: slice) -> None:
            kernels.totals(self._weights, halves.starts[part], halves.stops[part], found.sizes[part])

        self.in_chunks(halves, work)
        small = np.flatnonzero(halves.stops - halves.starts <= exact_below)
        if len(small):
            found.put(small, self.extents(halves.take(small)))
        return found

    def split(self, boxes: Boxes, cuts: Cuts) -> Boxes:
        """Carry out the cuts by which the boxes were last tallied; return all left, then all right sides."""
        if not len(boxes):
            return boxes
        middles = np.empty(len(boxes), dtype=np.int64)

        def work(part: slice) -> None:
            sides.partition(
                self._codes, self._weights, self._values, self.cells, self._side, boxes.starts[part],
                boxes.stops[part], middles[part],
            )  # fmt: skip

        self.in_chunks(boxes, work)
        rows = np.arange(len(boxes))
        left_hi, right_lo = boxes.hi.copy(), boxes.lo.copy()
        left_hi[rows, cuts.attribute] = cuts.cut + 1 + (cuts.extra > 0)
        right_lo[rows, cuts.attribute] = cuts.cut + 1
        return Boxes.joined(
            [
                Boxes(boxes.starts, middles, boxes.lo, left_hi),
                Boxes(middles, boxes.stops, right_lo, boxes.hi),
            ]
        )

    def in_chunks(self, boxes: Boxes, work: Callable[[slice], None], most: int | None = None) -> None:
        """Run *work* on runs of boxes with similar numbers of items, in threads."""
        if not len(boxes):
            return
        filled = np.cumsum(boxes.stops - boxes.starts)
        marks = np.searchsorted(filled, np.arange(_ITEMS_PER_CHUNK, int(filled[-1]), _ITEMS_PER_CHUNK)) + 1
        edges = np.unique(np.concatenate([[0], marks, [len(boxes)]]))
        if most is not None:
            edges = np.unique(np.concatenate([edges, np.arange(0, len(boxes), most)]))
        parts = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        if len(parts) == 1:
            work(parts[0])
        else:
            for _ in self._pool.map(work, parts):
                pass


def _pieces(problem: Problem, relaxed: bool, rng: np.random.Generator) -> tuple[CodeArray, IntArray]:
    """Return the items to begin with: a cell each, or for relaxed cuts pieces of cells in random order."""
    counts = problem.cells.counts
    if not relaxed:
        return np.arange(len(counts), dtype=np.int32), counts.copy()
    grain = max(problem.smallest_class // 4, 1)
    parts = np.maximum((counts + grain - 1) // grain, 1)
    cells = np.repeat(np.arange(len(counts), dtype=np.int32), parts)
    pieces = np.full(len(cells), grain, dtype=np.int64)
    last = np.cumsum(parts) - 1
    pieces[last] = counts - (parts - 1) * grain
    order = rng.permutation(len(cells))
    return cells[order], pieces[order]


def _distinct_columns(problem: Problem, what: str) -> list[AnyIntArray]:
    columns: list[AnyIntArray] = []
    for requirement in problem.requirements:
        column = getattr(requirement, what)
        if column is not None and not any(column is other for other in columns):
            columns.append(column)
    return columns


def _place_of(column: AnyIntArray, columns: list[AnyIntArray]) -> int:
    return next(i for i, other in enumerate(columns) if other is column)


def _width_of(column: AnyIntArray, problem: Problem) -> int:
    return next(r.n_values for r in problem.requirements if r.values is column)


def _places(quasi: tuple[Attribute, ...]) -> FloatArray:
    """Return (d, max_leaves) where each leaf stands, from 0 to the attribute's weight; missing stands apart."""
    place = np.zeros((len(quasi), max(attribute.taxonomy.n_leaves for attribute in quasi)))
    for j, attribute in enumerate(quasi):
        taxonomy = attribute.taxonomy
        leaves = taxonomy.n_leaves - (taxonomy.missing is not None)
        line = taxonomy.positions
        at = np.arange(leaves, dtype=np.float64) if line is None else np.asarray(line[:leaves], dtype=np.float64)
        spread = at[-1] - at[0] if leaves > 1 else 1.0
        place[j, :leaves] = (at - at[0]) / spread * attribute.weight
        place[j, leaves : taxonomy.n_leaves] = 2 * attribute.weight
    return place


def _edges(quasi: tuple[Attribute, ...]) -> tuple[CodeArray, CodeArray]:
    """Return (d, max_leaves) the last cut below each leaf, or -1, and the first not below it, or max_leaves.

    A cut bears the number of the leaf before it. Of numbers and dates only those count that are edges of groups of
    the taxonomy, whatever the data are.
    """
    most = max(attribute.taxonomy.n_leaves for attribute in quasi)
    below = np.full((len(quasi), most), -1, dtype=np.int32)
    above = np.full((len(quasi), most), most, dtype=np.int32)
    for j, attribute in enumerate(quasi):
        taxonomy = attribute.taxonomy
        n = taxonomy.n_leaves
        edges = np.ones(n, dtype=np.bool_)
        if taxonomy.positions is not None:
            groups = slice(n, None)
            before = np.concatenate([taxonomy.lo[groups], taxonomy.hi[groups]]) - 1
            edges[:] = False
            edges[before[before >= 0]] = True
            if taxonomy.missing is not None:
                edges[taxonomy.missing - 1] = True
        number = np.arange(n)
        below[j, 1:n] = np.maximum.accumulate(np.where(edges, number, -1))[:-1]
        above[j, :n] = np.minimum.accumulate(np.where(edges, number, most)[::-1])[::-1]
    return below, above

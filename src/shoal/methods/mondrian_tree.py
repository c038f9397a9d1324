"""The growing of Mondrian's boxes, level by level.

All boxes of one level are handled together: compiled loops propose cuts and count both sides, the models judge
all sides at once. So a model stays a few lines of NumPy and still millions of boxes are fast. Chunks of boxes run
in threads; each box is handled alone, so the number of threads does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.errors import UnreachableError
from shoal.methods import mondrian_kernels as kernels
from shoal.models.base import ClassHistograms
from shoal.plan import WITHHELD, Plan
from shoal.problem import Attribute, Problem, Requirement
from shoal.progress import Step
from shoal.taxonomies.tree import Taxonomy

_HISTOGRAM_ENTRIES = 1 << 21  # of one block of boxes
_ITEMS_PER_CHUNK = 1 << 17
_MOST_NAMED = 12  # categories in one label

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


class MondrianTree:
    """Items and the boxes around them."""

    def __init__(self, problem: Problem, relaxed: bool, search_below: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._relaxed = relaxed
        self._search_below = search_below
        self._smallest = problem.smallest_class
        self._pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
        cells = _pieces(problem, relaxed, rng)
        self._cells, counts = cells
        leaves = max(attribute.taxonomy.n_leaves for attribute in problem.quasi)
        self._codes = np.empty((len(counts), len(problem.quasi)), dtype=np.uint16 if leaves <= 1 << 16 else np.int32)
        for j, column in enumerate(problem.quasi_codes):
            self._codes[:, j] = column[self._cells]
        self._value_columns = _distinct_columns(problem, "values")
        self._value_widths = [_width_of(column, problem) for column in self._value_columns]
        self._population_columns = _distinct_columns(problem, "population")
        self._values = np.empty((len(counts), len(self._value_columns)), dtype=np.int32)
        for s, column in enumerate(self._value_columns):
            self._values[:, s] = column[self._cells]
        self._weights = np.empty((len(counts), 1 + len(self._population_columns)), dtype=np.int64)
        self._weights[:, 0] = counts
        for w, column in enumerate(self._population_columns):
            self._weights[:, 1 + w] = column[self._cells]
        self._side = np.zeros(len(counts), dtype=np.uint8)
        self._place = _places(problem.quasi)
        self._withheld: list[tuple[int, int]] = []
        self._wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        self._open = Boxes(
            np.zeros(1, dtype=np.int64),
            np.array([len(counts)], dtype=np.int64),
            np.zeros((1, len(problem.quasi)), dtype=np.int32),
            np.array([[attribute.taxonomy.n_leaves for attribute in problem.quasi]], dtype=np.int32),
        )
        self._closed: list[Boxes] = []
        self._check_root()

    def __enter__(self) -> MondrianTree:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown()

    def grow(self, step: Step) -> None:
        """Cut open boxes until none can be cut."""
        while len(self._open):
            boxes = self._open
            within = self._extents(boxes)
            large = within.sizes[:, 0] >= 2 * self._smallest
            self._close(boxes.take(~large), step)
            boxes = boxes.take(large)
            if not len(boxes):
                self._open = boxes
                break
            within = within.take(large)
            attribute, cut, extra = self._propose(boxes, within)
            choice = self._first_that_holds(boxes, attribute, cut, extra)
            uncut = choice < 0
            self._close(boxes.take(uncut), step)
            cutting = np.flatnonzero(~uncut)
            picked = choice[cutting]
            self._open = self._split(
                boxes.take(cutting), attribute[cutting, picked], cut[cutting, picked], extra[cutting, picked]
            )

    def shed(self, most: int, step: Step) -> None:
        """Withhold up to *most* records where that narrows the rest the most, and cut on.

        The order of steps does not depend on *most*, and the first that does not fit ends it: a larger budget
        never gives a wider table.
        """
        lost = float(self._place.max(axis=1).sum())
        while True:
            boxes = Boxes.joined(self._closed)
            attribute, cut, sheds, gain = self._propose_shedding(boxes, most, lost)
            choice, records = self._first_worth_keeping(boxes, attribute, cut, sheds)
            candidates = np.flatnonzero(choice >= 0)
            if not len(candidates):
                return
            picked = choice[candidates]
            order = np.lexsort((candidates, -gain[candidates, picked]))
            candidates, picked = candidates[order], picked[order]
            shed_records = records[candidates]
            affordable = np.cumsum(shed_records) <= most
            taken, picked = candidates[affordable], picked[affordable]
            if not len(taken):
                return
            most -= int(shed_records[affordable].sum())
            rest = np.ones(len(boxes), dtype=np.bool_)
            rest[taken] = False
            self._closed = [boxes.take(rest)]
            halves = self._split(
                boxes.take(taken),
                attribute[taken, picked],
                cut[taken, picked],
                np.zeros(len(taken), dtype=np.int64),
            )
            # _split lists all left sides, then all right sides
            goes = np.concatenate([sheds[taken, picked] == 0, sheds[taken, picked] == 1])
            gone = halves.take(goes)
            self._withheld.extend(zip(gone.starts.tolist(), gone.stops.tolist(), strict=True))
            self._open = halves.take(~goes)
            self.grow(step)
            if not affordable.all():
                return

    def keeps_promises(self) -> bool:
        """Whether every class still holds against the table that is left after withholding."""
        counts = self._weights[:, 0].copy()
        for start, stop in self._withheld:
            counts[start:stop] = 0
        left = np.bincount(self._cells, weights=counts, minlength=self._problem.cells.n_cells).astype(np.int64)
        self._wholes = [requirement.whole(left) for requirement in self._problem.requirements]
        boxes = Boxes.joined(self._closed)
        self._side[:] = 0
        return bool(self._sides_hold(boxes)[:, 0].all())

    def plan(self) -> Plan:
        """Return the closed boxes as classes."""
        boxes = Boxes.joined(self._closed)
        within = self._extents(boxes)
        lo, hi = self._published(boxes, within)
        classes = np.full(len(self._cells), WITHHELD, dtype=np.int32)
        order = np.argsort(boxes.starts)
        lengths = (boxes.stops - boxes.starts)[order]
        inside = np.ones(len(self._cells), dtype=np.bool_)
        for start, stop in self._withheld:
            inside[start:stop] = False
        classes[inside] = np.repeat(order.astype(np.int32), lengths)
        real = self._weights[:, 0] > 0
        population = {
            r.population_name: within.sizes[:, 1 + _place_of(r.population, self._population_columns)]
            for r in self._problem.requirements
            if r.population is not None
        }
        n_cells = self._problem.cells.n_cells
        if self._relaxed:
            pieces = (self._cells[real], classes[real], self._weights[real, 0])
            return Plan.of_pieces(lo, hi, n_cells, *pieces, population)
        class_of = np.full(n_cells, WITHHELD, dtype=np.int32)
        class_of[self._cells[real]] = classes[real]
        return Plan.of_cells(lo, hi, class_of, self._problem.cells.counts, population)

    def explain_if_whole(self) -> None:
        """Refuse a table that became one single class because a model compares classes with the whole.

        Such a model always holds for the whole itself, so this is how a requirement that is too strong for any
        cut shows; say what the weakest cut would need.
        """
        boxes = Boxes.joined(self._closed)
        relative = [i for i, r in enumerate(self._problem.requirements) if r.model.relative_to_whole]
        if len(boxes) > 1 or not relative:
            return
        within = self._extents(boxes)
        attribute, cut, extra = self._propose(boxes, within)
        cuts = np.flatnonzero(attribute[0] >= 0)
        if not len(cuts):
            return
        reachable = dict.fromkeys(relative, np.inf)
        blocking = set(relative)
        for choice in cuts:
            self._mark(boxes, attribute[:, choice], cut[:, choice], extra[:, choice])
            tallies: dict[int, Tally] = {}
            for i in relative:
                requirement, whole = self._problem.requirements[i], self._wholes[i]
                sides = self._histograms(boxes, requirement, tallies)
                reachable[i] = min(reachable[i], requirement.model.worst(sides, whole))
                if requirement.model.holds(sides, whole).all():
                    blocking.discard(i)
        for i in sorted(blocking):
            subject = self._problem.requirements[i].model.subject
            raise UnreachableError(
                f"{subject} leaves no cut: it is met only by one class in which every quasi attribute is fully "
                f"generalized; the best first cut reaches {reachable[i]:.6g}, so ask for at least that"
            )

    def _check_root(self) -> None:
        for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
            reason = requirement.model.why_unreachable(whole)
            if reason is None and not bool(requirement.model.holds(whole.as_class(), whole)[0]):
                reached = requirement.model.worst(whole.as_class(), whole)
                reason = f"{requirement.model.subject}: the whole table as one class has {reached:.6g}"
            if reason is not None:
                raise UnreachableError(reason)

    def _close(self, boxes: Boxes, step: Step) -> None:
        if len(boxes):
            self._closed.append(boxes)
            step.advance(int((boxes.stops - boxes.starts).sum()))

    def _extents(self, boxes: Boxes) -> Extents:
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

        self._in_chunks(boxes, work)
        return within

    def _propose(self, boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray, IntArray]:
        """Return (n, 3d) the cuts to try, best first; -1 is none. Relaxed cuts come after all strict ones."""
        d = self._codes.shape[1]
        shape = (len(boxes), 3 * d if self._relaxed else 2 * d)
        attribute = np.full(shape, -1, dtype=np.int32)
        cut = np.zeros(shape, dtype=np.int32)
        extra = np.zeros(shape, dtype=np.int64)
        small = boxes.stops - boxes.starts <= self._search_below
        for which, kernel in (
            (np.flatnonzero(small), kernels.best_cuts),
            (np.flatnonzero(~small), kernels.median_cuts),
        ):
            if len(which):
                strict = self._proposed(kernel, boxes.take(which), within.take(which))
                attribute[which, : 2 * d], cut[which, : 2 * d] = strict
        if self._relaxed:
            halves = self._halved(boxes, within)
            attribute[:, 2 * d :], cut[:, 2 * d :], extra[:, 2 * d :] = halves
        return attribute, cut, extra

    def _proposed(self, kernel: Callable[..., None], boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray]:
        attribute = np.full((len(boxes), 2 * self._codes.shape[1]), -1, dtype=np.int32)
        cut = np.zeros_like(attribute)

        def work(part: slice) -> None:
            kernel(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self._place, self._smallest, attribute[part], cut[part],
            )  # fmt: skip

        self._in_chunks(boxes, work)
        return attribute, cut

    def _halved(self, boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray, IntArray]:
        attribute = np.full((len(boxes), self._codes.shape[1]), -1, dtype=np.int32)
        cut = np.zeros_like(attribute)
        extra = np.zeros(attribute.shape, dtype=np.int64)

        def work(part: slice) -> None:
            kernels.relaxed_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self._place, attribute[part], cut[part], extra[part],
            )  # fmt: skip

        self._in_chunks(boxes, work)
        return attribute, cut, extra

    def _propose_shedding(
        self, boxes: Boxes, most: int, lost: float
    ) -> tuple[CodeArray, CodeArray, CodeArray, FloatArray]:
        shape = (len(boxes), 2 * self._codes.shape[1])
        attribute = np.full(shape, -1, dtype=np.int32)
        cut, sheds = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        gain = np.zeros(shape)
        within = self._extents(boxes)

        def work(part: slice) -> None:
            kernels.shed_cuts(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], within.low[part],
                within.high[part], within.sizes[part], self._place, most, lost, attribute[part], cut[part],
                sheds[part], gain[part],
            )  # fmt: skip

        self._in_chunks(boxes, work)
        return attribute, cut, sheds, gain

    def _first_that_holds(self, boxes: Boxes, attribute: CodeArray, cut: CodeArray, extra: IntArray) -> CodeArray:
        """Return (n,) the first proposal of each box of which both sides meet all requirements, or -1."""
        return self._first(boxes, attribute, cut, extra, lambda sides, _: sides[:, 0] & sides[:, 1])

    def _first_worth_keeping(
        self, boxes: Boxes, attribute: CodeArray, cut: CodeArray, sheds: CodeArray
    ) -> tuple[CodeArray, IntArray]:
        """Return the first proposal of which the side that stays holds, and the records that would go."""
        nothing = np.zeros(cut.shape, dtype=np.int64)

        def stays(sides: BoolArray, tried: tuple[IntArray, int]) -> BoolArray:
            which, proposal = tried
            return np.asarray(sides[np.arange(len(sides)), 1 - sheds[which, proposal]], dtype=np.bool_)

        choice = self._first(boxes, attribute, cut, nothing, stays)
        records = np.zeros(len(boxes), dtype=np.int64)
        for proposal in range(attribute.shape[1]):
            which = np.flatnonzero(choice == proposal)
            if len(which):
                some = boxes.take(which)
                self._mark(some, attribute[which, proposal], cut[which, proposal], nothing[which, proposal])
                sizes = self._tally(some, 0)[0][:, 0].reshape(-1, 2)
                records[which] = sizes[np.arange(len(which)), sheds[which, proposal]]
        return choice, records

    def _first(
        self,
        boxes: Boxes,
        attribute: CodeArray,
        cut: CodeArray,
        extra: IntArray,
        accepts: Callable[[BoolArray, tuple[IntArray, int]], BoolArray],
    ) -> CodeArray:
        choice = np.full(len(boxes), -1, dtype=np.int32)
        pending = np.arange(len(boxes))
        for proposal in range(attribute.shape[1]):
            pending = pending[choice[pending] < 0]
            tried = pending[attribute[pending, proposal] >= 0]
            if not len(tried):
                continue
            some = boxes.take(tried)
            self._mark(some, attribute[tried, proposal], cut[tried, proposal], extra[tried, proposal])
            accepted = accepts(self._sides_hold(some), (tried, proposal))
            choice[tried[accepted]] = proposal
        return choice

    def _mark(self, boxes: Boxes, attribute: CodeArray, cut: CodeArray, extra: IntArray) -> None:
        """Mark the side of every item of these boxes."""

        def work(part: slice) -> None:
            kernels.choose_sides(
                self._codes, self._weights, boxes.starts[part], boxes.stops[part], attribute[part], cut[part],
                extra[part], self._side,
            )  # fmt: skip

        self._in_chunks(boxes, work)

    def _sides_hold(self, boxes: Boxes) -> BoolArray:
        """Return (n, 2) whether the left and the right side of each marked box meet every requirement."""
        holds = np.ones((len(boxes), 2), dtype=np.bool_)
        widest = max((r.n_values for r in self._problem.requirements), default=1)
        per_block = max(_HISTOGRAM_ENTRIES // (2 * max(widest, 1)), 1)

        def work(part: slice) -> None:
            some = boxes.take(np.arange(part.start, part.stop))
            tallies: dict[int, Tally] = {}
            for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
                sides = self._histograms(some, requirement, tallies)
                holds[part] &= requirement.model.holds(sides, whole).reshape(-1, 2)

        self._in_chunks(boxes, work, per_block)
        return holds

    def _histograms(self, boxes: Boxes, requirement: Requirement, tallies: dict[int, Tally]) -> ClassHistograms:
        """Return what a requirement sees of both sides of each marked box; *tallies* keeps what is counted already.

        A requirement that sees no values takes the sizes of whatever column is, or must be, counted anyway.
        """
        column = 0 if requirement.values is None else _place_of(requirement.values, self._value_columns)
        if column not in tallies:
            tallies[column] = self._tally(boxes, column)
        sizes, counts = tallies[column]
        people = None
        if requirement.population is not None:
            people = sizes[:, 1 + _place_of(requirement.population, self._population_columns)]
        return ClassHistograms(sizes[:, 0], None if requirement.values is None else counts, people)

    def _tally(self, boxes: Boxes, column: int) -> Tally:
        """Count both sides of each marked box, rows 2n and 2n + 1: records and people, and values of one column."""
        n_values = self._value_widths[column] if self._value_widths else 0
        sizes = np.zeros((2 * len(boxes), self._weights.shape[1]), dtype=np.int64)
        counts = np.zeros((2 * len(boxes), n_values), dtype=np.int64)
        kernels.tally_sides(self._weights, self._values, column, boxes.starts, boxes.stops, self._side, sizes, counts)
        return sizes, counts

    def _split(self, boxes: Boxes, attribute: CodeArray, cut: CodeArray, extra: IntArray) -> Boxes:
        """Carry out one cut in each box, by whose marks it was accepted; return all left, then all right sides."""
        if not len(boxes):
            return boxes
        middles = np.empty(len(boxes), dtype=np.int64)

        def work(part: slice) -> None:
            kernels.partition(
                self._codes, self._weights, self._values, self._cells, self._side, boxes.starts[part],
                boxes.stops[part], middles[part],
            )  # fmt: skip

        self._in_chunks(boxes, work)
        rows = np.arange(len(boxes))
        left_hi, right_lo = boxes.hi.copy(), boxes.lo.copy()
        left_hi[rows, attribute] = cut + 1 + (extra > 0)
        right_lo[rows, attribute] = cut + 1
        return Boxes.joined(
            [
                Boxes(boxes.starts, middles, boxes.lo, left_hi),
                Boxes(middles, boxes.stops, right_lo, boxes.hi),
            ]
        )

    def _published(self, boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray]:
        """Return the leaf ranges to publish.

        Numbers and dates publish the edges of cuts and of the declared domain, never the least or greatest value
        that occurs. Categories publish the categories that occur, in tree order. Against a population every
        label is the whole box, so that the labels tile the domain.
        """
        lo, hi = boxes.lo.copy(), boxes.hi.copy()
        for j, attribute in enumerate(self._problem.quasi):
            taxonomy = attribute.taxonomy
            if self._population_columns:
                continue
            if taxonomy.positions is None:
                lo[:, j], hi[:, j] = within.low[:, j], within.high[:, j] + 1
                if taxonomy.scale.kind == "category":
                    lo[:, j], hi[:, j] = _readable(taxonomy, lo[:, j], hi[:, j])
            elif taxonomy.missing is not None:
                present = within.high[:, j] == taxonomy.missing
                only = within.low[:, j] == taxonomy.missing
                hi[:, j] = np.where(present, hi[:, j], np.minimum(hi[:, j], taxonomy.missing))
                lo[:, j] = np.where(only, taxonomy.missing, lo[:, j])
        return lo, hi

    def _in_chunks(self, boxes: Boxes, work: Callable[[slice], None], most: int | None = None) -> None:
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


def _readable(taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray) -> tuple[CodeArray, CodeArray]:
    """Widen ranges that would list more than a handful of categories to the node above them."""
    width = taxonomy.n_leaves + 1
    distinct, which = np.unique(lo.astype(np.int64) * width + hi, return_inverse=True)
    ranges = np.stack([distinct // width, distinct % width], axis=1)
    for place, (low, high) in enumerate(ranges.tolist()):
        if high - low > _MOST_NAMED and len(taxonomy.tiles(low, high)) > _MOST_NAMED:
            node = taxonomy.covering(low, high)
            ranges[place] = taxonomy.lo[node], taxonomy.hi[node]
    wide = ranges[which.reshape(-1)].astype(np.int32)
    return wide[:, 0], wide[:, 1]


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

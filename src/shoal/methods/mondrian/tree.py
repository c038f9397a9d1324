"""The growing of Mondrian's boxes, level by level.

All boxes of one level are handled together: compiled loops propose cuts and count both sides, the models judge
all sides at once. So a model stays a few lines of NumPy and still millions of boxes are fast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.errors import UnreachableError
from shoal.methods.hopeless import refuse_hopeless
from shoal.methods.mondrian.items import Boxes, Cuts, Extents, Items, Tally
from shoal.models.wording import rounded_up
from shoal.plan import WITHHELD, Plan
from shoal.problem import Problem
from shoal.progress import Step

_HISTOGRAM_ENTRIES = 1 << 21  # of one block of boxes


class MondrianTree:
    """Boxes that are still to be cut, and those that are not."""

    def __init__(self, problem: Problem, relaxed: bool, search_below: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._relaxed = relaxed
        self._search_below = search_below
        self._smallest = problem.smallest_class
        self._wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        refuse_hopeless(problem, 0)
        self._items = Items(problem, relaxed, rng)
        self._withheld: list[tuple[int, int]] = []
        lo, hi = problem.bounds
        everything = np.array([len(self._items.cells)], dtype=np.int64)
        self._open = Boxes(np.zeros(1, dtype=np.int64), everything, lo[np.newaxis], hi[np.newaxis])
        self._closed: list[Boxes] = []

    def __enter__(self) -> MondrianTree:
        return self

    def __exit__(self, *exc: object) -> None:
        self._items.close()

    def grow(self, step: Step) -> None:
        """Cut open boxes until none can be cut."""
        boxes, within = self._open, self._items.extents(self._open)
        while True:
            large = within.sizes[:, 0] >= 2 * self._smallest
            self._close(boxes.take(~large), step)
            boxes, within = boxes.take(large), within.take(large)
            if not len(boxes):
                break
            cuts, choice = self._chosen(boxes, within)
            self._close(boxes.take(choice < 0), step)
            cutting = np.flatnonzero(choice >= 0)
            taken, before = cuts.pick(cutting, choice[cutting]), within.take(cutting)
            boxes = self._items.split(boxes.take(cutting), taken)
            within = self._items.inherited(before, taken, boxes, self._search_below)

    def shed(self, most: int, step: Step) -> None:
        """Withhold up to *most* records where that narrows the labels of the rest the most, and cut on.

        The order of steps does not depend on *most*, every step narrows the table by more than the withheld
        records lose, and the first that does not fit ends it: so a larger budget never gives a wider table.
        """
        while True:
            boxes = Boxes.joined(self._closed)
            labels = self._published(boxes, self._items.extents(boxes))
            cuts, sheds, gain = self._items.shedding_cuts(boxes, labels, self._boxed())
            choice, records = self._first_worth_keeping(boxes, cuts, sheds)
            worth = np.flatnonzero(choice >= 0)
            worth = worth[np.lexsort((worth, -gain[worth, choice[worth]]))]
            affordable = np.cumsum(records[worth]) <= most
            taken = worth[affordable]
            if not len(taken):
                return
            most -= int(records[taken].sum())
            self._withhold(boxes, taken, cuts.pick(taken, choice[taken]), sheds[taken, choice[taken]])
            self.grow(step)
            if not affordable.all():
                return

    def _withhold(self, boxes: Boxes, taken: IntArray, cuts: Cuts, sheds: CodeArray) -> None:
        """Carry out one shedding cut in each taken box; the sides that stay are open again."""
        rest = np.ones(len(boxes), dtype=np.bool_)
        rest[taken] = False
        self._closed = [boxes.take(rest)]
        halves = self._items.split(boxes.take(taken), cuts)  # all left sides, then all right sides
        goes = np.concatenate([sheds == 0, sheds == 1])
        gone = halves.take(goes)
        self._withheld.extend(zip(gone.starts.tolist(), gone.stops.tolist(), strict=True))
        self._open = halves.take(~goes)

    def plan(self) -> Plan:
        """Return the closed boxes as classes."""
        boxes = Boxes.joined(self._closed)
        within = self._items.extents(boxes)
        lo, hi = self._published(boxes, within)
        classes = np.full(len(self._items.cells), WITHHELD, dtype=np.int32)
        order = np.argsort(boxes.starts)
        lengths = (boxes.stops - boxes.starts)[order]
        inside = np.ones(len(self._items.cells), dtype=np.bool_)
        for start, stop in self._withheld:
            inside[start:stop] = False
        classes[inside] = np.repeat(order.astype(np.int32), lengths)
        real = self._items.records > 0
        population = {
            r.population_name: self._items.people_within(within, r)
            for r in self._problem.requirements
            if r.population is not None
        }
        n_cells = self._problem.cells.n_cells
        if self._relaxed:
            pieces = (self._items.cells[real], classes[real], self._items.records[real])
            return Plan.of_pieces(lo, hi, n_cells, *pieces, population)
        # Strict boxes are disjoint, and so are their labels, which lie within them.
        class_of = np.full(n_cells, WITHHELD, dtype=np.int32)
        class_of[self._items.cells] = np.where(real, classes, WITHHELD)
        return Plan.of_cells(lo, hi, class_of, self._problem.cells.counts, population)

    def explain_if_whole(self) -> None:
        """Refuse a table that became one single class because a model compares classes with the whole.

        Such a model always holds for the whole itself, so this is how a requirement that is too strong for any
        cut shows; say what the weakest cut would need. A region is not the whole, and may stay one class.
        """
        boxes = Boxes.joined(self._closed)
        relative = [i for i, r in enumerate(self._problem.requirements) if r.model.relative_to_whole]
        if len(boxes) > 1 or not relative or self._problem.box is not None:
            return
        within = self._items.extents(boxes)
        cuts = self._propose(boxes, within, wanted=self._items.n_attributes)
        tried = np.flatnonzero(cuts.attribute[0] >= 0)
        if not len(tried):
            return
        here = np.zeros(1, dtype=np.int64)
        reachable = dict.fromkeys(relative, np.inf)
        blocking = set(relative)
        for choice in tried:
            tallies: dict[int, Tally] = {}
            for i in relative:
                requirement, whole = self._problem.requirements[i], self._wholes[i]
                sides = self._items.histograms(boxes, cuts.pick(here, int(choice)), requirement, tallies)
                reachable[i] = min(reachable[i], requirement.model.worst(sides, whole))
                if requirement.model.holds(sides, whole).all():
                    blocking.discard(i)
        for i in sorted(blocking):
            subject = self._problem.requirements[i].model.subject
            offer = "in every first cut one side lacks a value of the table, which no weaker parameter allows"
            if np.isfinite(reachable[i]):
                offer = f"the best first cut reaches {rounded_up(reachable[i], 4)}, so ask for more than that"
            raise UnreachableError(
                f"{subject} leaves no cut: it is met only by one class in which every quasi attribute is fully "
                f"generalized; {offer}"
            )

    def _close(self, boxes: Boxes, step: Step) -> None:
        if len(boxes):
            self._closed.append(boxes)
            step.advance(int((boxes.stops - boxes.starts).sum()))

    def _chosen(self, boxes: Boxes, within: Extents) -> tuple[Cuts, CodeArray]:
        """Return proposals and, for each box, the first of which both sides hold, or -1.

        A large box proposes its widest attribute alone at first, for that is rarely refused.
        """
        cuts = self._propose(boxes, within, wanted=1)
        choice = self._first(boxes, cuts, _both)
        again = np.flatnonzero((choice < 0) & (boxes.stops - boxes.starts > self._search_below))
        if len(again):
            some = boxes.take(again)
            more = self._propose(some, within.take(again), wanted=self._items.n_attributes)
            choice[again] = self._first(some, more, _both)
            cuts.put(again, more)
        return cuts, choice

    def _propose(self, boxes: Boxes, within: Extents, wanted: int) -> Cuts:
        """Return the cuts to try for each box; relaxed ones come after all strict ones."""
        cuts = Cuts.none(len(boxes), 2 * self._items.n_attributes)
        small = boxes.stops - boxes.starts <= self._search_below
        few, many = np.flatnonzero(small), np.flatnonzero(~small)
        if len(few):
            cuts.put(few, self._items.best_cuts(boxes.take(few), within.take(few), self._smallest))
        if len(many):
            cuts.put(many, self._items.median_cuts(boxes.take(many), within.take(many), self._smallest, wanted))
        return cuts.followed_by(self._items.relaxed_cuts(boxes, within)) if self._relaxed else cuts

    def _first(
        self, boxes: Boxes, cuts: Cuts, accepts: Callable[[BoolArray, tuple[IntArray, int]], BoolArray]
    ) -> CodeArray:
        """Return (n,) the first proposal of each box whose sides are accepted, or -1."""
        choice = np.full(len(boxes), -1, dtype=np.int32)
        pending = np.arange(len(boxes))
        for proposal in range(cuts.attribute.shape[1]):
            pending = pending[choice[pending] < 0]
            tried = pending[cuts.attribute[pending, proposal] >= 0]
            if len(tried):
                sides = self._sides_hold(boxes.take(tried), cuts.pick(tried, proposal))
                choice[tried[accepts(sides, (tried, proposal))]] = proposal
        return choice

    def _first_worth_keeping(self, boxes: Boxes, cuts: Cuts, sheds: CodeArray) -> tuple[CodeArray, IntArray]:
        """Return the first proposal of which the side that stays holds, and the records that would go."""

        def stays(sides: BoolArray, tried: tuple[IntArray, int]) -> BoolArray:
            return np.asarray(sides[np.arange(len(sides)), 1 - sheds[tried]], dtype=np.bool_)

        choice = self._first(boxes, cuts, stays)
        records = np.zeros(len(boxes), dtype=np.int64)
        chosen = np.flatnonzero(choice >= 0)
        if len(chosen):
            sizes, _ = self._items.tally(boxes.take(chosen), cuts.pick(chosen, choice[chosen]))
            records[chosen] = sizes[:, 0].reshape(-1, 2)[np.arange(len(chosen)), sheds[chosen, choice[chosen]]]
        return choice, records

    def _sides_hold(self, boxes: Boxes, cuts: Cuts) -> BoolArray:
        """Return (n, 2) whether the left and the right side of each box meet every requirement."""
        holds = np.ones((len(boxes), 2), dtype=np.bool_)
        widest = max((r.n_values for r in self._problem.requirements), default=1)
        per_block = max(_HISTOGRAM_ENTRIES // (2 * max(widest, 1)), 1)

        def work(part: slice) -> None:
            some = boxes.take(np.arange(part.start, part.stop))
            tallies: dict[int, Tally] = {}
            for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
                sides = self._items.histograms(some, cuts.part(part), requirement, tallies)
                holds[part] &= requirement.model.holds(sides, whole).reshape(-1, 2)

        self._items.in_chunks(boxes, work, per_block)
        return holds

    def _published(self, boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray]:
        """Return the leaf ranges to publish.

        Numbers and dates publish the edges of cuts and of the declared domain, never the least or greatest value
        that occurs. Categories publish the categories that occur, in tree order. Against a population every
        label is the whole box, so that the labels tile the domain.
        """
        lo, hi = boxes.lo.copy(), boxes.hi.copy()
        if any(requirement.population is not None for requirement in self._problem.requirements):
            return lo, hi
        for j, attribute in enumerate(self._problem.quasi):
            taxonomy = attribute.taxonomy
            if taxonomy.positions is None:
                lo[:, j], hi[:, j] = within.low[:, j], within.high[:, j] + 1
            elif taxonomy.missing is not None:
                present = within.high[:, j] == taxonomy.missing
                only = within.low[:, j] == taxonomy.missing
                hi[:, j] = np.where(present, hi[:, j], np.minimum(hi[:, j], taxonomy.missing))
                lo[:, j] = np.where(only, taxonomy.missing, lo[:, j])
        return lo, hi

    def _boxed(self) -> BoolArray:
        """Return (d,) the attributes that publish the edges of cuts, whatever occurs between them."""
        against_population = any(requirement.population is not None for requirement in self._problem.requirements)
        numeric = [attribute.taxonomy.positions is not None for attribute in self._problem.quasi]
        return np.array(numeric, dtype=np.bool_) | against_population


def _both(sides: BoolArray, _: object) -> BoolArray:
    return sides[:, 0] & sides[:, 1]

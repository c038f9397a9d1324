"""The growing of Mondrian's boxes, level by level.

All boxes of one level are handled together: compiled loops propose cuts and count both sides, the models judge
all sides at once. So a model stays a few lines of NumPy and still millions of boxes are fast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.errors import UnreachableError
from shoal.methods.mondrian_items import Boxes, Extents, Items, Tally
from shoal.plan import WITHHELD, Plan
from shoal.problem import Problem
from shoal.progress import Step
from shoal.taxonomies.tree import Taxonomy

_HISTOGRAM_ENTRIES = 1 << 21  # of one block of boxes
_MOST_NAMED = 12  # categories in one label


class MondrianTree:
    """Boxes that are still to be cut, and those that are not."""

    def __init__(self, problem: Problem, relaxed: bool, search_below: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._relaxed = relaxed
        self._search_below = search_below
        self._smallest = problem.smallest_class
        self._wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        self._check_root()
        self._items = Items(problem, relaxed, rng)
        self._withheld: list[tuple[int, int]] = []
        self._open = Boxes(
            np.zeros(1, dtype=np.int64),
            np.array([len(self._items.cells)], dtype=np.int64),
            np.zeros((1, len(problem.quasi)), dtype=np.int32),
            np.array([[attribute.taxonomy.n_leaves for attribute in problem.quasi]], dtype=np.int32),
        )
        self._closed: list[Boxes] = []

    def __enter__(self) -> MondrianTree:
        return self

    def __exit__(self, *exc: object) -> None:
        self._items.close()

    def grow(self, step: Step) -> None:
        """Cut open boxes until none can be cut."""
        while len(self._open):
            boxes = self._open
            within = self._items.extents(boxes)
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
            self._open = self._items.split(
                boxes.take(cutting), attribute[cutting, picked], cut[cutting, picked], extra[cutting, picked]
            )

    def shed(self, most: int, step: Step) -> None:
        """Withhold up to *most* records where that narrows the rest the most, and cut on.

        The order of steps does not depend on *most*, and the first that does not fit ends it: a larger budget
        never gives a wider table.
        """
        lost = float(self._items.place.max(axis=1).sum())
        while True:
            boxes = Boxes.joined(self._closed)
            attribute, cut, sheds, gain = self._items.shedding_cuts(boxes, most, lost)
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
            halves = self._items.split(
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
        counts = self._items.records.copy()
        for start, stop in self._withheld:
            counts[start:stop] = 0
        left = np.bincount(self._items.cells, weights=counts, minlength=self._problem.cells.n_cells).astype(np.int64)
        self._wholes = [requirement.whole(left) for requirement in self._problem.requirements]
        boxes = Boxes.joined(self._closed)
        self._items.unmark()
        return bool(self._sides_hold(boxes)[:, 0].all())

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
        class_of = np.full(n_cells, WITHHELD, dtype=np.int32)
        class_of[self._items.cells[real]] = classes[real]
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
        within = self._items.extents(boxes)
        attribute, cut, extra = self._propose(boxes, within)
        cuts = np.flatnonzero(attribute[0] >= 0)
        if not len(cuts):
            return
        reachable = dict.fromkeys(relative, np.inf)
        blocking = set(relative)
        for choice in cuts:
            self._items.mark(boxes, attribute[:, choice], cut[:, choice], extra[:, choice])
            tallies: dict[int, Tally] = {}
            for i in relative:
                requirement, whole = self._problem.requirements[i], self._wholes[i]
                sides = self._items.histograms(boxes, requirement, tallies)
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

    def _propose(self, boxes: Boxes, within: Extents) -> tuple[CodeArray, CodeArray, IntArray]:
        """Return (n, 3d) the cuts to try, best first; -1 is none. Relaxed cuts come after all strict ones."""
        d = self._items.n_attributes
        shape = (len(boxes), 3 * d if self._relaxed else 2 * d)
        attribute = np.full(shape, -1, dtype=np.int32)
        cut = np.zeros(shape, dtype=np.int32)
        extra = np.zeros(shape, dtype=np.int64)
        small = boxes.stops - boxes.starts <= self._search_below
        for which in (np.flatnonzero(small), np.flatnonzero(~small)):
            if len(which):
                exhaustive = bool(small[which[0]])
                strict = self._items.strict_cuts(boxes.take(which), within.take(which), self._smallest, exhaustive)
                attribute[which, : 2 * d], cut[which, : 2 * d] = strict
        if self._relaxed:
            halves = self._items.relaxed_cuts(boxes, within)
            attribute[:, 2 * d :], cut[:, 2 * d :], extra[:, 2 * d :] = halves
        return attribute, cut, extra

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
                self._items.mark(some, attribute[which, proposal], cut[which, proposal], nothing[which, proposal])
                sizes = self._items.tally(some, 0)[0][:, 0].reshape(-1, 2)
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
            self._items.mark(some, attribute[tried, proposal], cut[tried, proposal], extra[tried, proposal])
            accepted = accepts(self._sides_hold(some), (tried, proposal))
            choice[tried[accepted]] = proposal
        return choice

    def _sides_hold(self, boxes: Boxes) -> BoolArray:
        """Return (n, 2) whether the left and the right side of each marked box meet every requirement."""
        holds = np.ones((len(boxes), 2), dtype=np.bool_)
        widest = max((r.n_values for r in self._problem.requirements), default=1)
        per_block = max(_HISTOGRAM_ENTRIES // (2 * max(widest, 1)), 1)

        def work(part: slice) -> None:
            some = boxes.take(np.arange(part.start, part.stop))
            tallies: dict[int, Tally] = {}
            for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
                sides = self._items.histograms(some, requirement, tallies)
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
                if taxonomy.scale.kind == "category":
                    lo[:, j], hi[:, j] = _readable(taxonomy, lo[:, j], hi[:, j])
            elif taxonomy.missing is not None:
                present = within.high[:, j] == taxonomy.missing
                only = within.low[:, j] == taxonomy.missing
                hi[:, j] = np.where(present, hi[:, j], np.minimum(hi[:, j], taxonomy.missing))
                lo[:, j] = np.where(only, taxonomy.missing, lo[:, j])
        return lo, hi


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

"""The growth of Mondrian's boxes, level by level.

All boxes of one level are processed together: compiled loops sort items into parts and count them, and the models check
all parts in one call. Models thus remain a few lines of NumPy, and millions of boxes remain fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Step
from shoal.methods.base import afford, refuse_unreachable
from shoal.methods.mondrian.boxes import Items, Parts, Tally
from shoal.methods.mondrian.kernels import Boxes
from shoal.models.base import round_up
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """One cut for each of some boxes: the parts that become separate boxes, and the score."""

    parts: Parts
    piece: CodeArray  # (n_parts,) parts with equal numbers stay together; 0 is the rest, if there is one
    rest: IntArray  # (n,) number of parts in the rest
    score: FloatArray  # (n,) 0: no cut
    withheld: IntArray  # (n,) records of the rest, if it is not published
    stale: BoolArray  # (n,) whether another cut has overwritten the parts of the items

    @classmethod
    def of_parts(cls, parts: Parts) -> Cuts:
        """Return undecided cuts."""
        n, n_parts = len(parts.attribute), int(parts.first[-1])
        nothing = np.zeros(n, dtype=np.int64)
        piece, stale = np.zeros(n_parts, dtype=np.int32), np.zeros(n, dtype=np.bool_)
        return cls(parts, piece, nothing, np.zeros(n), nothing.copy(), stale)


class MondrianTree:
    """Open boxes, which are still to be cut, and closed boxes."""

    def __init__(self, problem: Problem, *, ranges: bool, apart: bool = False, by_entropy: bool = False) -> None:
        """Begin with all cells in one box; if *apart*, every child of a cut must hold, and labels do not overlap.

        The gain of a cut is measured in the width of labels or, *by_entropy*, in bits of uncertainty.
        """
        self._problem = problem
        self._smallest = problem.smallest_class
        self._wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        # To count the people under labels, labels must tile the domain.
        self._apart = apart or any(requirement.population is not None for requirement in problem.requirements)
        refuse_unreachable(problem, 0)
        self._items = Items(problem, ranges=ranges, by_entropy=by_entropy)
        self._withheld: list[tuple[int, int]] = []
        every = np.array([problem.cells.n_cells], dtype=np.int64)
        self._open = self._items.boxes(np.zeros(1, dtype=np.int64), every, np.zeros((1, len(problem.quasi)), np.bool_))
        self._closed: list[Boxes] = []

    def __enter__(self) -> MondrianTree:
        return self

    def __exit__(self, *exc: object) -> None:
        self._items.close()

    def grow(self, step: Step) -> None:
        """Cut open boxes until none can be cut."""
        boxes = self._open
        while boxes.n:
            large = boxes.records >= 2 * self._smallest
            self._close(boxes.take(~large), step)
            boxes = boxes.take(large)
            score, cut = self._items.rank_cuts(boxes, self._smallest)
            attempts, chosen = self._choose(boxes, score, cut)
            self._close(boxes.take(chosen < 0), step)
            pieces = [
                self._carry_out(boxes, np.flatnonzero(chosen == number), attempt)[0]
                for number, attempt in enumerate(attempts)
            ]
            boxes = Boxes.join(pieces) if pieces else boxes.take(np.zeros(0, dtype=np.int64))

    def withhold(self, most: int, step: Step) -> None:
        """Withhold up to *most* records if other labels gain more than these records lose, and continue cutting."""
        while True:
            boxes = Boxes.join(self._closed)
            _, cut = self._items.rank_cuts(boxes, 1)
            hope = np.where(boxes.high > boxes.low, np.inf, 0.0)  # sizes do not bound the gain of withholding: try all
            attempts, chosen = self._choose(boxes, hope, cut, publish_rest=False)
            gain, records = np.zeros(boxes.n), np.zeros(boxes.n, dtype=np.int64)
            for number, (where, cuts) in enumerate(attempts):
                own = chosen[where] == number
                gain[where[own]], records[where[own]] = cuts.score[own], cuts.withheld[own]
            taken, all_fit = afford(gain, records, most)
            if not len(taken):
                return
            most -= int(records[taken].sum())
            rest = np.ones(boxes.n, dtype=np.bool_)
            rest[taken] = False
            self._closed, kept = [boxes.take(rest)], []
            for number, attempt in enumerate(attempts):
                pieces, gone = self._carry_out(boxes, taken[chosen[taken] == number], attempt, publish_rest=False)
                kept.append(pieces)
                self._withheld.extend(zip(gone.starts.tolist(), gone.stops.tolist(), strict=True))
            self._open = Boxes.join(kept)
            self.grow(step)
            if not all_fit:
                return

    def plan(self) -> Plan:
        """Return the closed boxes as classes."""
        boxes, items = Boxes.join(self._closed), self._items.arrays
        classes = np.full(len(items.cells), WITHHELD, dtype=np.int32)
        order = np.argsort(boxes.starts)
        inside = np.ones(len(items.cells), dtype=np.bool_)
        for start, stop in self._withheld:
            inside[start:stop] = False
        classes[inside] = np.repeat(order.astype(np.int32), (boxes.stops - boxes.starts)[order])
        population = {
            r.population_name: self._items.people_within(boxes, r.population)
            for r in self._problem.requirements
            if r.population is not None
        }
        # A child that is cut off has no records in the rest, so no two boxes have the same labels.
        class_of = np.full(self._problem.cells.n_cells, WITHHELD, dtype=np.int32)
        class_of[items.cells] = np.where(items.weights[:, 0] > 0, classes, WITHHELD)
        return Plan.of_cells(boxes.lo, boxes.hi, class_of, self._problem.cells.counts, population)

    def explain_if_whole(self) -> None:
        """Refuse a table that became one single class because of a model that compares classes with the whole.

        The whole itself always satisfies such a model, even if it is too strong for any cut. The error states which
        parameter the best cut reaches. A region is not the whole table, and may remain one class.
        """
        boxes = Boxes.join(self._closed)
        relative = [i for i, r in enumerate(self._problem.requirements) if r.model.relative_to_whole]
        if boxes.n > 1 or not relative or self._problem.box is not None:
            return
        score, cut = self._items.rank_cuts(boxes, self._smallest)
        reachable, blocking = dict.fromkeys(relative, np.inf), set(relative)
        for attribute in np.flatnonzero(score[0] > 0.0).tolist():
            parts = self._items.parts(boxes, np.array([attribute], dtype=np.int32), cut[:, attribute])
            for part in range(int(parts.first[-1])):
                rows = (np.arange(int(parts.first[-1])) != part).astype(np.int64), 2  # one child, and all others
                tallies: dict[int, Tally] = {}
                for i in relative:
                    requirement, whole = self._problem.requirements[i], self._wholes[i]
                    sides = self._items.histograms(boxes, parts, rows, requirement, tallies)
                    reachable[i] = min(reachable[i], requirement.model.worst(sides, whole))
                    if requirement.model.holds(sides, whole).all():
                        blocking.discard(i)
        for i in sorted(blocking if (score > 0.0).any() else ()):
            subject = self._problem.requirements[i].model.subject
            offer = "in every first cut one side lacks a value of the table, which no weaker parameter allows"
            if np.isfinite(reachable[i]):
                offer = f"the best first cut reaches {round_up(reachable[i], 4)}, so ask for more than that"
            raise UnreachableError(
                f"{subject} leaves no cut: it is met only by one class in which every quasi attribute is fully "
                f"generalized; {offer}"
            )

    def _close(self, boxes: Boxes, step: Step) -> None:
        if boxes.n:
            self._closed.append(boxes)
            step.advance(int((boxes.stops - boxes.starts).sum()))

    def _choose(
        self, boxes: Boxes, score: FloatArray, cut: CodeArray, *, publish_rest: bool = True
    ) -> tuple[list[tuple[IntArray, Cuts]], CodeArray]:
        """Return the attempted cuts, each with its boxes, and (n,) the best attempt of each box, or -1.

        Attributes are tried in the order of their scores by sizes alone, which are upper bounds.
        """
        order = np.argsort(-score, axis=1, kind="stable").astype(np.int32)
        best, chosen = np.zeros(boxes.n), np.full(boxes.n, -1, dtype=np.int32)
        attempts: list[tuple[IntArray, Cuts]] = []
        for rank in range(order.shape[1]):
            hope = score[np.arange(boxes.n), order[:, rank]]
            tried = np.flatnonzero(hope > best)
            if not len(tried):
                break
            attribute = order[tried, rank]
            cuts = self._try_cut(boxes.take(tried), attribute, cut[tried, attribute], publish_rest=publish_rest)
            better = cuts.score > best[tried]
            best[tried[better]], chosen[tried[better]] = cuts.score[better], len(attempts)
            for before, earlier in attempts:
                earlier.stale[np.isin(before, tried, assume_unique=True)] = True
            attempts.append((tried, cuts))
        return attempts, chosen

    def _try_cut(self, boxes: Boxes, attribute: CodeArray, cut: CodeArray, *, publish_rest: bool = True) -> Cuts:
        parts = self._items.parts(boxes, attribute, cut)
        cuts = Cuts.of_parts(parts)

        def work(run: slice) -> None:
            first = parts.first[run.start : run.stop + 1]
            some = Parts(attribute[run], cut[run], first - first[0])
            decided = self._decide(boxes.take(run), some, publish_rest)
            cuts.piece[first[0] : first[-1]] = decided.piece
            cuts.rest[run], cuts.score[run], cuts.withheld[run] = decided.rest, decided.score, decided.withheld

        self._items.in_chunks(boxes, work, np.diff(parts.first) * max(self._items.widest, 1))
        return cuts

    def _decide(self, boxes: Boxes, parts: Parts, publish_rest: bool) -> Cuts:
        """Cut off the parts that hold; the others form the rest, which absorbs the smallest parts until it holds."""
        first, box, n_parts = parts.first, parts.box, np.diff(parts.first)
        sizes, widths = self._items.measure_parts(boxes, parts)
        large = sizes >= self._smallest  # smaller parts never hold
        holds, row_of = np.zeros(len(sizes), dtype=np.bool_), np.where(large, np.cumsum(large) - 1, -1)
        if large.any():
            holds[large] = self._judge(boxes, parts, row_of, int(large.sum()))
        order = np.lexsort((sizes, holds, box))  # failing parts first, small before large
        rank = np.arange(len(order)) - first[box]
        rest = np.add.reduceat((~holds).astype(np.int64), first[:-1])
        if publish_rest and self._apart:
            rest = np.where(rest > 0, n_parts, 0)
        elif publish_rest:
            self._take_back(boxes, parts, order, sizes, rest)
        cuts = Cuts.of_parts(parts)
        own, kept = sizes[order], rank >= rest[box]
        cuts.piece[order] = np.where(kept, rank - rest[box] + (rest > 0)[box], 0)
        cuts.rest[:] = rest
        narrower = self._items.widths(boxes, parts.attribute)[box] - widths[order]
        gain = np.add.reduceat(np.where(kept, own * narrower, 0.0), first[:-1])
        left = np.add.reduceat(np.where(kept, 0, own), first[:-1])
        possible = (rest < n_parts) & (gain > 0.0)
        if publish_rest:
            total = boxes.records.astype(np.float64)
            entropy = _entropy(left / total)
            entropy += np.add.reduceat(np.where(kept, _entropy(own / total[box]), 0.0), first[:-1])
            cuts.score[possible] = gain[possible] / entropy[possible]
            return cuts
        worth = possible & (left > 0)
        every = range(boxes.lo.shape[1])
        width = sum(self._items.widths(boxes, np.full(boxes.n, j, dtype=np.int32)) for j in every)
        lost = width - self._items.trees.full.sum()
        cuts.score[worth] = (gain[worth] / left[worth] + np.asarray(lost)[worth]).clip(0.0)
        cuts.withheld[:] = left
        return cuts

    def _take_back(self, boxes: Boxes, parts: Parts, order: IntArray, sizes: IntArray, rest: IntArray) -> None:
        """Extend every rest until it holds or is the whole box; changes *rest*."""
        first, n_parts = parts.first, np.diff(parts.first)
        before = np.append(0, np.cumsum(sizes[order]))  # records of all parts before each
        pending, step = np.flatnonzero(rest > 0), 1
        while True:
            enough = np.searchsorted(before, before[first[pending]] + self._smallest) - first[pending]
            rest[pending] = np.minimum(np.maximum(rest[pending], enough), n_parts[pending])
            pending = pending[rest[pending] < n_parts[pending]]
            if not len(pending):
                return
            row = np.full(len(order), -1, dtype=np.int64)
            for_box = np.full(boxes.n, -1, dtype=np.int64)
            for_box[pending] = np.arange(len(pending))
            inside = np.arange(len(order)) - first[parts.box] < rest[parts.box]
            row[order[inside]] = for_box[parts.box[inside]]
            some = Parts(parts.attribute[pending], parts.cut[pending], first[pending])
            holds = self._judge(boxes.take(pending), some, row, len(pending))
            pending = pending[~holds]
            rest[pending] += 1 + step // 8  # later several at a time
            step += 1

    def _judge(self, boxes: Boxes, parts: Parts, row_of: IntArray, n_rows: int) -> BoolArray:
        """Return (n_rows,) whether parts, or several together, satisfy every requirement."""
        holds, tallies = np.ones(n_rows, dtype=np.bool_), dict[int, Tally]()
        for requirement, whole in zip(self._problem.requirements, self._wholes, strict=True):
            classes = self._items.histograms(boxes, parts, (row_of, n_rows), requirement, tallies)
            holds &= requirement.model.holds(classes, whole)
        return holds

    def _carry_out(
        self, boxes: Boxes, where: IntArray, attempt: tuple[IntArray, Cuts], *, publish_rest: bool = True
    ) -> tuple[Boxes, Boxes]:
        """Cut some boxes as an attempt decided; return the new boxes and the withheld ones."""
        tried, cuts = attempt
        at = np.searchsorted(tried, where)
        some = boxes.take(where)
        lengths = np.diff(cuts.parts.first)[at]
        parts = Parts(cuts.parts.attribute[at], cuts.parts.cut[at], np.concatenate([[0], np.cumsum(lengths)]))
        again = cuts.stale[at]  # their items have the parts of a later attempt
        self._items.parts(some.take(again), parts.attribute[again], parts.cut[again])
        source = np.repeat(cuts.parts.first[at] - parts.first[:-1], lengths) + np.arange(int(parts.first[-1]))
        starts, stops = self._items.split(some, parts, cuts.piece[source])
        box = parts.box
        rest = (np.arange(len(box)) == parts.first[box]) & (cuts.rest[at] > 0)[box]
        barred = np.where(rest[:, np.newaxis], some.barred[box], False)
        barred[rest, parts.attribute[box[rest]]] = True
        full = stops > starts
        pieces = self._items.boxes(starts[full], stops[full], barred[full])
        gone = rest[full] & (not publish_rest)
        return pieces.take(~gone), pieces.take(gone)


def _entropy(share: FloatArray) -> FloatArray:
    """Return -share ln share, a part's contribution to the entropy of a cut.

    >>> float(_entropy(np.array([0.25]))[0] / np.log(2))
    0.5
    """
    return -share * np.log(np.where(share > 0.0, share, 1.0))

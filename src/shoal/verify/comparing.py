"""How many published rows of a part have no source row of their own.

Published rows and source rows with equal exact content form a graph of two sides, an edge where the labels
cover the values; the release is true if and only if some matching uses every published row. A source row
that only one class covers can serve no other, so such rows are settled by counting; what is left over, where
classes overlap, is a largest-flow problem.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.boxes import SEVERAL, BoxTree
from shoal.verify.coding import CodedSource
from shoal.verify.counting import WAITING, Counting
from shoal.verify.covers import Covers
from shoal.verify.kernels import paired
from shoal.verify.matching import unmet_demand, unserved
from shoal.verify.parts import Part, Task, unchanged
from shoal.verify.room import Room
from shoal.verify.spans import Spans
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Combinations, Interner, Tally

_OFFERED, _CELL = 130, 300  # bytes for a source row that is matched one by one, and for where it lies
_ALONE = 60  # bytes for a source row that only one box wants
_COMPARING, _MATCHING = "comparing with the source", "matching with the source"


class _Offers:
    """Source rows that several boxes may want, equal ones together."""

    def __init__(self, covers: Sequence[Covers], numbers: Interner, room: Room) -> None:
        self._cells = Combinations([cover.width for cover in covers])
        self._numbers = numbers
        self._room = room
        self._tally = Tally()

    def add(self, points: CodeArray, hashes: KeyArray) -> None:
        if hashes.shape[0]:
            cells = self._cells.ids(list(points.T))
            self._tally.add(paired(self._numbers.ids(hashes), cells))
            waiting = WAITING * self._tally.waiting
            self._room.check(_OFFERED * self._tally.count + waiting + _CELL * self._cells.count)

    def result(self) -> tuple[KeyArray, IntArray, CodeArray]:
        """Return the distinct keys content << 32 | cell, ascending, how many rows each stands for, and the cells."""
        self._tally.settle()
        self._room.check(_OFFERED * self._tally.count + _CELL * self._cells.count)
        return *self._tally.result(), self._cells.tuples()


def false_rows(part: Part, task: Task, counting: Counting, room: Room) -> int:
    """Return how many rows of the release, which were counted, find no source row in the best of all matchings.

    Where the source rows that only one box covers make the same sums as the published rows of that box, these
    rows serve each other. Only if other boxes are left both tables are read again to match their rows. Where
    boxes are crowded most would be left, so all rows are matched at once.
    """
    assert task.key is not None and counting.sums is not None  # noqa: S101, PT018 - the caller counted with contents
    if not task.boxed:
        return _without_labels(part, task, counting, room)
    spans = Spans.of(task.boxed, counting.box_labels())
    tree = None if spans.crowded() else BoxTree.of(task.boxed, spans)
    numbers = Interner()
    sums, offers = BoxSums(task.key), _Offers(task.boxed, numbers, room)
    if tree is None:
        for batch in part.source(unchanged, _COMPARING):
            offers.add(batch.points, batch.hashes)
    else:
        located = tree
        for box, hashes in part.source(lambda batch: (located.find(batch.points), batch.hashes), _COMPARING):
            sums.add(box, hashes, tree.n_classes)
    unsettled = counting.sums.differs(sums)
    if not unsettled.any():
        return 0
    # places: (n_boxes,) of unsettled boxes, small ones first; the others -1
    order = np.argsort(spans.sizes(), kind="stable")
    order = order[unsettled[order]]
    places = np.full(unsettled.shape[0], -1, dtype=np.int32)
    places[order] = np.arange(order.shape[0], dtype=np.int32)
    rows = part.release(unchanged, labelled=counting.needs_labels)
    wanted, demand = counting.contents_of(rows, places, numbers, room)
    if tree is not None:
        demand = _left_over(wanted, demand, places, part, tree, numbers, offers, room)
    return unserved(spans.taken(order), wanted, demand, *offers.result())


def _without_labels(part: Part, task: Task, counting: Counting, room: Room) -> int:
    """Compare rows without labels: every published content must be the source's, no more often than there."""
    assert task.key is not None and counting.sums is not None  # noqa: S101, PT018 - as above
    sums = BoxSums(task.key)
    for batch in part.source(unchanged, _COMPARING):
        sums.add(np.zeros(batch.hashes.shape[0], dtype=np.int32), batch.hashes, 1)
    if not counting.sums.differs(sums).any():
        return 0
    numbers, held = Interner(), Tally()
    rows = part.release(unchanged, labelled=counting.needs_labels)
    wanted, demand = counting.contents_of(rows, np.zeros(1, dtype=np.int32), numbers, room)
    for batch in part.source(unchanged, _MATCHING):
        found = numbers.ids(batch.hashes)
        held.add(paired(found, np.zeros_like(found)))
        room.check(_ALONE * held.count + WAITING * held.waiting)
    return int(unmet_demand(wanted, demand, *held.result()).sum())


def _left_over(
    wanted: KeyArray,
    demand: IntArray,
    places: CodeArray,
    part: Part,
    tree: BoxTree,
    numbers: Interner,
    offers: _Offers,
    room: Room,
) -> IntArray:
    """Return (n_wanted,) the demand that rows in one box only do not meet; rows in several are offered."""
    single = Tally()
    known = np.append(places, np.int32(-1))

    def locate(batch: CodedSource) -> tuple[CodedSource, CodeArray]:
        return batch, tree.find(batch.points)

    for batch, box in part.source(locate, _MATCHING):
        several = box == SEVERAL
        offers.add(batch.points[several], batch.hashes[several])
        place = known[np.maximum(box, -1)]
        alone = place >= 0
        single.add(paired(numbers.ids(batch.hashes[alone]), place[alone]))
        room.check(_ALONE * single.count + WAITING * single.waiting)
    return unmet_demand(wanted, demand, *single.result())

"""Classes of published rows, their sizes, and the sensitive values in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.coding import Coded, CodedRows, Layout
from shoal.verify.exact import Histograms
from shoal.verify.kernels import kernel, paired
from shoal.verify.numbering import gathered_codes
from shoal.verify.room import Room
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Interner, Tally

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

# Bytes, estimated on the high side from the arrays that are held.
_CLASS = 100  # its number, size and sums
_ENTRY = 80  # a value of a class, while it is counted and judged
WANTED = 130  # a published row that is matched one by one
WAITING = 16  # a key that is not yet summed up
_BOX, _SIDE = 100, 56  # a box, and each attribute of it, in the tree that finds it and its sums


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What promises that compare with the whole table need to know of it: the values of one subject."""

    values: tuple[str | None, ...]  # (n_values,) what the numbers stand for, None = missing; () for joint values
    n_values: int
    counts: IntArray | None = None  # (n_values,) of the whole table, if classes are those of a part of it


@kernel
def _count_each(owner: CodeArray, sizes: IntArray) -> None:
    for i in range(owner.shape[0]):
        sizes[owner[i]] += 1


class Counting:
    """Classes and boxes of coded rows; each keeps the number that it got when it was met."""

    def __init__(
        self,
        layout: Layout,
        n_subjects: int,
        key: KeyArray | None,
        room: Room,
        *,
        with_classes: bool = True,
        located: bool = True,
    ) -> None:
        """*key* is that of the contents, if rows are compared with a source; classes are counted for promises.

        Boxes take more room if rows will be *located* in them.
        """
        self.layout = layout
        self.rows = 0
        self._room = room
        self._values = Interner() if layout.by_values else None
        self._classes = layout.classes()
        self._boxes = self._classes if layout.alike else layout.boxes()
        self._with_classes = with_classes
        self._with_boxes = key is not None
        self._located = located
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)
        self._tallies = [Tally() for _ in range(n_subjects if with_classes else 0)]
        self.sums = None if key is None else BoxSums(key)

    def owners(self, rows: CodedRows) -> tuple[CodeArray | None, CodeArray | None]:
        """Return (n_rows,) the class of each row, and its box, as far as they are asked for."""
        owner = None
        if self._with_classes or (self._with_boxes and self.layout.alike):
            if self._values is not None:
                owner = self._values.ids(rows.keys)
            else:
                columns = [rows.labels[a] for a in self.layout.quasi] if len(rows.labels) else ()
                owner = self._classes.ids(columns, rows.rows, rows.keys)
        if not self._with_boxes or self.layout.alike:
            return owner, owner
        return owner, self._boxes.ids([rows.labels[a] for a in self.layout.boxed], rows.rows)

    def add(self, rows: CodedRows, subjects: tuple[CodeArray, ...]) -> None:
        """Count rows; raises OutgrownError if that is more than there is room for."""
        self.rows += rows.rows
        owner, box = self.owners(rows)
        if self._with_classes and owner is not None:
            if self.n_classes > self._sizes.shape[0]:
                more = max(self.n_classes, self._sizes.shape[0] * 5 // 4) - self._sizes.shape[0]
                self._sizes = np.append(self._sizes, np.zeros(more, dtype=np.int64))
            _count_each(owner, self._sizes)
            for tally, values in zip(self._tallies, subjects, strict=True):
                tally.add(paired(owner, values))
        if self.sums is not None and box is not None and rows.hashes is not None:
            self.sums.add(box, rows.hashes, self.n_boxes)
        if not self._room.holds(self.held):
            self.settle()

    def settle(self) -> None:
        """Sum up all that was added; raises OutgrownError, too."""
        for tally in self._tallies:
            tally.settle()
        self._room.check(self.held)

    @property
    def needs_labels(self) -> bool:
        """Whether rows must come with labels: else their keys tell all."""
        classes = self._with_classes and self._values is None and not self._classes.simple
        return classes or (self._with_boxes and not (self.layout.alike and self._classes.simple))

    @property
    def held(self) -> int:
        """About how many bytes it takes to go on with what was counted."""
        entries = sum(_ENTRY * tally.count + WAITING * tally.waiting for tally in self._tallies)
        counted = _CLASS * self.n_classes + entries
        n_boxes = self.n_boxes if self.layout.by_values else max(self.n_classes, self.n_boxes)
        compared = (_BOX + _SIDE * len(self.layout.boxed)) * n_boxes if self._located else 0
        return max(counted, compared) if self.layout.alike else counted + compared

    @property
    def distinct(self) -> list[int]:
        """How many different things of each kind were met."""
        return [self.n_classes, self.n_boxes, *(tally.count for tally in self._tallies)]

    @property
    def n_classes(self) -> int:
        """How many classes were met."""
        return self._classes.count if self._values is None else self._values.count

    @property
    def n_boxes(self) -> int:
        """How many boxes were met."""
        return self._boxes.count

    @property
    def sizes(self) -> IntArray:
        """(n_classes,) how many rows each class has."""
        return self._sizes[: self.n_classes]

    def class_labels(self) -> CodeArray:
        """Return (n_classes, n_quasi) labels; none where values are published as they are."""
        return self._classes.tuples() if self._values is None else np.empty((self.n_classes, 0), dtype=np.int32)

    def box_labels(self) -> CodeArray:
        """Return (n_boxes, n_boxed) labels."""
        return self._boxes.tuples()

    def histograms(self, place: int, table: Table) -> Histograms:
        """Return the values of a subject in each class; they are handed out once."""
        tally, self._tallies[place] = self._tallies[place], Tally(0)
        return histograms_of(tally, self.sizes, table.values, table.n_values, table.counts)

    def contents_of(
        self, rows: Iterator[Coded], places: CodeArray, numbers: Interner, room: Room
    ) -> tuple[KeyArray, IntArray]:
        """Return the distinct keys content << 32 | place of the box, ascending, and their counts, of the same rows.

        Contents have the numbers that *numbers* gives them; boxes without a place (-1) are left out.
        """
        tally = Tally()
        for batch, _ in rows:
            _, box = self.owners(batch)
            assert batch.hashes is not None and box is not None  # noqa: S101, PT018 - asked for only with a source
            place = gathered_codes(places, box)
            wanted = place >= 0
            tally.add(paired(numbers.ids(batch.hashes[wanted]), place[wanted]))
            room.check(WANTED * tally.count + WAITING * tally.waiting)
        tally.settle()
        room.check(WANTED * tally.count)
        return tally.result()


@kernel
def _split(keys: KeyArray, n_classes: int) -> tuple[IntArray, IntArray]:
    """Return where the keys of each class start, and the value of each key; keys ascend."""
    start = np.zeros(n_classes + 1, dtype=np.int64)
    value = np.empty(keys.shape[0], dtype=np.int64)
    for i in range(keys.shape[0]):
        start[(keys[i] >> _SHIFT) + np.uint64(1)] += 1
        value[i] = keys[i] & _LOW
    for owner in range(n_classes):
        start[owner + 1] += start[owner]
    return start, value


def histograms_of(
    tally: Tally, sizes: IntArray, values: tuple[str | None, ...], n_values: int, table: IntArray | None = None
) -> Histograms:
    """Return the sparse histograms of keys class << 32 | value; *values* are what the codes stand for."""
    keys, counts = tally.result()
    start, value = _split(keys, sizes.shape[0])
    return Histograms(sizes, start, value, counts, values, n_values, table=table)

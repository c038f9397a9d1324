"""Classes of published rows, their sizes, and the sensitive values in each, counted while rows stream by.

Where the classes of a release do not fit into memory they are counted in several passes, each over a share of them: a
pass that outgrows its memory lets half of its classes go, by a hash of what they show, and they get another pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_starts
from shoal.verify.contents import RowSums
from shoal.verify.exact import Histograms
from shoal.verify.form import LabelCounts
from shoal.verify.guarantees import Subject
from shoal.verify.numbering import HALF, LOW, Number, number_rows, pair, sum_up

Texts = dict[int, str | None]  # what the words of an attribute's values stand for; None: missing
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MOST_BITS = 48
_FEWEST, _MOST = 1 << 20, 12_000_000  # rows that wait to be counted: 8 for each cell so far, between these
_CELL, _ROW = 140, 200  # bytes that a cell and a waiting row take while they are counted, estimated on the high side


@dataclass(frozen=True, slots=True)
class Share:
    """Classes whose hashes end in the same bits; without bits, all of them."""

    ending: int = 0
    bits: int = 0

    def halves(self) -> tuple[Share, Share]:
        """Return both halves of it."""
        return Share(self.ending, self.bits + 1), Share(self.ending | 1 << self.bits, self.bits + 1)

    def holds(self, classes: IntArray) -> BoolArray:
        """Return (n_classes,) whether classes, given by (n_columns, n_classes) numbers, are among them."""
        word = np.zeros(classes.shape[1], dtype=np.uint64)
        for column in classes:
            word = (word ^ column.view(np.uint64)) * _SPREAD
            word ^= word >> HALF
        return np.asarray(word & np.uint64((1 << self.bits) - 1) == np.uint64(self.ending), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each value of one subject occurs in each class."""

    values: KeyArray  # (n_attributes, n_values) words
    pairs: KeyArray  # (n_cells,) class << 32 | value, ascending
    counts: IntArray  # (n_cells,)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Classes, and for each subject the values in them; cells of different rows can be added."""

    classes: IntArray  # (n_columns, n_classes) numbers
    sizes: IntArray  # (n_classes,)
    subjects: tuple[Counts, ...]

    def __add__(self, other: Cells) -> Cells:
        """Return what both count."""
        classes, owner = number_rows(np.append(self.classes, other.classes, axis=1))
        n_own = self.classes.shape[1]
        sizes = np.zeros(classes.shape[1], dtype=np.int64)
        sizes[owner[:n_own]] = self.sizes
        sizes[owner[n_own:]] += other.sizes
        subjects = []
        for one, two in zip(self.subjects, other.subjects, strict=True):
            values, numbers = number_rows(np.append(one.values, two.values, axis=1))
            n_values = one.values.shape[1]
            pairs = np.append(
                _renumber(one.pairs, owner[:n_own], numbers[:n_values]),
                _renumber(two.pairs, owner[n_own:], numbers[n_values:]),
            )
            subjects.append(Counts(values, *sum_up(pairs, np.append(one.counts, two.counts))))
        return Cells(classes, sizes, tuple(subjects))

    def select(self, classes: BoolArray) -> Cells:
        """Return the cells of some classes; values keep their numbers."""
        place = np.cumsum(classes) - 1
        subjects = []
        for one in self.subjects:
            own = classes[one.pairs >> HALF]
            pairs = pair(place[one.pairs[own] >> HALF], one.pairs[own] & LOW)
            subjects.append(Counts(one.values, pairs, one.counts[own]))
        return Cells(self.classes[:, classes], self.sizes[classes], tuple(subjects))

    def join(self) -> Cells:
        """Return the same as one class."""
        joined = []
        for one in self.subjects:  # sums of whole numbers, exact below 2**53
            counts = np.bincount(one.pairs & LOW, one.counts, one.values.shape[1]).astype(np.int64)
            values = np.flatnonzero(counts)
            joined.append(Counts(one.values, values.astype(np.uint64), counts[values]))
        return Cells(np.zeros((1, 1), dtype=np.int64), self.sizes.sum(keepdims=True), tuple(joined))

    @property
    def n_cells(self) -> int:
        """How many classes there are, with a value of each subject."""
        return len(self.sizes) + sum(len(one.pairs) for one in self.subjects)


def _renumber(pairs: KeyArray, owner: CodeArray, value: CodeArray) -> KeyArray:
    return pair(owner[pairs >> HALF], value[pairs & LOW])


class NumberedRows:
    """Rows that wait to be counted, as pairs of numbers: of a class, and of a value of each subject."""

    def __init__(self, n_columns: int, subjects: Sequence[Subject]) -> None:
        self._classes: IntArray = np.zeros((n_columns, 0), dtype=np.int64)
        self._values: list[KeyArray] = [np.zeros((len(names), 0), dtype=np.uint64) for names in subjects]
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)
        self._pairs: list[list[KeyArray]] = [[] for _ in subjects]

    @property
    def n_classes(self) -> int:
        """How many classes there are so far."""
        return int(self._classes.shape[1])

    def add(self, classes: IntArray, subjects: Sequence[KeyArray]) -> None:
        """Take rows, given (n_columns, n_rows) classes and, for each subject, (n_attributes, n_rows) words."""
        self._classes, owner = _number_on(self._classes, classes)
        sizes = np.bincount(owner, minlength=self._classes.shape[1])
        sizes[: len(self._sizes)] += self._sizes
        self._sizes = sizes
        for place, words in enumerate(subjects):
            self._values[place], numbers = _number_on(self._values[place], words)
            self._pairs[place].append(pair(owner, numbers))

    def count(self) -> Cells:
        """Return the cells of all rows, which wait no longer."""
        counted = []
        for values, parts in zip(self._values, self._pairs, strict=True):
            pairs = np.concatenate(parts)
            parts.clear()
            pairs.sort()
            first, n_rows = find_starts([pairs]), len(pairs)
            pairs = pairs[first]
            counted.append(Counts(values, pairs, np.diff(first, append=n_rows)))
        return Cells(self._classes, self._sizes, tuple(counted))


def _number_on(known: NDArray[Number], columns: NDArray[Number]) -> tuple[NDArray[Number], CodeArray]:
    """Return the distinct tuples, those that are *known* first, and (n,) the number of each of the given ones."""
    distinct, numbers = number_rows(np.append(known, columns, axis=1))
    return distinct, numbers[known.shape[1] :]


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """Rows of a release as numbers: all that is asked of them."""

    rows: int
    labels: NDArray[np.int32]  # (n_labelled, n_rows)
    label_counts: LabelCounts
    classes: IntArray  # (n_columns, n_rows)
    words: Mapping[str, KeyArray]  # (n_rows,) of each sensitive attribute that a promise is about
    texts: Mapping[str, Texts]  # what the words stand for
    hashes: KeyArray | None  # (n_rows,) of the contents, if there is a source to compare with
    sums: RowSums  # of the hashes, with the numbers of classes


@dataclass(slots=True, eq=False)
class Counting:
    """What a pass over a release has found so far: of all rows, and of the classes of a share."""

    subjects: tuple[Subject, ...] | None  # None: classes are not asked for
    share: Share = Share()
    limit: int | None = None  # bytes
    side: int = 0  # further bytes that a class will take
    whole: Cells | None = None  # the whole table as one class, if the share is not all of it
    known: bool = False  # whether an earlier pass has counted the whole table
    rows: int = 0
    sums: RowSums = field(default_factory=RowSums)
    texts: dict[str, Texts] = field(default_factory=dict)
    labels: dict[str, IntArray] = field(default_factory=dict)  # the rows of each label; none before the first rows
    let_go: list[Share] = field(default_factory=list)  # shares that were given up for lack of memory
    _counted: tuple[Cells, ...] = ()  # the cells so far; none before the first rows
    _waiting: list[tuple[IntArray, Mapping[str, KeyArray]]] = field(default_factory=list)  # classes and words of rows
    _numbered: NumberedRows | None = None  # rows that wait, in fewer bytes
    _held: int = 0  # rows that wait

    def add(self, rows: CodedRows) -> None:
        """Count the next rows."""
        self._note(rows.rows, rows.sums, rows.texts, rows.label_counts)
        if self.subjects is None:
            return
        classes, words = rows.classes, rows.words
        if self.known:
            own = self.share.holds(classes)
            classes, words = classes[:, own], {name: each[own] for name, each in words.items()}
        if not classes.shape[1]:
            return
        self._waiting.append((classes, words))
        self._held += classes.shape[1]
        if sum(classes.shape[1] for classes, _ in self._waiting) >= _FEWEST:
            self._number()
        n_cells = sum(one.n_cells for one in self._counted)
        if self._numbered is not None and 8 * self._numbered.n_classes > _FEWEST:
            n_cells = _MOST  # classes are small, and so many rows have nearly as many cells
        most = _FEWEST >> self.share.bits if self.known else _MOST  # to add many takes memory, and lets classes go
        if self._held >= min(most, max(_FEWEST, 8 * n_cells)) or not self._fits(*self._counted):
            self.settle()

    def absorb(self, other: Counting) -> None:
        """Add what was counted elsewhere, of the share that this one began with."""
        self._note(other.rows, other.sums, other.texts, other.labels)
        for cells in other._counted:
            self._join(cells, other.whole)

    def _note(self, rows: int, sums: RowSums, texts: Mapping[str, Texts], labels: LabelCounts) -> None:
        self.rows += rows
        self.sums += sums
        self.labels = {name: counts + self.labels.get(name, 0) for name, counts in labels.items()} or self.labels
        for name, more in texts.items():
            known = self.texts.setdefault(name, {})
            known |= {word: text for word, text in more.items() if word not in known}

    def settle(self) -> None:
        """Count what waits; let classes go, half of them at a time, that do not fit."""
        self._number()
        numbered, self._numbered, self._held = self._numbered, None, 0
        if numbered is not None:
            self._join(numbered.count())

    def _number(self) -> None:
        """Number the classes and values of rows that have no numbers yet."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        classes = np.concatenate([numbers for numbers, _ in waiting], axis=1)
        words = {name: np.concatenate([own[name] for _, own in waiting]) for name in waiting[0][1]}
        subjects = self.subjects or ()
        self._numbered = self._numbered or NumberedRows(len(classes), subjects)
        self._numbered.add(classes, [np.stack([words[name] for name in subject]) for subject in subjects])

    def _join(self, more: Cells, whole: Cells | None = None) -> None:
        if self.share.bits:
            if not self.known:
                whole = whole or more.join()
                self.whole = whole if self.whole is None else self.whole + whole
            more = more.select(self.share.holds(more.classes))
        both = [*self._counted, more]
        # Adding takes memory for both, however many cells they have in common.
        while not self._fits(*both) and max(len(one.sizes) for one in both) > 1 and self.share.bits < _MOST_BITS:
            both = self._halve(*both)
        cells = both[0] if len(both) == 1 else both[0] + both[1]
        while not self._fits(cells):
            if len(cells.sizes) < 2 or self.share.bits == _MOST_BITS:
                raise UsageError(
                    "this release does not fit into memory: one of its classes alone takes more than "
                    f"{(self.limit or 0) / (1 << 20):.1f} MiB; allow more memory"
                )
            (cells,) = self._halve(cells)
        self._counted = (cells,)

    def _halve(self, *counted: Cells) -> list[Cells]:
        """Let half of the classes go."""
        if self.whole is None:
            self.whole = sum((one.join() for one in counted[1:]), counted[0].join())
        self.share, other = self.share.halves()
        self.let_go.append(other)
        return [one.select(self.share.holds(one.classes)) for one in counted]

    def _fits(self, *counted: Cells) -> bool:
        if self.limit is None:
            return True
        cells = sum(_CELL * one.n_cells + self.side * len(one.sizes) for one in counted)
        return cells + _ROW * self._held <= self.limit

    @property
    def n_classes(self) -> int:
        """How many classes were met."""
        return sum(len(one.sizes) for one in self._counted)

    @property
    def cells(self) -> Cells:
        """All that was counted, once it is settled; there are rows."""
        return self._counted[0]

    def histograms(self, subject: Subject) -> Histograms:
        """Return the values of a subject in each class."""
        place = (self.subjects or ()).index(subject)
        own, sizes = self.cells.subjects[place], self.cells.sizes
        values, value, table = own.values, (own.pairs & LOW).astype(np.int64), None
        if self.whole is not None:
            every = self.whole.subjects[place]
            values, numbers = number_rows(np.append(every.values, own.values, axis=1))
            value, table = numbers[every.values.shape[1] :][value].astype(np.int64), every.counts
        names = self.texts[subject[0]] if len(subject) == 1 else {}
        start = np.searchsorted(own.pairs, np.arange(len(sizes) + 1, dtype=np.uint64) << HALF).astype(np.int64)
        return Histograms(
            sizes=sizes,
            start=start,
            value=value,
            count=own.counts,
            values=tuple(names[word] for word in values[0].tolist()) if names else (),
            n_values=values.shape[1],
            table=table,
        )

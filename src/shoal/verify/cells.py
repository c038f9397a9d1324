"""Classes of published rows, their sizes, and the sensitive values in each, counted while rows stream by.

Where the classes of a release do not fit into memory, what is counted of them waits in a temporary file, in parts by a
hash of what classes show; then each part is read and added up by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_starts
from shoal.sources.snapshots import RowFile, explain_full_disk
from shoal.verify.contents import RowSums
from shoal.verify.exact import Histograms
from shoal.verify.form import LabelCounts
from shoal.verify.guarantees import Subject
from shoal.verify.numbering import HALF, LOW, Number, number_rows, pair, sum_up

Texts = dict[int, str | None]  # what the words of an attribute's values stand for; None: missing
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MOST_PARTS = 1 << 12
_FEWEST, _MOST = 1 << 20, 12_000_000  # rows that wait to be counted: 8 for each cell so far, between these
_CELL, _ROW = 140, 200  # bytes that a cell and a waiting row take while they are counted, estimated on the high side


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

    @staticmethod
    def add_up(pieces: Sequence[Cells]) -> Cells:
        """Return what all of them count."""
        if len(pieces) == 1:
            return pieces[0]
        classes, owner = number_rows(np.concatenate([one.classes for one in pieces], axis=1))
        sizes = np.bincount(owner, np.concatenate([one.sizes for one in pieces]))  # exact below 2**53
        owners = np.split(owner, np.cumsum([len(one.sizes) for one in pieces[:-1]]))
        subjects = []
        for own in zip(*(one.subjects for one in pieces), strict=True):
            values, numbers = _number_values(own)
            pairs = [_renumber(*three) for three in zip(own, owners, numbers, strict=True)]
            subjects.append(Counts(values, *sum_up(np.concatenate(pairs), np.concatenate([one.counts for one in own]))))
        return Cells(classes, sizes.astype(np.int64), tuple(subjects))

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


def _number_values(pieces: Sequence[Counts]) -> tuple[KeyArray, list[CodeArray]]:
    """Return the values of all pieces, those of the first one first, and for each piece the numbers of its own."""
    values = pieces[0].values
    if all(one.values is values for one in pieces):
        return values, [np.arange(values.shape[1], dtype=np.int32)] * len(pieces)
    values, numbers = number_rows(np.concatenate([one.values for one in pieces], axis=1))
    return values, np.split(numbers, np.cumsum([one.values.shape[1] for one in pieces[:-1]]))


def _renumber(own: Counts, owner: NDArray[np.integer], value: CodeArray) -> KeyArray:
    return pair(owner[own.pairs >> HALF], value[own.pairs & LOW])


class CellFile:
    """Cells in a temporary file without a name, those of each part of the classes together."""

    def __init__(self, n_parts: int) -> None:
        self.n_parts = n_parts
        self.whole: Cells | None = None  # all of them as one class
        self._begins: list[list[int]] = [[] for _ in range(n_parts)]  # where the pieces of each part are
        self._kept = RowFile()
        self._file = self._kept.raw

    def write(self, cells: Cells) -> None:
        """Keep these cells, too; their values get the numbers that they have in the whole."""
        joined = cells.join()
        self.whole = joined if self.whole is None else Cells.add_up([self.whole, joined])
        part = _hash(cells.classes) & np.uint64(self.n_parts - 1)
        order, first = _sort_parts(part, self.n_parts)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - first[part[order]]
        columns, firsts = [[cells.classes[:, order], _narrow(cells.sizes[order])]], [first]
        for own, every in zip(cells.subjects, self.whole.subjects, strict=True):
            by_part, first = _sort_parts(part[own.pairs >> HALF], self.n_parts)
            numbers = _number_values((every, own))[1][1]
            columns.append([_renumber(own, place, numbers)[by_part], _narrow(own.counts[by_part])])
            firsts.append(first)
        with explain_full_disk():
            self._file.seek(0, 2)
            for number in np.flatnonzero(np.diff(firsts[0])):
                self._begins[number].append(self._file.tell())
                for some, first in zip(columns, firsts, strict=True):
                    for column in some:
                        np.save(self._file, column[..., first[number] : first[number + 1]])

    def read(self) -> Iterator[list[Cells]]:
        """Yield the pieces of each part that has some."""
        if self.whole is None:
            return
        for begins in self._begins:
            pieces = []
            for begin in begins:
                self._file.seek(begin)
                classes, sizes = np.load(self._file), np.load(self._file).astype(np.int64)
                subjects = [
                    Counts(every.values, np.load(self._file), np.load(self._file).astype(np.int64))
                    for every in self.whole.subjects
                ]
                pieces.append(Cells(classes, sizes, tuple(subjects)))
            if pieces:
                yield pieces


def _hash(classes: IntArray) -> KeyArray:
    """Return (n_classes,) words that are alike for no reason, given (n_columns, n_classes) numbers."""
    word = np.zeros(classes.shape[1], dtype=np.uint64)
    for column in classes:
        word = (word ^ column.view(np.uint64)) * _SPREAD
        word ^= word >> HALF
    return word


def _sort_parts(part: KeyArray, n_parts: int) -> tuple[IntArray, IntArray]:
    """Return the order that puts the parts one after another, and (n_parts + 1,) where each begins."""
    order = np.argsort(part.astype(np.uint16), kind="stable")  # by digits, as numbers of 16 bits are
    return order, np.searchsorted(part[order], np.arange(n_parts + 1, dtype=np.uint64))


def _narrow(counts: IntArray) -> NDArray[np.integer]:
    """Return the same numbers in as few bytes as they need."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


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
    # (n_sampled,) the same hashes, of rows whose order is compared
    tokens: KeyArray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))


class WaitingRows:
    """Rows that wait to be counted, most of them as pairs of numbers: of a class, and of a value of each subject."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self.n_rows = 0
        self._subjects = subjects
        self._new: list[tuple[IntArray, Mapping[str, KeyArray]]] = []  # classes and words of rows without numbers yet
        self._classes: IntArray | None = None  # (n_columns, n_classes)
        self._values: list[KeyArray] = [np.zeros((len(names), 0), dtype=np.uint64) for names in subjects]
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)
        self._pairs: list[list[KeyArray]] = [[] for _ in subjects]

    @property
    def n_classes(self) -> int:
        """How many classes there are among the rows that have numbers."""
        return len(self._sizes)

    def add(self, rows: CodedRows) -> None:
        """Take rows."""
        self._new.append((rows.classes, rows.words))
        self.n_rows += rows.rows
        if sum(classes.shape[1] for classes, _ in self._new) >= _FEWEST:
            self._number()

    def _number(self) -> None:
        """Number the classes and values of rows that have no numbers yet."""
        new, self._new = self._new, []
        if not new:
            return
        classes = np.concatenate([numbers for numbers, _ in new], axis=1)
        known = classes[:, :0] if self._classes is None else self._classes
        self._classes, owner = _number_on(known, classes)
        sizes = np.bincount(owner, minlength=self._classes.shape[1])
        sizes[: len(self._sizes)] += self._sizes
        self._sizes = sizes
        words = {name: np.concatenate([own[name] for _, own in new]) for name in new[0][1]}
        for place, names in enumerate(self._subjects):
            values = np.stack([words[name] for name in names])
            self._values[place], numbers = _number_on(self._values[place], values)
            self._pairs[place].append(pair(owner, numbers))

    def count(self) -> Cells:
        """Return the cells of all rows, of which there are some and which wait no longer."""
        self._number()
        assert self._classes is not None  # noqa: S101  there are rows
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


@dataclass(slots=True, eq=False)
class Counting:
    """What a pass over a release has found so far."""

    subjects: tuple[Subject, ...] | None  # None: classes are not asked for
    limit: int | None = None  # bytes
    side: int = 0  # further bytes that a class will take
    expected: int = 0  # rows
    rows: int = 0
    sums: RowSums = field(default_factory=RowSums)
    tokens: list[KeyArray] = field(default_factory=list)  # in the order of the rows
    texts: dict[str, Texts] = field(default_factory=dict)
    labels: dict[str, IntArray] = field(default_factory=dict)  # the rows of each label; none before the first rows
    _counted: tuple[Cells, ...] = ()  # the cells so far; none before the first rows
    _waiting: WaitingRows | None = None
    _file: CellFile | None = None  # all cells so far, if they do not fit

    def add(self, rows: CodedRows) -> None:
        """Count the next rows."""
        self._note(rows.rows, rows.sums, rows.texts, rows.label_counts)
        self.tokens.append(rows.tokens)
        if self.subjects is None or not rows.rows:
            return
        self._waiting = self._waiting or WaitingRows(self.subjects)
        self._waiting.add(rows)
        n_cells = sum(one.n_cells for one in self._counted)
        if self._file is not None or 8 * self._waiting.n_classes > _FEWEST:
            n_cells = _MOST  # classes are small, and so many rows have nearly as many cells
        if self._waiting.n_rows >= min(_MOST, max(_FEWEST, 8 * n_cells)) or not self._fits(*self._counted):
            self.settle()

    def absorb(self, other: Counting) -> None:
        """Add what was counted elsewhere."""
        self._note(other.rows, other.sums, other.texts, other.labels)
        self.tokens += other.tokens
        for cells in other._counted:
            self._join(cells)

    def _note(self, rows: int, sums: RowSums, texts: Mapping[str, Texts], labels: LabelCounts) -> None:
        self.rows += rows
        self.sums += sums
        self.labels = {name: counts + self.labels.get(name, 0) for name, counts in labels.items()} or self.labels
        for name, more in texts.items():
            known = self.texts.setdefault(name, {})
            known |= {word: text for word, text in more.items() if word not in known}

    def settle(self) -> None:
        """Count what waits."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._join(waiting.count())

    def _join(self, more: Cells) -> None:
        both = [*self._counted, more]
        if self._file is None and self._fits(*both):  # adding takes memory for both, whatever they have in common
            self._counted = (Cells.add_up(both),)
            return
        self._counted = ()
        if self._file is None:
            most = self.expected * (_CELL * (1 + len(more.subjects)) + self.side)  # bytes, if all rows are cells
            spare = 2 if self.side else 8  # small parts are added up faster, but each is looked for in a population
            n_parts = spare * most // (self.limit or 1)
            self._file = CellFile(min(1 << max(n_parts, 1).bit_length(), _MOST_PARTS))
        for cells in both:
            self._file.write(cells)

    def shares(self) -> Iterator[Cells]:
        """Yield all classes, once what waits is counted: at once or, if they do not fit, a part after another."""
        if self._file is None:
            yield from self._counted
            return
        for pieces in self._file.read():
            if self._fits(*pieces):
                yield Cells.add_up(pieces)
                continue
            cells = pieces[0]
            for more in pieces[1:]:
                cells = self._demand_fit(Cells.add_up([cells, more]))
            yield self._demand_fit(cells)

    def _demand_fit(self, cells: Cells) -> Cells:
        if not self._fits(cells):
            raise UsageError(
                "this release does not fit into memory: some of its classes take more than "
                f"{(self.limit or 0) / (1 << 20):.1f} MiB; allow more memory"
            )
        return cells

    def _fits(self, *counted: Cells) -> bool:
        if self.limit is None:
            return True
        cells = sum(_CELL * one.n_cells + self.side * len(one.sizes) for one in counted)
        return cells + _ROW * (0 if self._waiting is None else self._waiting.n_rows) <= self.limit

    def histograms(self, cells: Cells, subject: Subject) -> Histograms:
        """Return the values of a subject in each class of a share."""
        place = (self.subjects or ()).index(subject)
        own, every = cells.subjects[place], None if self._file is None else self._file.whole
        names = self.texts[subject[0]] if len(subject) == 1 else {}
        start = np.searchsorted(own.pairs, np.arange(len(cells.sizes) + 1, dtype=np.uint64) << HALF).astype(np.int64)
        return Histograms(
            sizes=cells.sizes,
            start=start,
            value=(own.pairs & LOW).astype(np.int64),
            count=own.counts,
            values=tuple(names[word] for word in own.values[0].tolist()) if names else (),
            n_values=own.values.shape[1],
            table=None if every is None else every.subjects[place].counts,
        )

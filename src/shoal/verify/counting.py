"""Classes of published rows, their sizes, and the sensitive values in each.

Where the classes of a release do not fit into memory they are counted in several passes, each over a share of them: a
pass that outgrows its memory lets half of its classes go, by a hash of what they show, and they get another pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import compiled
from shoal.verify.coding import CodedRows, Layout
from shoal.verify.exact import Histograms
from shoal.verify.kernels import paired
from shoal.verify.tally import Interner, Tally

_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_SPREAD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_MOST_BITS = 48

# Bytes, estimated on the high side from the arrays that are held.
_CLASS = 100  # its number and size
_ENTRY = 80  # a value of a class, while it is counted and judged
_WAITING = 16  # a key that is not yet summed up
_BOX, _SIDE = 100, 56  # a box, and each attribute of it, in the tree by which a population is compared


@dataclass(frozen=True, slots=True)
class Share:
    """Classes whose hashes end in the same bits; without bits, all of them."""

    ending: int = 0
    bits: int = 0

    def halves(self) -> tuple[Share, Share]:
        """Return both halves of it."""
        return Share(self.ending, self.bits + 1), Share(self.ending | 1 << self.bits, self.bits + 1)

    def holds(self, hashes: KeyArray) -> BoolArray:
        """Return (n,) whether classes with these hashes are among them."""
        return np.asarray((hashes & np.uint64((1 << self.bits) - 1)) == np.uint64(self.ending), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Tallied:
    """Classes that were counted somewhere: what they show, and what they have."""

    labels: CodeArray  # (n_quasi, n_classes); none where values are published as they are
    keys: KeyArray  # (n_classes,) what the numbers of classes begin with
    sizes: IntArray  # (n_classes,)
    entries: tuple[tuple[KeyArray, IntArray], ...]  # of each subject: distinct class << 32 | value, and their counts


@compiled
def _count_each(owner: CodeArray, sizes: IntArray) -> None:
    for i in range(owner.shape[0]):
        sizes[owner[i]] += 1


@compiled
def _hashes(keys: KeyArray, labels: CodeArray) -> KeyArray:
    """Return (n,) hashes of keys and of (n_labels, n) labels beside them."""
    out = np.empty(keys.shape[0], dtype=np.uint64)
    for i in range(keys.shape[0]):
        word = (keys[i] ^ (keys[i] >> _SHIFT)) * _SPREAD
        for a in range(labels.shape[0]):
            word = ((word ^ (word >> _SHIFT)) + np.uint64(labels[a, i])) * _SPREAD
        word = (word ^ (word >> _SHIFT)) * _MIX
        out[i] = word ^ (word >> _SHIFT)
    return out


class Counting:
    """Classes of coded rows, as far as they are in a share; each keeps the number that it got when it was met."""

    def __init__(
        self,
        layout: Layout,
        n_subjects: int,
        share: Share | None = None,
        limit: int | None = None,
        *,
        located: bool = False,
    ) -> None:
        """*limit* is in bytes; classes take more of them if a population's rows will be *located* in them."""
        self.layout = layout
        self.share = share or Share()
        self.let_go: list[Share] = []  # shares that were given up for lack of memory
        self._limit = limit
        self._side = _BOX + _SIDE * len(layout.quasi) if located else 0
        self._n_subjects = n_subjects
        self._clear()

    def _clear(self) -> None:
        self._values = Interner() if self.layout.by_values else None
        self._classes = self.layout.classes()
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)
        self._tallies = [Tally() for _ in range(self._n_subjects)]

    def add(self, rows: CodedRows, subjects: Sequence[CodeArray]) -> None:
        """Count rows; those of classes that are in another share are left out."""
        labels, keys = rows.labels[[] if self._told else list(self.layout.quasi)], rows.keys
        if self.share.bits:
            mine = self.share.holds(self._hashed(labels, keys))
            labels, keys, subjects = labels[:, mine], keys[mine], [values[mine] for values in subjects]
        owner = self._numbers(labels, keys)
        _count_each(owner, self._sizes)
        for tally, values in zip(self._tallies, subjects, strict=True):
            tally.add(paired(owner, values))
        if not self._fits():
            self.settle()

    def absorb(self, found: Tallied, numbers: Sequence[CodeArray] | None = None) -> None:
        """Add classes that were counted elsewhere; *numbers* are, for each subject, what the values have here."""
        mine = self.share.holds(self._hashed(found.labels, found.keys))
        place = np.full(len(mine), -1, dtype=np.int32)
        place[mine] = self._numbers(found.labels[:, mine], found.keys[mine])
        np.add.at(self._sizes, place[mine], found.sizes[mine])
        for subject, (tally, (keys, counts)) in enumerate(zip(self._tallies, found.entries, strict=True)):
            owner, value = place[keys >> _SHIFT], (keys & _LOW).astype(np.int32)
            if numbers is not None:
                value = numbers[subject][value]
            own = owner >= 0
            tally.add_counts(paired(owner[own], value[own]), counts[own])
        self.settle()

    def _numbers(self, labels: CodeArray, keys: KeyArray) -> CodeArray:
        """Return (n,) the numbers of classes."""
        plain = self._values
        owner = self._classes.ids(list(labels), len(keys), keys) if plain is None else plain.ids(keys)
        if self.n_classes > len(self._sizes):
            more = max(self.n_classes, len(self._sizes) * 5 // 4) - len(self._sizes)
            self._sizes = np.append(self._sizes, np.zeros(more, dtype=np.int64))
        return owner

    def _hashed(self, labels: CodeArray, keys: KeyArray) -> KeyArray:
        return _hashes(keys, np.ascontiguousarray(labels[:0] if self._told else labels))

    @property
    def _told(self) -> bool:
        """Whether keys alone tell classes apart."""
        return self._values is not None or self._classes.simple

    def settle(self) -> None:
        """Sum up all that was added; let classes go, half of them at a time, that do not fit."""
        for tally in self._tallies:
            tally.settle()
        while not self._fits():
            if self.n_classes < 2 or self.share.bits == _MOST_BITS:
                raise UsageError(
                    "this release does not fit into memory: one of its classes alone takes more than "
                    f"{(self._limit or 0) / (1 << 20):.1f} MiB; allow more memory"
                )
            self.share, other = self.share.halves()
            self.let_go.append(other)
            found = self.export()
            self._clear()
            limit, self._limit = self._limit, None
            self.absorb(found)
            self._limit = limit

    def _fits(self) -> bool:
        if self._limit is None:
            return True
        entries = sum(_ENTRY * tally.count + _WAITING * tally.waiting for tally in self._tallies)
        return _CLASS * self.n_classes + entries + self._side * self.n_classes <= self._limit

    def export(self) -> Tallied:
        """Return all that was counted, for another counting."""
        entries = tuple(tally.result() for tally in self._tallies)
        if self._values is not None:
            return Tallied(np.empty((0, self.n_classes), dtype=np.int32), self._values.keys(), self.sizes, entries)
        labels = np.ascontiguousarray(self._classes.tuples().T)
        return Tallied(labels, self._classes.first_keys(list(labels), self.n_classes), self.sizes, entries)

    @property
    def n_classes(self) -> int:
        """How many classes were met."""
        return self._classes.count if self._values is None else self._values.count

    @property
    def sizes(self) -> IntArray:
        """(n_classes,) how many rows each class has."""
        return self._sizes[: self.n_classes]

    def class_labels(self) -> CodeArray:
        """Return (n_classes, n_quasi) labels; none where values are published as they are."""
        return self._classes.tuples() if self._values is None else np.empty((self.n_classes, 0), dtype=np.int32)

    def histograms(
        self, place: int, values: tuple[str | None, ...], n_values: int, table: IntArray | None
    ) -> Histograms:
        """Return the values of a subject in each class; they are handed out once."""
        tally, self._tallies[place] = self._tallies[place], Tally(0)
        return histograms_of(tally, self.sizes, values, n_values, table)


@compiled
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

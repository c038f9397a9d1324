"""The distributions of values in the classes of a table, however many classes and values there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from shoal.audit import kernels
from shoal.audit.raw import RawTable
from shoal.core import kernels as sorting
from shoal.core.arrays import CodeArray, IntArray
from shoal.models.base import ClassHistograms

_HISTOGRAM_ENTRIES = 1 << 22
_LARGEST_KEY = 1 << 64


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Some classes, each standing for all classes with the same distribution: models cannot tell them apart."""

    histograms: ClassHistograms
    times: IntArray  # (n_classes,) classes that each stands for


@dataclass(frozen=True, slots=True, eq=False)
class ValueClasses:
    """The values of every class, ascending, with the records of each.

    In *ranked* classes values are renamed, class by class: 0 is the most frequent one, 1 the next. Whoever does not
    compare a class with the whole table cannot tell the difference, and histograms become narrow.
    """

    first: IntArray  # (n_classes + 1,) where each class starts among the items
    values: CodeArray  # (n_items,)
    records: IntArray  # (n_items,)
    n_values: int
    is_ranked: bool = False

    @classmethod
    def of(cls, raw: RawTable, values: CodeArray, n_values: int) -> Self:
        """Sort the cells by class and value, by counting."""
        _, by_value = sorting.grouped(values, n_values)
        first, by_class = sorting.grouped(raw.class_of[by_value], raw.n_classes)
        order = by_value[by_class]
        return cls(first, values[order], raw.records[order], n_values)

    def ranked(self) -> ValueClasses:
        """Return the classes with their values renamed by frequency."""
        first, counts = kernels.count_ranks(self.first, self.values, self.records)
        ranks = np.arange(len(counts), dtype=np.int64) - np.repeat(first[:-1], np.diff(first))
        return ValueClasses(first, ranks.astype(np.int32), counts, int(ranks.max()) + 1, is_ranked=True)

    @property
    def sizes(self) -> IntArray:
        """(n_classes,) records of each class."""
        return np.add.reduceat(self.records, self.first[:-1])

    def whole(self) -> IntArray:
        """Return (n_values,) the records of each value in all classes."""
        return np.bincount(self.values, weights=self.records, minlength=self.n_values).astype(np.int64)

    def kinds(self) -> tuple[IntArray, IntArray]:
        """Return one class of each kind, and how many of the kind there are.

        Small classes are told apart exactly; of the large ones, which are few, each is a kind of its own.
        """
        # A class of up to 15 records has ranks below 15, whatever the ranks of other classes.
        base, most = (16, 15) if self.is_ranked else _digits(self.n_values)
        keys = kernels.small_class_keys(self.first, self.values, self.records, base, most)
        small, large = np.flatnonzero(keys), np.flatnonzero(keys == 0)
        _, example, times = np.unique(keys[small], return_index=True, return_counts=True)
        return np.concatenate([small[example], large]), np.concatenate([times, np.ones(len(large), dtype=np.int64)])

    def alike(self) -> Iterator[Alike]:
        """Yield the distributions of one class of each kind, some at a time, so that memory stays bounded."""
        which, times = self.kinds()
        widths = np.diff(self.first)[which] if self.is_ranked else np.full(len(which), self.n_values)
        order = np.argsort(widths, kind="stable")
        which, times, widths = which[order], times[order], widths[order]
        start = 0
        while start < len(which):
            n_rows = min(max(_HISTOGRAM_ENTRIES // int(widths[start]), 1), len(which) - start)
            while n_rows > 1 and n_rows * int(widths[start + n_rows - 1]) > _HISTOGRAM_ENTRIES:
                n_rows //= 2
            stop = start + n_rows
            yield Alike(self.histograms(which[start:stop], int(widths[stop - 1])), times[start:stop])
            start = stop

    def histograms(self, which: IntArray, width: int) -> ClassHistograms:
        """Return the distributions of some classes, whose values are below *width*."""
        counts = np.zeros((len(which), width), dtype=np.int64)
        kernels.tally(which, self.first, self.values, self.records, counts)
        return ClassHistograms(counts.sum(axis=1), counts)


def _digits(n_values: int) -> tuple[int, int]:
    """Return a base above all values, and how many digits of it fit one 64-bit word."""
    base, most = n_values + 1, 1
    while base ** (most + 1) <= _LARGEST_KEY:
        most += 1
    return base, most

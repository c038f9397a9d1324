"""What privacy models say of the table as it is, however many classes it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from shoal import kernels as sorting
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.audit import kernels
from shoal.audit.raw import RawTable
from shoal.models.base import ClassHistograms, PrivacyModel, Whole

_HISTOGRAM_ENTRIES = 1 << 22
_LARGEST_KEY = 1 << 64


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One model: the strongest main parameter that all classes meet, and the records of classes that miss it."""

    achieved: float
    n_missed: int


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Some classes, each standing for all classes with the same distribution: models cannot tell them apart."""

    classes: ClassHistograms
    times: IntArray  # (n_classes,) classes that each stands for


@dataclass(frozen=True, slots=True, eq=False)
class ValueClasses:
    """The sensitive values of every class, ascending."""

    first: IntArray  # (n_classes + 1,)
    values: CodeArray  # (n_cells,)
    records: IntArray  # (n_cells,)
    n_values: int

    @classmethod
    def of(cls, raw: RawTable, values: CodeArray, n_values: int) -> Self:
        """Sort the cells by class and value, by counting."""
        _, by_value = sorting.grouped(values, n_values)
        first, by_class = sorting.grouped(raw.class_of[by_value], raw.n_classes)
        order = by_value[by_class]
        return cls(first, values[order], raw.records[order], n_values)

    def distinct_classes(self) -> tuple[IntArray, IntArray]:
        """Return one of each kind of classes, and how many of the kind there are.

        Small classes are told apart exactly; of the large ones, which are few, each is a kind of its own.
        """
        base, most = self.n_values + 1, 1
        while base ** (most + 1) <= _LARGEST_KEY:
            most += 1
        keys = kernels.small_class_keys(self.first, self.values, self.records, base, most)
        small, large = np.flatnonzero(keys), np.flatnonzero(keys == 0)
        _, example, times = np.unique(keys[small], return_index=True, return_counts=True)
        return np.concatenate([small[example], large]), np.concatenate([times, np.ones(len(large), dtype=np.int64)])

    def histograms(self) -> Iterator[Alike]:
        """Yield the distributions of some classes at a time, so that memory stays bounded."""
        which, times = self.distinct_classes()
        step = max(_HISTOGRAM_ENTRIES // self.n_values, 1)
        for start in range(0, len(which), step):
            chosen = which[start : start + step]
            counts = np.zeros((len(chosen), self.n_values), dtype=np.int64)
            kernels.tally(chosen, self.first, self.values, self.records, counts)
            yield Alike(ClassHistograms(counts.sum(axis=1), counts), times[start : start + step])

    def whole(self) -> IntArray:
        """Return (n_values,) the records of each value."""
        return np.bincount(self.values, weights=self.records, minlength=self.n_values).astype(np.int64)


def measure(models: Sequence[PrivacyModel], whole: Whole, histograms: Iterator[Alike]) -> tuple[Measured, ...]:
    """Return what each model says of all classes together."""
    worst: list[float | None] = [None] * len(models)
    missed = [0] * len(models)
    for alike in histograms:
        for number, model in enumerate(models):
            reached = model.worst(alike.classes, whole)
            least = min if model.achieved_is == "at least" else max
            before = worst[number]
            worst[number] = reached if before is None else least(before, reached)
            fails: BoolArray = ~model.holds(alike.classes, whole)
            missed[number] += int((alike.classes.sizes * alike.times)[fails].sum())
    return tuple(
        Measured(0.0 if reached is None else reached, records) for reached, records in zip(worst, missed, strict=True)
    )

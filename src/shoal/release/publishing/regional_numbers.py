"""What rows of regions publish, under numbers: first those of their region, then those of the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.engines.local import SampledCells
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.labels import PublishedColumn
from shoal.release.publishing.columns import ClassColumn, ValueColumn, coded
from shoal.release.sensitive_labels import SensitiveColumn, kept_leaves


@dataclass(frozen=True, slots=True, eq=False)
class LeafRanges:
    """Distinct ranges of leaves; the number of a range is its place."""

    lo: CodeArray  # (n_ranges,)
    hi: CodeArray  # (n_ranges,)

    @classmethod
    def numbered(cls, lo: CodeArray, hi: CodeArray) -> tuple[LeafRanges, CodeArray]:
        """Return the distinct ones among some ranges, and (n,) the number of each.

        >>> ranges, numbers = LeafRanges.numbered(np.array([4, 0, 4]), np.array([8, 4, 8]))
        >>> ranges.lo.tolist(), ranges.hi.tolist(), numbers.tolist()
        ([0, 4], [4, 8], [1, 0, 1])
        """
        ends = lo.astype(np.int64) << 32 | hi.astype(np.int64)
        distinct, which = np.unique(ends, return_inverse=True)
        ranges = cls((distinct >> 32).astype(np.int32), (distinct & 0xFFFFFFFF).astype(np.int32))
        return ranges, which.reshape(-1).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class SensitiveFindings:
    """What a region tells of one sensitive attribute."""

    kept: IntArray  # the leaves that some published record keeps
    ranges: LeafRanges  # what the others publish instead

    @classmethod
    def of(cls, place: int, n_values: int, problem: Problem, plan: Plan) -> tuple[SensitiveFindings, CodeArray | None]:
        """Return them, and (n_targets,) what each target publishes: *n_values* and the number of a range, or KEPT.

        None says that every record of the region keeps its value.
        """
        kept = np.array(kept_leaves(plan, place, problem), dtype=np.int64)
        if plan.targets is None:
            nothing = np.zeros(0, dtype=np.int32)
            return cls(kept, LeafRanges(nothing, nothing)), None
        lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
        ranged = np.flatnonzero(lo != KEPT)
        ranges, found = LeafRanges.numbered(lo[ranged], hi[ranged])
        numbers = np.full(len(lo), KEPT, dtype=np.int32)
        numbers[ranged] = n_values + found
        return cls(kept, ranges), numbers


class RangeNumbers:
    """Numbers for the leaf ranges of one attribute, in the order in which they come."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._width = attribute.taxonomy.n_leaves + 1
        self._known = np.zeros(0, dtype=np.int64)  # (n_ranges,) ascending
        self._number = np.zeros(0, dtype=np.int32)  # (n_ranges,)

    def numbers(self, given: LeafRanges) -> CodeArray:
        """Return (n_ranges,) the number of each range among all that ever came."""
        ranges = given.lo.astype(np.int64) * self._width + given.hi
        new = np.setdiff1d(ranges, self._known, assume_unique=True)
        known = np.concatenate([self._known, new])
        number = np.concatenate([self._number, len(self._known) + np.arange(len(new), dtype=np.int32)])
        order = np.argsort(known)
        self._known, self._number = known[order], number[order].astype(np.int32)
        return np.asarray(self._number[np.searchsorted(self._known, ranges)], dtype=np.int32)

    def ranges(self) -> LeafRanges:
        """Return all of them in the order of their numbers."""
        ranges = self._known[np.argsort(self._number)]
        return LeafRanges((ranges // self._width).astype(np.int32), (ranges % self._width).astype(np.int32))

    def column(self, shown: IntArray) -> PublishedColumn:
        """Return the labels of all ranges, given the leaves that published records have; classes are their numbers."""
        ranges = self.ranges()
        return PublishedColumn.of(self._attribute, ranges.lo, ranges.hi, shown)


@dataclass(frozen=True, slots=True, eq=False)
class Renumbering:
    """From the numbers of one region to those of all."""

    quasi: tuple[CodeArray | None, ...]  # (n_ranges,) of each attribute; None: numbers are indices of values
    sensitive: tuple[CodeArray, ...]  # (n_ranges,) of each attribute
    n_values: tuple[int, ...]  # of each sensitive attribute: smaller numbers are indices of values

    def of_quasi(self, place: int, numbers: CodeArray) -> CodeArray:
        """Return (n,) what the numbers of one quasi attribute become."""
        table = self.quasi[place]
        return numbers if table is None else table[numbers]

    def of_sensitive(self, place: int, numbers: CodeArray) -> CodeArray:
        """Return (n,) what the numbers of one sensitive attribute become; those of values, and KEPT, stay."""
        first = self.n_values[place]
        ranged = np.flatnonzero(numbers >= first)
        if not len(ranged):
            return numbers
        out = numbers.copy()
        out[ranged] = first + self.sensitive[place][numbers[ranged] - first]
        return out

    def rows(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the region under the numbers of all."""
        places = [(self.of_quasi, place) for place in range(len(self.quasi))]
        places += [(self.of_sensitive, place) for place in range(len(self.sensitive))]
        for column, (renumbered, place) in enumerate(places):
            numbers = renumbered(place, waiting.column(column).to_numpy())
            waiting = waiting.set_column(column, waiting.schema.names[column], pa.array(numbers))
        return waiting


@dataclass(frozen=True, slots=True, eq=False)
class RegionalColumns:
    """What the numbers mean that rows wait under."""

    carried: tuple[str, ...]
    quasi: tuple[ClassColumn, ...]
    sensitive: tuple[SensitiveColumn | None, ...]  # None: published as it is
    sensitive_names: tuple[str, ...]
    values: tuple[pa.Array, ...]  # of each sensitive attribute

    def published(self, waiting: pa.Table, names: Sequence[str]) -> pa.RecordBatch:
        """Return rows as they are published, with the columns in the order of their *names*."""
        columns = iter(waiting.columns)
        arrays: dict[str, pa.Array] = {}
        for column in self.quasi:
            arrays[column.attribute.name] = column.values(next(columns).to_numpy())
        for place, name in enumerate(self.sensitive_names):
            arrays[name] = self._sensitive(place, next(columns).to_numpy())
        for name in self.carried:
            arrays[name] = next(columns).combine_chunks()
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))

    def _sensitive(self, place: int, numbers: CodeArray) -> pa.Array:
        column, values = self.sensitive[place], self.values[place]
        if column is None:
            return coded(numbers, values)
        ranged = numbers >= len(values)
        return column.values(np.where(ranged, numbers - len(values), -1), np.where(ranged, -1, numbers))


class Numbering:
    """Numbers what all regions publish, one region after another."""

    def __init__(self, policy: Policy, trees: Sequence[Tree], looked: SampledCells) -> None:
        n_quasi = len(policy.names("quasi"))
        self._policy, self._looked = policy, looked
        self._quasi = [tree.attribute for tree in trees[:n_quasi]]
        self._sensitive = [tree.attribute for tree in trees[n_quasi:]]
        self._ranges = [RangeNumbers(attribute) for attribute in self._quasi]
        self._sensitive_ranges = [RangeNumbers(attribute) for attribute in self._sensitive]
        self._kept = [np.zeros(one.taxonomy.n_leaves, dtype=np.bool_) for one in self._sensitive]
        self._values = tuple(self._values_of(attribute) for attribute in self._sensitive)

    def add(self, quasi: Sequence[LeafRanges | None], sensitive: Sequence[SensitiveFindings]) -> Renumbering:
        """Take a region; return what its numbers become."""
        for found, kept in zip(sensitive, self._kept, strict=True):
            kept[found.kept] = True
        return Renumbering(
            tuple(
                None if given is None else numbers.numbers(given)
                for numbers, given in zip(self._ranges, quasi, strict=True)
            ),
            tuple(
                numbers.numbers(given.ranges) for numbers, given in zip(self._sensitive_ranges, sensitive, strict=True)
            ),
            tuple(map(len, self._values)),
        )

    def columns(self, published: Sequence[BoolArray]) -> RegionalColumns:
        """Return what all numbers mean, given (n_leaves,) of each attribute the leaves that published records have."""
        as_values = self._policy.method.publishes == "values"
        return RegionalColumns(
            tuple(self._policy.names("insensitive")),
            tuple(
                value_column(attribute, self._values_of(attribute))
                if as_values
                else numbers.column(np.flatnonzero(shown))
                for attribute, numbers, shown in zip(self._quasi, self._ranges, published, strict=False)
            ),
            tuple(map(self._sensitive_column, range(len(self._sensitive)), published[len(self._quasi) :])),
            tuple(attribute.name for attribute in self._sensitive),
            self._values,
        )

    def _sensitive_column(self, place: int, shown: BoolArray) -> SensitiveColumn | None:
        """Return the texts of all regions; None if every record keeps its value."""
        ranges = self._sensitive_ranges[place].ranges()
        if not len(ranges.lo):
            return None
        occurring, kept = (np.flatnonzero(leaves).tolist() for leaves in (shown, self._kept[place]))
        ends = np.append(ranges.lo, np.int32(KEPT)), np.append(ranges.hi, np.int32(0))  # the last keeps its value
        return SensitiveColumn.of_ranges(self._sensitive[place], self._looked, occurring, kept, *ends)

    def _values_of(self, attribute: Attribute) -> pa.Array:
        return self._looked.dictionaries[self._looked.columns.index(attribute.name)].values


def value_column(attribute: Attribute, values: pa.Array) -> ValueColumn:
    """Return a quasi attribute whose values are published as they are; classes are indices of its dictionary."""
    index = np.append(np.arange(len(values), dtype=np.int32), np.int32(-1))  # the last is that of class -1
    return ValueColumn(attribute, index, values)

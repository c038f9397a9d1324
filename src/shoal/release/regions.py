"""What the regions of a table larger than memory publish together: numbers, sums, and rows that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.plan.counted import SampledCells, SeenValues
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.columns import (
    ClassColumn,
    PublishedColumn,
    SensitiveColumn,
    ValueColumn,
    encode_values,
    find_kept_leaves,
    pair_labels,
)
from shoal.release.forms.base import find_form
from shoal.release.guarantees import Guarantee, measure_guarantees
from shoal.release.publication import Engine, Hiding, Publication, PublishedRows
from shoal.release.tallies import LevelTally, ShareTally, class_shares, levels_told, plan_levels
from shoal.release.witness import ROW
from shoal.taxonomies.parse import texts
from shoal.utility.base import Pool, Total, Utility


@dataclass(frozen=True, slots=True, eq=False)
class LeafRanges:
    """Distinct ranges of leaves; the number of a range is its place."""

    lo: CodeArray  # (n_ranges,)
    hi: CodeArray  # (n_ranges,)

    @classmethod
    def number(cls, lo: CodeArray, hi: CodeArray) -> tuple[LeafRanges, CodeArray]:
        """Return the distinct ones among some ranges, and (n,) the number of each.

        >>> ranges, numbers = LeafRanges.number(np.array([4, 0, 4]), np.array([8, 4, 8]))
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
        kept = np.array(find_kept_leaves(plan, place, problem), dtype=np.int64)
        if plan.targets is None:
            nothing = np.zeros(0, dtype=np.int32)
            return cls(kept, LeafRanges(nothing, nothing)), None
        lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
        ranged = np.flatnonzero(lo != KEPT)
        ranges, found = LeafRanges.number(lo[ranged], hi[ranged])
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

    def publish(self, waiting: pa.Table, names: Sequence[str]) -> pa.RecordBatch:
        """Return rows as they are published, with the columns in the order of their *names*."""
        columns = iter(waiting.columns)
        arrays: dict[str, pa.Array] = {}
        for column in self.quasi:
            arrays[column.attribute.name] = column.values(next(columns).to_numpy())
        for place, name in enumerate(self.sensitive_names):
            arrays[name] = self._sensitive(place, next(columns).to_numpy())
        for name in self.carried:
            arrays[name] = next(columns).combine_chunks()
        shown = list(names)
        if waiting.column_names[-1] == ROW:
            shown.append(ROW)
            arrays[ROW] = next(columns).combine_chunks()
        return pa.RecordBatch.from_arrays([arrays[name] for name in shown], names=shown)

    def _sensitive(self, place: int, numbers: CodeArray) -> pa.Array:
        column, values = self.sensitive[place], self.values[place]
        if column is None:
            return encode_values(numbers, values)
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
        as_values = find_form(self._policy.method.form).as_they_are
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


class SizeTally:
    """How many classes there are of each size."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()

    def add(self, sizes: IntArray) -> None:
        """Take some classes."""
        found, times = np.unique(sizes, return_counts=True)
        self._classes.update(dict(zip(found.tolist(), times.tolist(), strict=True)))

    def join(self, other: SizeTally) -> None:
        """Take the classes of another tally."""
        self._classes.update(other._classes)

    def hiding(self) -> Hiding:
        """Return the sizes, ascending, and how many classes have each."""
        sizes = np.array(sorted(self._classes), dtype=np.int64)
        return Hiding(sizes, np.array([self._classes[size] for size in sizes.tolist()], dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What the plan of one region adds to the whole; it grows with values and ranges, not with records."""

    n_records: int
    n_withheld: int
    reached: tuple[Guarantee, ...]
    utility: Pool
    sizes: SizeTally
    sizes_before: SizeTally
    warnings: tuple[str, ...]
    generalized: Mapping[str, int]  # records, by sensitive attributes
    published: tuple[IntArray, ...]  # the leaves of each attribute that some published record has
    quasi: tuple[LeafRanges | None, ...]  # what numbers of rows mean; None: they are indices of values
    sensitive: tuple[SensitiveFindings, ...]
    levels: Mapping[str, LevelTally]  # by attributes that have labels
    shares: Mapping[str, ShareTally]  # by sensitive attributes
    labelled: pa.RecordBatch | None  # rows with generalized values, their own values, and how many records these are

    @classmethod
    def of(
        cls,
        policy: Policy,
        problem: Problem,
        plan: Plan,
        sizes_before: IntArray,
        quasi: Sequence[LeafRanges | None],
        sensitive: Sequence[SensitiveFindings],
        labelled: pa.RecordBatch | None = None,
    ) -> Findings:
        """Take all of it from a plan; *sizes_before* are those of the classes by the values as they were."""
        utility, sizes, before = Pool(), SizeTally(), SizeTally()
        utility.add(problem, plan)
        sizes.add(plan.sizes[plan.sizes > 0])
        before.add(sizes_before)
        cell, class_of, _, _ = plan.pieces(problem.cells.counts)
        shown = cell[class_of >= 0]
        return cls(
            n_records=problem.cells.n_records,
            n_withheld=plan.n_withheld,
            reached=measure_guarantees(problem, plan, policy),
            utility=utility,
            sizes=sizes,
            sizes_before=before,
            warnings=plan.warnings,
            generalized=plan.count_generalized(problem),
            published=tuple(kernels.occurring(codes[shown]) for codes in problem.cells.codes),
            quasi=tuple(quasi),
            sensitive=tuple(sensitive),
            levels=plan_levels(problem, plan) if find_form(policy.method.form).generalizes else {},
            shares={one.name: class_shares(problem, plan, place) for place, one in enumerate(problem.sensitive)},
            labelled=labelled,
        )


@dataclass(slots=True, eq=False)
class Pooled:
    """What regions add up to: as if they had been planned at once with these classes."""

    trees: Sequence[Tree]
    n_quasi: int
    n_regions: int = 0
    n_records: int = 0
    n_withheld: int = 0
    reached: tuple[Guarantee, ...] = ()  # the worst of each of the policy's models
    utility: Pool = field(default_factory=Pool)
    sizes: SizeTally = field(default_factory=SizeTally)
    sizes_before: SizeTally = field(default_factory=SizeTally)
    warnings: dict[str, None] = field(default_factory=dict)
    generalized: Counter[str] = field(default_factory=Counter)
    published: list[BoolArray] = field(default_factory=list)  # (n_leaves,) of each attribute, quasi ones first
    levels: dict[str, LevelTally] = field(default_factory=dict)
    shares: dict[str, ShareTally] = field(default_factory=dict)
    labelled: list[pa.RecordBatch] = field(default_factory=list)  # under the numbers of the whole table

    def __post_init__(self) -> None:
        self.published = [np.zeros(tree.attribute.taxonomy.n_leaves, dtype=np.bool_) for tree in self.trees]

    def add(self, found: Findings) -> None:
        """Take one region."""
        self.n_regions += 1
        self.n_records += found.n_records
        self.n_withheld += found.n_withheld
        before = self.reached or found.reached
        self.reached = tuple(_worse(*both) for both in zip(before, found.reached, strict=True))
        self.utility.join(found.utility)
        self.sizes.join(found.sizes)
        self.sizes_before.join(found.sizes_before)
        self.warnings |= dict.fromkeys(found.warnings)
        self.generalized.update(found.generalized)
        for leaves, shown in zip(self.published, found.published, strict=True):
            leaves[shown] = True
        for name, tally in found.levels.items():
            self.levels[name] = self.levels[name] + tally if name in self.levels else tally
        for name, shares in found.shares.items():
            self.shares[name] = self.shares[name] + shares if name in self.shares else shares


def _worse(one: Guarantee, other: Guarantee) -> Guarantee:
    worse = min if one.model.achieved_is == "at least" else max
    return Guarantee(one.model, worse(one.achieved, other.achieved))


_NOT_ASKED = (
    "the table is larger than the memory allowed, so it was planned region by region, and measures of utility that "
    "look at all of it at once were left out"
)


class Heaps(Protocol):
    """Rows of all regions that wait to be published."""

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows, in random order, under numbers; they can be had once."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionalPublication(Publication):
    """One part: every row is a record, under the labels or the values of its class in its region.

    The rows wait: the number of what they publish of each quasi attribute, the indices of their sensitive values, and
    what is carried.
    """

    looked: SampledCells
    pooled: Pooled
    columns: RegionalColumns
    waiting: Heaps
    n_left_out: int  # records without some value

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """The quasi attributes, in the order of their importance."""
        return tuple(tree.attribute for tree in self.pooled.trees[: self.pooled.n_quasi])

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """The sensitive attributes."""
        return tuple(tree.attribute for tree in self.pooled.trees[self.pooled.n_quasi :])

    @property
    def seen(self) -> SeenValues:
        """The values that the source has of them."""
        return self.looked

    @property
    def n_source_rows(self) -> int:
        """Number of rows that were read."""
        return self.looked.n_rows

    @property
    def n_rows(self) -> int:
        """Number of published records."""
        return self.pooled.n_records - self.pooled.n_withheld

    @property
    def n_withheld(self) -> int:
        """Number of records that the plans leave out."""
        return self.pooled.n_withheld

    @property
    def n_dropped(self) -> int:
        """Number of records left out because a value is missing."""
        return self.n_left_out

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the data holder should know."""
        return (*self.pooled.warnings, _NOT_ASKED)

    @property
    def search(self) -> Mapping[str, Any]:
        """How many regions there were, and on what share of the records they were cut."""
        return {"regions": self.pooled.n_regions, "sampled_share": self.looked.share}

    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the attribute's labels, if it has some, or how its values are read."""
        return self.columns.quasi[place].describe()

    def sensitive_column(self, place: int) -> SensitiveColumn | None:
        """Return the texts of a generalized sensitive attribute; None if it is published as it is."""
        return self.columns.sensitive[place]

    def count_generalized(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return dict(self.pooled.generalized)

    def tabulate_labels(self) -> pa.Table | None:
        """Return what records publish and have of which some value is generalized, if labels are defended."""
        if not self.pooled.labelled:
            return None
        waiting = pa.Table.from_batches(self.pooled.labelled).combine_chunks()
        names, n_numbers = [one.name for one in (*self.quasi, *self.sensitive)], len(self.quasi) + len(self.sensitive)
        published = replace(self.columns, carried=()).publish(waiting.select(range(n_numbers)), names)
        values = {
            one.name: encode_values(waiting.column(n_numbers + place).combine_chunks().to_numpy(), texts(own))
            for place, (one, own) in enumerate(zip(self.sensitive, self.columns.values, strict=True))
            if self.columns.sensitive[place] is not None
        }
        return pair_labels(published, values, waiting.column("records").to_numpy())

    def levels(self) -> dict[str, Any]:
        """Return how many records publish a value of which level, for each attribute with labels."""
        return levels_told(self.pooled.levels, self.pooled.generalized, self.policy.names("sensitive"))

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of what is published of each sensitive attribute, in the whole and in classes."""
        return {one.name: self.pooled.shares[one.name].as_dict(one.taxonomy) for one in self.sensitive}

    def find_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return np.flatnonzero(self.pooled.published[place])

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the worst that some region reaches."""
        return self.pooled.reached

    def utility(self, *, expensive: bool = False) -> Utility:  # noqa: ARG002
        """Return the measures that can be added up over regions."""
        total = Total(self.quasi, self.sensitive, self.pooled.n_records, self.pooled.n_withheld)
        return self.pooled.utility.measure(total)

    def hiding(self) -> Hiding:
        """Return the sizes of classes."""
        return self.pooled.sizes.hiding()

    def hiding_before(self) -> Hiding:
        """Return the sizes of classes by the values in the source."""
        return self.pooled.sizes_before.hiding()

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows in random order; they can be had once."""
        return PublishedRows(self._batches(progress))

    def _batches(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        (names,), written = self.parts, 0
        with progress.step("writing", self.n_rows) as step:
            for heap in self.waiting.heaps():
                yield self.columns.publish(heap, names)
                written += heap.num_rows
                step.advance(heap.num_rows)
        if written != self.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")

"""Generalization region by region: what the regions of a table larger than memory publish together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.chance import Chance
from shoal.encoding import Tree
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.looking import SeenValues
from shoal.errors import InputError
from shoal.guarantees import Guarantee, achieved
from shoal.labels import PublishedColumn
from shoal.plan import KEPT, Plan
from shoal.policy import Policy
from shoal.problem import Attribute, Problem
from shoal.progress import Progress
from shoal.publishing.columns import ClassColumn, coded
from shoal.publishing.publication import Publication, PublishedRows
from shoal.publishing.values import ValueColumn
from shoal.risk.sizes import class_risks
from shoal.sensitive_labels import SensitiveColumn, kept_leaves
from shoal.shuffling import Shuffler
from shoal.utility.base import Pool, Total, Utility

_NOT_ASKED = (
    "the table is larger than the memory allowed, so it was planned region by region, and measures of utility that "
    "look at all of it at once were left out"
)


class RangeNumbers:
    """Numbers for the leaf ranges of one attribute, in the order in which they come."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._width = attribute.taxonomy.n_leaves + 1
        self._known = np.zeros(0, dtype=np.int64)  # (n_ranges,) ascending
        self._number = np.zeros(0, dtype=np.int32)  # (n_ranges,)

    def numbers(self, lo: CodeArray, hi: CodeArray) -> CodeArray:
        """Return (n_classes,) the number of each class's range."""
        ranges, which = np.unique(lo.astype(np.int64) * self._width + hi, return_inverse=True)
        new = np.setdiff1d(ranges, self._known, assume_unique=True)
        known = np.concatenate([self._known, new])
        number = np.concatenate([self._number, len(self._known) + np.arange(len(new), dtype=np.int32)])
        order = np.argsort(known)
        self._known, self._number = known[order], number[order].astype(np.int32)
        numbers: CodeArray = self._number[np.searchsorted(self._known, ranges)]
        return np.asarray(numbers[which.reshape(-1)], dtype=np.int32)

    def ranges(self) -> tuple[CodeArray, CodeArray]:
        """Return (n_ranges,) lo and hi in the order of their numbers."""
        ranges = self._known[np.argsort(self._number)]
        return (ranges // self._width).astype(np.int32), (ranges % self._width).astype(np.int32)

    def column(self) -> PublishedColumn:
        """Return the labels of all ranges; classes are their numbers."""
        return PublishedColumn.of(self._attribute, *self.ranges())


class SizeTally:
    """How many classes there are of each size."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()

    def add(self, sizes: IntArray) -> None:
        """Take some classes."""
        found, times = np.unique(sizes, return_counts=True)
        self._classes.update(dict(zip(found.tolist(), times.tolist(), strict=True)))

    def risks(self) -> dict[str, Any]:
        """Return how easily records are found by their class."""
        sizes = np.array(sorted(self._classes), dtype=np.int64)
        return class_risks(sizes, np.array([self._classes[size] for size in sizes.tolist()], dtype=np.int64))


class SensitiveNumbers:
    """What records publish of one sensitive attribute: the index of a value or, after all those, that of a range."""

    def __init__(self, place: int, attribute: Attribute, looked: SampledCells) -> None:
        self._place, self._attribute, self._looked = place, attribute, looked
        self._column = looked.columns.index(attribute.name)
        self._n_values = len(looked.dictionaries[self._column].values)
        self._ranges = RangeNumbers(attribute)
        self._occurring = np.zeros(attribute.taxonomy.n_leaves, dtype=np.bool_)
        self._kept = np.zeros(attribute.taxonomy.n_leaves, dtype=np.bool_)

    def add(self, problem: Problem, plan: Plan) -> CodeArray | None:
        """Take a region; return (n_targets,) the number of each target's range, KEPT where there is none.

        None says that every record of the region keeps its value.
        """
        leaves = problem.cells.codes[len(problem.quasi) + self._place]
        self._occurring[kernels.occurring(leaves)] = True
        self._kept[kept_leaves(plan, self._place, problem)] = True
        if plan.targets is None:
            return None
        lo, hi = plan.targets.lo[:, self._place], plan.targets.hi[:, self._place]
        numbers = np.full(len(lo), KEPT, dtype=np.int32)
        ranged = np.flatnonzero(lo != KEPT)
        numbers[ranged] = self._n_values + self._ranges.numbers(lo[ranged], hi[ranged])
        return numbers

    def column(self) -> SensitiveColumn | None:
        """Return the texts of all regions; None if every record keeps its value."""
        lo, hi = self._ranges.ranges()
        if not len(lo):
            return None
        occurring, kept = np.flatnonzero(self._occurring).tolist(), np.flatnonzero(self._kept).tolist()
        ends = np.append(lo, np.int32(KEPT)), np.append(hi, np.int32(0))  # the last target keeps its value
        return SensitiveColumn.of_ranges(self._attribute, self._looked, occurring, kept, *ends)

    def values(self, numbers: CodeArray, column: SensitiveColumn | None) -> pa.Array:
        """Return what rows publish, given the numbers that they waited under."""
        if column is None:
            return coded(numbers, self._looked.dictionaries[self._column].values)
        ranged = numbers >= self._n_values
        targets = np.where(ranged, numbers - self._n_values, -1)
        return column.values(targets, np.where(ranged, -1, numbers))


@dataclass(slots=True, eq=False)
class Pooled:
    """What regions add up to: as if they had been planned at once with these classes."""

    policy: Policy
    trees: Sequence[Tree]
    n_quasi: int
    n_records: int = 0
    n_withheld: int = 0
    reached: dict[int, Guarantee] = field(default_factory=dict)  # by the place of the policy's model
    utility: Pool = field(default_factory=Pool)
    sizes: SizeTally = field(default_factory=SizeTally)
    sizes_before: SizeTally = field(default_factory=SizeTally)
    warnings: dict[str, None] = field(default_factory=dict)
    generalized: Counter[str] = field(default_factory=Counter)  # records, by sensitive attributes
    published: list[BoolArray] = field(default_factory=list)  # (n_leaves,) of each attribute, quasi ones first

    def __post_init__(self) -> None:
        self.published = [np.zeros(tree.attribute.taxonomy.n_leaves, dtype=np.bool_) for tree in self.trees]

    def add(self, problem: Problem, plan: Plan) -> None:
        """Take the plan of one region."""
        self.n_records += problem.cells.n_records
        self.n_withheld += plan.n_withheld
        for place, found in enumerate(achieved(problem, plan, self.policy)):
            worse = min if found.model.achieved_is == "at least" else max
            before = self.reached.get(place, found)
            self.reached[place] = Guarantee(found.model, worse(before.achieved, found.achieved))
        self.utility.add(problem, plan)
        self.sizes.add(plan.sizes[plan.sizes > 0])
        self.warnings |= dict.fromkeys(plan.warnings)
        self.generalized.update(plan.generalized_sensitive(problem))
        cell, class_of, _, _ = plan.pieces(problem.cells.counts)
        shown = cell[class_of >= 0]
        for leaves, codes in zip(self.published, problem.cells.codes, strict=True):
            leaves[kernels.occurring(codes[shown])] = True


@dataclass(frozen=True, slots=True, eq=False)
class RegionalPublication(Publication):
    """One part: every row is a record, under the labels or the values of its class in its region.

    The rows wait in the shuffler: the number of what they publish of each quasi attribute, the indices of their
    sensitive values, and what is carried.
    """

    looked: SampledCells
    pooled: Pooled
    columns: tuple[ClassColumn, ...]
    sensitive_numbers: tuple[SensitiveNumbers, ...]
    sensitive_columns: tuple[SensitiveColumn | None, ...]  # None: published as it is
    shuffler: Shuffler
    n_left_out: int  # records without some value
    n_regions: int

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
        return {"regions": self.n_regions, "sampled_share": self.looked.share}

    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the attribute's labels, if it has some, or how its values are read."""
        return self.columns[place].describe()

    def sensitive_column(self, place: int) -> SensitiveColumn | None:
        """Return the texts of a generalized sensitive attribute; None if it is published as it is."""
        return self.sensitive_columns[place]

    def generalized_sensitive(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return dict(self.pooled.generalized)

    def published_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return np.flatnonzero(self.pooled.published[place])

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the worst that some region reaches."""
        return tuple(self.pooled.reached[place] for place in range(len(self.policy.privacy)))

    def utility(self, *, expensive: bool = False) -> Utility:  # noqa: ARG002
        """Return the measures that can be added up over regions."""
        total = Total(self.quasi, self.sensitive, self.pooled.n_records, self.pooled.n_withheld)
        return self.pooled.utility.measured(total)

    def risks(self) -> dict[str, Any]:
        """Return how easily records are found by their class."""
        return self.pooled.sizes.risks()

    def risks_before(self) -> dict[str, Any]:
        """Return how easily records are found by their values in the source."""
        return self.pooled.sizes_before.risks()

    def rows(self, engine: LocalEngine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows in random order; they can be had once."""
        return PublishedRows(self._batches(progress))

    def _batches(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        written = 0
        with progress.step("writing", self.n_rows) as step:
            for heap in self.shuffler.heaps():
                yield self._published(heap)
                written += heap.num_rows
                step.advance(heap.num_rows)
        if written != self.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")

    def _published(self, heap: pa.Table) -> pa.RecordBatch:
        waiting = iter(heap.columns)
        arrays: dict[str, pa.Array] = {}
        for column in self.columns:
            arrays[column.attribute.name] = column.values(next(waiting).combine_chunks().to_numpy())
        for attribute, numbers, own in zip(self.sensitive, self.sensitive_numbers, self.sensitive_columns, strict=True):
            arrays[attribute.name] = numbers.values(next(waiting).combine_chunks().to_numpy(), own)
        for name in self.policy.names("insensitive"):
            arrays[name] = next(waiting).combine_chunks()
        (names,) = self.parts
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))


def value_column(attribute: Attribute, looked: SampledCells) -> ValueColumn:
    """Return a quasi attribute whose values are published as they are; classes are indices of its dictionary."""
    values = looked.dictionaries[looked.columns.index(attribute.name)].values
    index = np.append(np.arange(len(values), dtype=np.int32), np.int32(-1))  # the last is that of class -1
    return ValueColumn(attribute, index, values)

"""One region of a table larger than memory: counted, planned, and its rows made ready to be shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.progress import Silent
from shoal.core.randomness import Chance
from shoal.engines.local import CountedCells, SampledCells
from shoal.engines.partitions.budget import Budget, needed_memory
from shoal.engines.partitions.settling import Settled
from shoal.plan.cells import Run, RunStack
from shoal.plan.plan import KEPT, WITHHELD, Dealer, Plan
from shoal.policy.binding import WholeTable
from shoal.policy.encoding import Encoding, Region, Tree, encode_cells
from shoal.policy.policy import Policy
from shoal.release.regions import Findings, LeafRanges, Renumbering, SensitiveFindings

# The keys and the carried columns of all rows of a region, some at a time; they can be read again.
Waiting: TypeAlias = Callable[[], Iterator[tuple[KeyArray, pa.Table]]]


@dataclass(frozen=True, slots=True, eq=False)
class RegionPlanner:
    """Plans the regions of one table, each from its own rows and from what is known of the whole."""

    policy: Policy
    trees: tuple[Tree, ...]
    looked: SampledCells  # its values; the sample is not needed any more
    whole: WholeTable
    budget: Budget

    def plan(self, region: Settled, waiting: Waiting, rng: np.random.Generator) -> PlannedRegion:
        """Count one region and plan it; the result depends on its rows, their order and *rng* alone."""
        counted = self._counted(region, waiting)
        box = Region(region.lo, region.hi, self.looked, self.whole)
        encoding = encode_cells(counted, self.policy, self.trees, region=box)
        plan, problem = self._planned(encoding, rng), encoding.problem
        ranges, numbers = self._numbered(counted, plan)
        sensitive, ranged = [], []
        for place, name in enumerate(self.policy.names("sensitive")):
            n_values = len(self.looked.dictionaries[self.looked.columns.index(name)].values)
            found, targets = SensitiveFindings.of(place, n_values, problem, plan)
            sensitive.append(found)
            ranged.append(targets)
        sizes_before = counted.class_sizes(self.policy.names("quasi"))
        rows = _Rows(counted, plan, numbers, self._indices(counted), ranged)
        labelled = rows.labelled(problem.cells.counts) if self.policy.method.defends_labels else None
        findings = Findings.of(self.policy, problem, plan, sizes_before, ranges, sensitive, labelled)
        most_rows, carries = self.budget.heap_rows, bool(self.policy.names("insensitive"))
        return PlannedRegion(findings, rows, problem.cells.counts, waiting if carries else None, most_rows)

    def _counted(self, region: Settled, waiting: Waiting) -> CountedCells:
        """Reduce the rows of a region to its cells."""
        stack, looked = RunStack(), self.looked
        for keys, _ in waiting():
            stack.push(Run.of_rows(keys))
        run = stack.total()
        if len(run.counts) > self.budget.cells:
            raise UsageError(
                f"a part of the table with {len(run.counts):,} combinations of values cannot be cut so that both sides "
                f"meet the models; it takes {self._needed(len(run.counts))} of memory where {self.budget.told} are "
                "allowed; allow more with --memory, or ask for less"
            )
        return CountedCells(looked.columns, looked.dictionaries, looked.layout, run, region.n_records)

    def _planned(self, encoding: Encoding, rng: np.random.Generator) -> Plan:
        method = self.policy.method
        try:
            plan = method.plan(encoding.problem, rng, Silent())
        except UnreachableError as error:
            if self._as_values:
                raise
            raise UnreachableError(
                f"in a region of a table larger than memory: {error}; more memory makes fewer regions"
            ) from None
        if not isinstance(plan, Plan):
            raise TypeError(f"method {method.name} says that it takes regions, but it makes no classes")
        return plan

    def _numbered(self, counted: CountedCells, plan: Plan) -> tuple[list[LeafRanges | None], list[CodeArray]]:
        """Return for each quasi attribute the ranges, and (n_classes,) the number of what a class publishes of it."""
        if not self._as_values:
            found = [LeafRanges.numbered(plan.lo[:, j], plan.hi[:, j]) for j in range(plan.lo.shape[1])]
            return [ranges for ranges, _ in found], [numbers for _, numbers in found]
        numbers = []
        for name in self.policy.names("quasi"):
            index = np.full(plan.n_classes, -1, dtype=np.int32)
            index[plan.assignment.class_of] = counted.codes(counted.columns.index(name)).astype(np.int32) - 1
            numbers.append(index)
        return [None] * len(numbers), numbers

    def _indices(self, counted: CountedCells) -> list[CodeArray]:
        """Return for each sensitive attribute (n_cells,) the index of its value, -1 if it is missing."""
        names = self.policy.names("sensitive")
        return [counted.codes(counted.columns.index(name)).astype(np.int32) - 1 for name in names]

    @property
    def _as_values(self) -> bool:
        return self.policy.method.publishes == "values"

    def _needed(self, n_cells: int) -> str:
        return needed_memory(n_cells, self.budget.threads)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRegion:
    """The plan of one region: what it adds to the whole, and its rows under the region's own numbers."""

    findings: Findings
    rows: _Rows
    counts: IntArray  # (n_cells,)
    waiting: Waiting | None  # None: rows carry nothing, and those of one cell in one class are all the same
    most_rows: int  # that are made at a time

    def renumbered(self, renumbering: Renumbering) -> PlannedRegion:
        """Return the same under the numbers of the whole table."""
        return replace(self, rows=self.rows.renumbered(renumbering))

    def batches(self, chance: Chance) -> Iterator[pa.RecordBatch]:
        """Yield all published rows, those that carry values of their own dealt to the classes of their cells."""
        if self.waiting is None:
            yield from self.rows.interchangeable(self.counts, self.most_rows)
            return
        dealer = Dealer(self.rows.plan.assignment, chance)
        for keys, carried in self.waiting():
            cells = self.rows.counted.run.find(keys)
            targets = dealer.deal(cells)
            if (targets == WITHHELD).any():
                kept = np.flatnonzero(targets != WITHHELD)
                cells, targets, carried = cells[kept], targets[kept], carried.take(pa.array(kept))
            if len(cells):
                yield self.rows.batch(cells, targets, carried.combine_chunks().to_batches())


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What the records of a planned region publish, by their cells and classes."""

    counted: CountedCells
    plan: Plan
    numbers: Sequence[CodeArray]  # of each quasi attribute: (n_classes,)
    indices: Sequence[CodeArray]  # of each sensitive attribute: (n_cells,)
    ranged: Sequence[CodeArray | None]  # of each sensitive attribute: (n_targets,) or KEPT

    def renumbered(self, renumbering: Renumbering) -> _Rows:
        """Return the same under other numbers."""
        numbers = [renumbering.of_quasi(place, own) for place, own in enumerate(self.numbers)]
        ranged = [None if own is None else renumbering.of_sensitive(s, own) for s, own in enumerate(self.ranged)]
        return replace(self, numbers=numbers, ranged=ranged)

    def interchangeable(self, counts: IntArray, most_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all published rows, of which those of one cell in one class are all the same."""
        cell, class_of, records, target = self.plan.pieces(counts)
        shown = np.flatnonzero(class_of >= 0)
        cell, target, ends = cell[shown], target[shown], np.cumsum(records[shown])
        for start in range(0, int(ends[-1]) if len(ends) else 0, most_rows):
            stop = min(start + most_rows, int(ends[-1]))
            pieces = slice(np.searchsorted(ends, start, side="right"), np.searchsorted(ends, stop) + 1)
            within = np.clip(ends[pieces], start, stop)
            times = within - np.append(start, within[:-1])
            yield self.batch(np.repeat(cell[pieces], times), np.repeat(target[pieces], times), [])

    def labelled(self, counts: IntArray) -> pa.RecordBatch | None:
        """Return rows that publish a generalized value once each, with the indices of their values, and their records.

        None if there are no such rows.
        """
        cell, class_of, records, target = self.plan.pieces(counts)
        if self.plan.targets is None:
            return None
        some = np.flatnonzero((class_of >= 0) & (records > 0) & (self.plan.targets.lo[target] != KEPT).any(axis=1))
        values = [pa.array(index[cell[some]]) for index in self.indices]
        names = [*(f"value {number}" for number in range(len(values))), "records"]
        beside = pa.RecordBatch.from_arrays([*values, pa.array(records[some])], names=names)
        return self.batch(cell[some], target[some], [beside])

    def batch(self, cells: IntArray, targets: CodeArray, carried: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return rows as they wait to be shuffled."""
        classes = targets if self.plan.targets is None else self.plan.targets.class_of[targets]
        arrays = [number[classes] for number in self.numbers]
        for index, ranged in zip(self.indices, self.ranged, strict=True):
            own = index[cells]
            arrays.append(own if ranged is None else np.where(ranged[targets] == KEPT, own, ranged[targets]))
        columns = [pa.array(array) for array in arrays]
        names = [f"published {number}" for number in range(len(columns))]
        for batch in carried:
            columns += batch.columns
            names += batch.schema.names
        return pa.RecordBatch.from_arrays(columns, names=names)

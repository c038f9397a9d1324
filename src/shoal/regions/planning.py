"""Regions one after another: counted, planned, and their rows handed to the shuffler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.cells import Run, RunStack
from shoal.chance import Chance
from shoal.encoding import Encoding, Region, Tree, encode_cells, grown
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.errors import InputError, UnreachableError, UsageError
from shoal.methods.hopeless import refuse_hopeless
from shoal.plan import KEPT, WITHHELD, Dealer, Plan
from shoal.policy import Policy
from shoal.problem import Problem
from shoal.progress import Progress, Silent
from shoal.publishing.columns import ClassColumn
from shoal.publishing.regional import Pooled, RangeNumbers, RegionalPublication, SensitiveNumbers, value_column
from shoal.regions.budget import Budget, needed_memory
from shoal.regions.files import RegionFiles
from shoal.regions.routing import RegionCounts, Router
from shoal.regions.settling import Settled, settled
from shoal.regions.tree import RegionTree, cut_regions
from shoal.shuffling import Shuffler
from shoal.sources import Source


@dataclass(frozen=True, slots=True, eq=False)
class Larger:
    """A table with more cells than memory holds, and what is needed to publish it by a method that takes regions."""

    policy: Policy
    source: Source
    looked: SampledCells
    engine: LocalEngine
    budget: Budget
    chance: Chance
    folder: Path | None  # for temporary files
    progress: Progress

    def publication(self, held: ExitStack) -> RegionalPublication:
        """Plan all regions; the rows wait in temporary files until *held* is left."""
        trees = grown(self.looked, self.policy)
        sample = encode_cells(self.looked.sample, self.policy, trees).problem
        refusal = self.policy.method.refuses(sample)
        if refusal is not None:
            raise UnreachableError(f"method {self.policy.method.name}: {refusal}")
        by_nodes, mending = self.policy.method.takes_regions == "nodes", self.policy.method.mends_values
        tree = cut_regions(sample, self.looked.share, self.budget.region_rows, by_nodes=by_nodes, mending=mending)
        del sample
        with RegionFiles(len(tree.leaves), self.looked.layout.n_words, self.folder) as files:
            counts = Router(self.looked, trees, self.policy, tree).run(
                self.engine, self.source, self.looked, self.policy.names("insensitive"), files, self.progress
            )
            regions = self._settled(tree, counts, trees)
            n_records = int(counts.sizes.sum())
            shuffler = held.enter_context(
                Shuffler(n_records, self.chance.generator, self.folder, self.budget.heap_rows)
            )
            planning = _Planning(self, trees, counts, files, shuffler)
            with self.progress.step("planning regions", n_records, unit="records") as step:
                for region in regions:
                    planning.plan(region)
                    step.advance(region.n_records)
        return RegionalPublication(
            self.policy,
            self.source,
            self.looked,
            planning.pooled,
            planning.columns(),
            planning.sensitive,
            tuple(numbers.column() for numbers in planning.sensitive),
            shuffler,
            counts.n_dropped,
            len(regions),
        )

    def _settled(self, tree: RegionTree, counts: RegionCounts, trees: Sequence[Tree]) -> list[Settled]:
        """Return the regions, each of which meets all requirements as one class if classes are made of its records."""
        if not counts.sizes.any():
            raise InputError("every record has a missing value, and the policy drops such records")
        root = tree.nodes[0]
        if self.policy.method.publishes == "values":
            return [
                Settled((number,), tree.nodes[node].lo, tree.nodes[node].hi, int(counts.sizes[number]))
                for number, node in enumerate(tree.leaves)
                if counts.sizes[number]
            ]
        whole = Region(root.lo, root.hi, self.looked, counts.whole)
        problem = encode_cells(self.looked.sample, self.policy, trees, region=whole).problem
        mending = self.policy.method.mends_values
        if not mending:
            refuse_hopeless(problem, 0)
        found = settled(tree, counts, problem, mending=mending)
        if len(found) == 1 and found[0].n_records > self.budget.cells:
            raise UsageError(
                f"no cut of the table leaves two parts that both meet the models, so all of its {found[0].n_records:,} "
                f"records are planned at once, which takes up to {self.needed(found[0].n_records)} of memory where "
                f"{self.budget.told} are allowed; allow more with --memory, or ask for less"
            )
        return found

    def needed(self, n_cells: int) -> str:
        """Return the memory that so many cells take at once, for people."""
        return needed_memory(n_cells, self.budget.threads)


class _Planning:
    """What grows while regions are planned."""

    def __init__(
        self, larger: Larger, trees: Sequence[Tree], counts: RegionCounts, files: RegionFiles, shuffler: Shuffler
    ) -> None:
        self._larger, self._trees, self._files, self._shuffler = larger, trees, files, shuffler
        self._whole = counts.whole
        policy = larger.policy
        self._quasi, self._sensitive = policy.names("quasi"), policy.names("sensitive")
        self._ranges = [RangeNumbers(tree.attribute) for tree in trees[: len(self._quasi)]]
        self.sensitive = tuple(
            SensitiveNumbers(place, tree.attribute, larger.looked)
            for place, tree in enumerate(trees[len(self._quasi) :])
        )
        self.pooled = Pooled(policy, trees, len(self._quasi))

    def columns(self) -> tuple[ClassColumn, ...]:
        """Return what is published of the quasi attributes; classes are the numbers that rows wait under."""
        if self._as_values:
            return tuple(value_column(tree.attribute, self._larger.looked) for tree in self._trees[: len(self._quasi)])
        return tuple(ranges.column() for ranges in self._ranges)

    @property
    def _as_values(self) -> bool:
        return self._larger.policy.method.publishes == "values"

    def plan(self, region: Settled) -> None:
        """Count one region, plan it, and hand its rows on."""
        counted = self._counted(region)
        whole = Region(region.lo, region.hi, self._larger.looked, self._whole)
        encoding = encode_cells(counted, self._larger.policy, self._trees, region=whole)
        plan = self._planned(encoding)
        self.pooled.add(encoding.problem, plan)
        self.pooled.sizes_before.add(counted.class_sizes(self._quasi))
        ranged = [numbers.add(encoding.problem, plan) for numbers in self.sensitive]
        rows = _Rows(counted, plan, self._numbers(counted, plan), self._indices(counted), ranged)
        if self._larger.policy.names("insensitive"):
            self._deal(region, rows)
        else:
            for batch in rows.interchangeable(encoding.problem.cells.counts, self._larger.budget.heap_rows):
                self._shuffler.add(batch)
        self._files.drop(region.leaves)

    def _counted(self, region: Settled) -> CountedCells:
        """Reduce the rows of a region to its cells."""
        stack, budget, looked = RunStack(), self._larger.budget, self._larger.looked
        for keys, _ in self._files.read(region.leaves, budget.heap_rows):
            stack.push(Run.of_rows(keys))
        run = stack.total()
        if len(run.counts) > budget.cells:
            raise UsageError(
                f"a part of the table with {len(run.counts):,} combinations of values cannot be cut so that both sides "
                f"meet the models; it takes {self._larger.needed(len(run.counts))} of memory where {budget.told} are "
                "allowed; allow more with --memory, or ask for less"
            )
        return CountedCells(looked.columns, looked.dictionaries, looked.layout, run, region.n_records)

    def _planned(self, encoding: Encoding) -> Plan:
        method = self._larger.policy.method
        try:
            plan = method.plan(encoding.problem, self._larger.chance.generator, Silent())
        except UnreachableError as error:
            if self._as_values:
                raise
            raise UnreachableError(
                f"in a region of a table larger than memory: {error}; more memory makes fewer regions"
            ) from None
        if not isinstance(plan, Plan):
            raise TypeError(f"method {method.name} says that it takes regions, but it makes no classes")
        self._refuse_moved(encoding.problem, plan)
        return plan

    def _refuse_moved(self, problem: Problem, plan: Plan) -> None:
        """Raise if a region changes the table that a model compares all regions with."""
        generalized = plan.generalized_sensitive(problem)
        for requirement in problem.requirements:
            names = [name for name in requirement.model.attributes if name in generalized]
            if requirement.model.relative_to_whole and names:
                raise UsageError(
                    f"{requirement.model.subject} compares classes with the table as it is published, and regions "
                    f"generalize values of {names[0]!r} each by itself; use mondrian, or allow "
                    f"{self._larger.needed(self._larger.looked.n_rows)} of memory with --memory"
                )

    def _numbers(self, counted: CountedCells, plan: Plan) -> list[CodeArray]:
        """Return for each quasi attribute (n_classes,) the number of what a class publishes of it."""
        if not self._as_values:
            return [ranges.numbers(plan.lo[:, j], plan.hi[:, j]) for j, ranges in enumerate(self._ranges)]
        numbers = []
        for name in self._quasi:
            index = np.full(plan.n_classes, -1, dtype=np.int32)
            index[plan.assignment.class_of] = counted.codes(counted.columns.index(name)).astype(np.int32) - 1
            numbers.append(index)
        return numbers

    def _indices(self, counted: CountedCells) -> list[CodeArray]:
        """Return for each sensitive attribute (n_cells,) the index of its value, -1 if it is missing."""
        return [counted.codes(counted.columns.index(name)).astype(np.int32) - 1 for name in self._sensitive]

    def _deal(self, region: Settled, rows: _Rows) -> None:
        """Send rows that carry values of their own to the classes of their cells."""
        dealer = Dealer(rows.plan.assignment, self._larger.chance.generator)
        for keys, carried in self._files.read(region.leaves, self._larger.budget.heap_rows):
            cells = rows.counted.run.find(keys)
            targets = dealer.deal(cells)
            if (targets == WITHHELD).any():
                kept = np.flatnonzero(targets != WITHHELD)
                cells, targets, carried = cells[kept], targets[kept], carried.take(pa.array(kept))
            if len(cells):
                self._shuffler.add(rows.batch(cells, targets, carried.combine_chunks().to_batches()))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What the records of a planned region publish, by their cells and classes."""

    counted: CountedCells
    plan: Plan
    numbers: Sequence[CodeArray]  # of each quasi attribute: (n_classes,)
    indices: Sequence[CodeArray]  # of each sensitive attribute: (n_cells,)
    ranged: Sequence[CodeArray | None]  # of each sensitive attribute: (n_targets,) or KEPT

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

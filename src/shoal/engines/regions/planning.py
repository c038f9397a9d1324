"""A table larger than memory: divided into regions, each of which is counted, planned and made ready to be shuffled.

Local and Spark engines differ only in where a region's rows wait and who plans it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.columns.base import changes_before
from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError, UnreachableError, UsageError
from shoal.core.progress import Progress, Silent
from shoal.core.randomness import Chance, Shuffler
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.regions.budget import MOST_FILES, Budget, estimate_memory
from shoal.engines.regions.routing import RegionCounts, RegionFiles, Router
from shoal.engines.regions.tree import RegionTree, cut_regions
from shoal.methods.base import refuse_unreachable
from shoal.models.base import ClassHistograms
from shoal.plan.cells import Run, RunStack
from shoal.plan.plan import KEPT, WITHHELD, Dealer, Plan
from shoal.plan.problem import Problem, Requirement
from shoal.policy.binding import WholeTable
from shoal.policy.encoding import Encoding, Region, Tree, encode_cells, make_trees
from shoal.policy.policy import Policy
from shoal.release.forms.base import find_form
from shoal.release.regions import (
    Findings,
    LeafRanges,
    Numbering,
    Pooled,
    RegionalPublication,
    Renumbering,
    SensitiveFindings,
)
from shoal.release.witness import ROW
from shoal.sources.base import Source

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
        counted = self._count(region, waiting)
        box = Region(region.lo, region.hi, self.looked, self.whole)
        encoding = encode_cells(counted, self.policy, self.trees, region=box)
        plan, problem = self._plan(encoding, rng), encoding.problem
        ranges, numbers = self._number_labels(counted, plan)
        sensitive, ranged = [], []
        for place, name in enumerate(self.policy.names("sensitive")):
            n_values = len(self.looked.dictionaries[self.looked.columns.index(name)].values)
            found, targets = SensitiveFindings.of(place, n_values, problem, plan)
            sensitive.append(found)
            ranged.append(targets)
        sizes_before = counted.class_sizes(self.policy.names("quasi"))
        rows = _Rows(counted, plan, numbers, self._indices(counted), ranged)
        labelled = rows.list_labels(problem.cells.counts) if self.policy.method.defends_labels else None
        findings = Findings.of(self.policy, problem, plan, sizes_before, ranges, sensitive, labelled)
        carries = bool(self.policy.names("insensitive"))
        return PlannedRegion(findings, rows, problem.cells.counts, waiting, carries, self.budget.heap_rows)

    def _count(self, region: Settled, waiting: Waiting) -> CountedCells:
        """Reduce the rows of a region to its cells."""
        stack, looked = RunStack(), self.looked
        for keys, _ in waiting():
            stack.push(Run.of_rows(keys))
        run = stack.total()
        n_cells = len(run.counts)
        if n_cells > self.budget.cells:
            raise UsageError(
                f"a part of the table with {n_cells:,} combinations of values cannot be cut so that both sides "
                f"meet the models; it takes {estimate_memory(n_cells, self.budget.threads)} of memory "
                f"where {self.budget.text} are allowed; allow more with --memory, or ask for less"
            )
        return CountedCells(looked.columns, looked.dictionaries, looked.layout, run, region.n_records)

    def _plan(self, encoding: Encoding, rng: np.random.Generator) -> Plan:
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

    def _number_labels(self, counted: CountedCells, plan: Plan) -> tuple[list[LeafRanges | None], list[CodeArray]]:
        """Return for each quasi attribute the ranges, and (n_classes,) the number of what a class publishes of it."""
        if not self._as_values:
            found = [LeafRanges.number(plan.lo[:, j], plan.hi[:, j]) for j in range(plan.lo.shape[1])]
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
        return find_form(self.policy.method.form).as_they_are


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRegion:
    """The plan of one region: what it adds to the whole, and its rows under the region's own numbers."""

    findings: Findings
    rows: _Rows
    counts: IntArray  # (n_cells,)
    waiting: Waiting
    carries: bool  # else rows of one cell in one class are all the same
    most_rows: int  # that are made at a time

    def renumber(self, renumbering: Renumbering) -> PlannedRegion:
        """Return the same under the numbers of the whole table."""
        return replace(self, rows=self.rows.renumber(renumbering))

    def batches(self, chance: Chance) -> Iterator[pa.RecordBatch]:
        """Yield all published rows, dealt to the classes of their cells; last in each is its place in the source."""
        if not self.carries:
            yield from self.rows.repeat_rows(self.counts, self.most_rows, self._places())
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

    def _places(self) -> IntArray:
        """Return the places of published rows in the source, in the order of the plan's pieces of cells.

        Rows of a cell are all the same, so that nothing has to be drawn: a task that runs twice finds the same.
        """
        plan, dealer = self.rows.plan, Dealer(self.rows.plan.assignment, Chance.of(0))
        dealt = []
        for keys, carried in self.waiting():
            cells = self.rows.counted.run.find(keys)
            dealt.append((cells, dealer.deal(cells), carried.column(0).combine_chunks().to_numpy()))
        cells, targets, rows = (np.concatenate(column) for column in zip(*dealt, strict=True))
        cell, _, _, target = plan.pieces(self.counts)
        base = int(target.max(initial=0)) + 2
        order = np.argsort(cell * base + target, kind="stable")
        piece = order[np.searchsorted((cell * base + target)[order], cells * base + targets)]
        shown = np.flatnonzero(targets != WITHHELD)
        return np.asarray(rows[shown[np.argsort(piece[shown], kind="stable")]], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What the records of a planned region publish, by their cells and classes."""

    counted: CountedCells
    plan: Plan
    numbers: Sequence[CodeArray]  # of each quasi attribute: (n_classes,)
    indices: Sequence[CodeArray]  # of each sensitive attribute: (n_cells,)
    ranged: Sequence[CodeArray | None]  # of each sensitive attribute: (n_targets,) or KEPT

    def renumber(self, renumbering: Renumbering) -> _Rows:
        """Return the same under other numbers."""
        numbers = [renumbering.of_quasi(place, own) for place, own in enumerate(self.numbers)]
        ranged = [None if own is None else renumbering.of_sensitive(s, own) for s, own in enumerate(self.ranged)]
        return replace(self, numbers=numbers, ranged=ranged)

    def repeat_rows(self, counts: IntArray, most_rows: int, places: IntArray) -> Iterator[pa.RecordBatch]:
        """Yield all published rows, of which those of one cell in one class are all the same but for their places."""
        cell, class_of, records, target = self.plan.pieces(counts)
        shown = np.flatnonzero(class_of >= 0)
        cell, target, ends = cell[shown], target[shown], np.cumsum(records[shown])
        for start in range(0, int(ends[-1]) if len(ends) else 0, most_rows):
            stop = min(start + most_rows, int(ends[-1]))
            pieces = slice(np.searchsorted(ends, start, side="right"), np.searchsorted(ends, stop) + 1)
            within = np.clip(ends[pieces], start, stop)
            times = within - np.append(start, within[:-1])
            beside = pa.RecordBatch.from_arrays([pa.array(places[start:stop])], names=[ROW])
            yield self.batch(np.repeat(cell[pieces], times), np.repeat(target[pieces], times), [beside])

    def list_labels(self, counts: IntArray) -> pa.RecordBatch | None:
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


# The coarse plan of a table larger than memory: regions that are cut on a sample and settled by exact counts.


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A table cut into boxes, each of which is expected to hold what a process may plan at once."""

    policy: Policy
    looked: SampledCells
    budget: Budget
    trees: tuple[Tree, ...]
    tree: RegionTree

    @classmethod
    def of(cls, policy: Policy, looked: SampledCells, budget: Budget, most_regions: int = MOST_FILES) -> Division:
        """Grow the trees of all attributes, and cut the sample."""
        trees = make_trees(looked, policy)
        sample = encode_cells(looked.sample, policy, trees).problem
        refusal = policy.method.refuses(sample)
        if refusal is not None:
            raise UnreachableError(f"method {policy.method.name}: {refusal}")
        tree = cut_regions(
            sample,
            looked.share,
            budget.region_rows,
            by_nodes=policy.method.takes_regions == "nodes",
            generalizes=policy.method.generalizes_values,
            most_regions=most_regions,
        )
        return cls(policy, looked, budget, trees, tree)

    def router(self) -> Router:
        """Return what finds the boxes of rows."""
        return Router(self.looked, self.trees, self.policy, self.tree)

    def planner(self, counts: RegionCounts) -> RegionPlanner:
        """Return what plans any of the regions, given the counts of all."""
        return RegionPlanner(self.policy, self.trees, self.looked.without_cells(), counts.whole, self.budget)

    def settle(self, counts: RegionCounts) -> list[Settled]:
        """Return the regions, each of which meets all requirements as one class if classes are made of its records."""
        if not counts.sizes.any():
            raise InputError("every record has a missing value, and the policy drops such records")
        if find_form(self.policy.method.form).as_they_are:
            return self._boxes(counts)
        root = self.tree.nodes[0]
        whole = Region(root.lo, root.hi, self.looked, counts.whole)
        problem = encode_cells(self.looked.sample, self.policy, self.trees, region=whole).problem
        generalizes = self.policy.method.generalizes_values
        if not generalizes:
            refuse_unreachable(problem, 0)
        found = settle_regions(self.tree, counts, problem, generalizes=generalizes)
        if len(found) == 1 and found[0].n_records > self.budget.cells:
            raise UsageError(
                f"no cut of the table leaves two parts that both meet the models, so all of its {found[0].n_records:,} "
                "records are planned at once, which takes up to "
                f"{estimate_memory(found[0].n_records, self.budget.threads)} of memory where {self.budget.text} are "
                "allowed; allow more with --memory, or ask for less"
            )
        return found

    def _boxes(self, counts: RegionCounts) -> list[Settled]:
        """Return every box with records: nothing is asked of one where values are published as they are."""
        return [
            Settled((number,), self.tree.nodes[node].lo, self.tree.nodes[node].hi, int(counts.sizes[number]))
            for number, node in enumerate(self.tree.leaves)
            if counts.sizes[number]
        ]


def refuse_larger(policy: Policy, source: Source, budget: Budget, n_cells: int, *, agreed: bool) -> None:
    """Raise if a table with so many combinations of values, or more, must be planned at once; say what would help."""
    reason = None
    if policy.method.takes_regions is None:
        reason = f"method {policy.method.name} decides for all records at once"
    elif any(getattr(model, "population", None) is not None for model in policy.privacy):
        reason = "a model that counts a population looks at all of it at once"
    elif policy.counted_units:
        reason = "people who have records in several regions are counted at once"
    elif agreed:
        reason = "a plan that was agreed on is applied to all records at once"
    elif changes_before(source, policy.names("quasi")):
        reason = "the table as it was before the sample and the techniques is counted at once, for the evidence"
    if reason is None:
        return
    most = "" if source.n_rows is None else f", and may have up to {source.n_rows:,}"
    needed = estimate_memory(max(n_cells, source.n_rows or 0), budget.threads)
    raise UsageError(
        f"{source.name} has more than {n_cells:,} combinations of quasi and sensitive values{most}; {reason}, and "
        f"{budget.text} of memory are allowed for it: allow {needed} with --memory, declare coarser values, or use "
        "mondrian, which takes a table larger than memory region by region"
    )


# A table larger than memory on one machine: its regions one after another, their rows in one shuffler.


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
        division = Division.of(self.policy, self.looked, self.budget)
        carried = self.policy.names("insensitive")
        with RegionFiles(len(division.tree.leaves), self.looked.layout.n_words, self.folder) as files:
            counts = division.router().route_source(
                self.engine, self.source, self.looked, carried, files, self.progress
            )
            regions = division.settle(counts)
            n_records = int(counts.sizes.sum())
            shuffler = held.enter_context(Shuffler(n_records, self.chance, self.folder, self.budget.heap_rows))
            pooled = Pooled(division.trees, len(self.policy.names("quasi")))
            numbering = Numbering(self.policy, division.trees, self.looked)
            queue = _Queue(self, division.planner(counts), files, shuffler, pooled, numbering)
            with self.progress.step("planning regions", n_records, unit="records") as step:
                for region in regions:
                    queue.take(region)
                    step.advance(region.n_records)
        return RegionalPublication(
            self.policy,
            self.source,
            self.looked,
            pooled,
            numbering.columns(pooled.published),
            shuffler,
            counts.n_dropped,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Queue:
    """Regions that are planned one after another."""

    larger: Larger
    planner: RegionPlanner
    files: RegionFiles
    shuffler: Shuffler
    pooled: Pooled
    numbering: Numbering

    def take(self, region: Settled) -> None:
        """Plan one region, and hand its rows on."""
        chance, heap_rows = self.larger.chance, self.larger.budget.heap_rows
        planned = self.planner.plan(region, lambda: self.files.read(region.leaves, heap_rows), chance.generator)
        self.pooled.add(planned.findings)
        renumbering = self.numbering.add(planned.findings.quasi, planned.findings.sensitive)
        if planned.findings.labelled is not None:
            self.pooled.labelled.append(renumbering.rows(planned.findings.labelled))
        for batch in planned.renumber(renumbering).batches(chance):
            self.shuffler.add(batch)
        self.files.drop(region.leaves)


# Which boxes are regions in the end: those that meet every requirement by themselves, others joined until they do.


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """A region that can be planned alone: the leaves of the tree that it is made of, and its box."""

    leaves: tuple[int, ...]
    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    n_records: int


def settle_regions(
    tree: RegionTree, counts: RegionCounts, problem: Problem, *, generalizes: bool = False
) -> list[Settled]:
    """Return the smallest regions that meet every requirement as one class, joined with their siblings if need be.

    *problem* has the requirements with the whole table's counts. If not even the root meets them, it is the only one.
    With *generalizes*, what they would be met by with all sensitive values generalized is enough.
    """
    found = _Settling(tree, counts, problem, generalizes).under(0)
    root = tree.nodes[0]
    whole = Settled(tuple(range(len(tree.leaves))), root.lo, root.hi, int(counts.sizes.sum()))
    return found or [whole]


class _Settling:
    def __init__(self, tree: RegionTree, counts: RegionCounts, problem: Problem, generalizes: bool) -> None:
        self._tree, self._counts, self._problem, self._generalizes = tree, counts, problem, generalizes
        self._number = {node: number for number, node in enumerate(tree.leaves)}

    def under(self, place: int) -> list[Settled] | None:
        """Return the regions below a node, none if it has no records; None if they fail and it may not be one."""
        node = self._tree.nodes[place]
        if node.attribute >= 0:
            below, above = self.under(node.below), self.under(node.above)
            if below is not None and above is not None:
                return below + above
        leaves = self._leaves(place)
        n_records = int(self._counts.sizes[leaves].sum())
        if not n_records:
            return []
        if not (node.closed and self._holds(leaves)):
            return None
        return [Settled(tuple(leaves), node.lo, node.hi, n_records)]

    def _leaves(self, place: int) -> list[int]:
        node = self._tree.nodes[place]
        if node.attribute < 0:
            return [self._number[place]]
        return self._leaves(node.below) + self._leaves(node.above)

    def _holds(self, leaves: list[int]) -> bool:
        """Whether records of some leaves meet every requirement as one class."""
        size = np.array([self._counts.sizes[leaves].sum()])
        for requirement in self._problem.requirements:
            values = None
            if requirement.values is not None:
                values = self._values(requirement.model.attributes, leaves)[np.newaxis]
            whole = requirement.whole(self._problem.cells.counts)
            if requirement.model.holds(ClassHistograms(size, values), whole)[0]:
                continue
            if not (self._generalizes and self._holds_generalized(requirement, size)):
                return False
        return True

    def _holds_generalized(self, requirement: Requirement, size: IntArray) -> bool:
        """Whether so many records meet a requirement if all publish the root for their sensitive value.

        Models that do not know generalized values forbid that.
        """
        if requirement.place is None or not self._problem.may_generalize(requirement.place):
            return False
        weights = requirement.induce(self._problem.cells.counts).weights
        unit = int(weights.sum())
        generalized = ClassHistograms(size * unit, (size * weights)[np.newaxis], unit=unit)
        return bool(requirement.model.holds(generalized, requirement.whole(self._problem.cells.counts))[0])

    def _values(self, names: tuple[str, ...], leaves: list[int]) -> IntArray:
        counts: IntArray = self._counts.values[names][leaves].sum(axis=0)
        if len(names) == 1:
            return counts
        known = self._counts.whole.joint[names]
        return counts[known.place >= 0]

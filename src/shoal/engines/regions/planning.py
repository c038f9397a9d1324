"""Planning a table larger than memory by regions, which are counted, planned and shuffled one by one.

The local engine and Spark store a region's rows in different places and plan it in different processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError, UnreachableError, UsageError
from shoal.core.progress import Progress, Silent
from shoal.core.randomness import Chance, Shuffler
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.regions.budget import MOST_FILES, Budget, estimate_memory
from shoal.engines.regions.routing import RegionCounts, RegionFiles, Router
from shoal.engines.regions.tree import RegionTree, cut_regions
from shoal.methods.base import refuse_method, refuse_unreachable
from shoal.methods.withholding import hide_withheld
from shoal.models.base import ClassHistograms, ValueModel
from shoal.plan.cells import Run, RunStack
from shoal.plan.plan import Assignment, Dealer, Plan
from shoal.plan.problem import Problem, Requirement
from shoal.policy.binding import WholeTable
from shoal.policy.encoding import Region, Tree, encode_cells, make_trees
from shoal.policy.policy import Policy
from shoal.release.columns import key_ranges, value_indices
from shoal.release.figures import Findings
from shoal.release.forms.base import find_form
from shoal.release.publication import RegionalPublication
from shoal.release.rows import RowNumbers
from shoal.sources.base import Source

# Yields the keys and the carried columns of a region's rows in parts, any number of times.
Waiting: TypeAlias = Callable[[], Iterator[tuple[KeyArray, pa.Table]]]


@dataclass(frozen=True, slots=True, eq=False)
class RegionPlanner:
    """Plans the regions of a table, each from its own rows and the counts of the whole table."""

    policy: Policy
    trees: tuple[Tree, ...]
    looked: SampledCells  # the values of the table; the sample itself is not needed
    whole: WholeTable
    budget: Budget

    def plan(self, region: Settled, waiting: Waiting, rng: np.random.Generator) -> PlannedRegion:
        """Count and plan a region; the result depends only on its rows, their order and *rng*."""
        counted = self._count(region, waiting)
        box = Region(region.lo, region.hi, self.looked, self.whole)
        problem = encode_cells(counted, self.policy, self.trees, region=box).problem
        plan = self._plan(problem, rng)
        if self._as_values:
            quasi: list[AnyIntArray] = [np.full(plan.n_classes, -1, dtype=np.int32) for _ in problem.quasi]
            for index, one in zip(quasi, problem.quasi, strict=True):
                index[plan.assignment.class_of] = value_indices(counted, one.name)
            ranges = [np.zeros(0, dtype=np.int64) for _ in quasi]
        else:
            lo_hi = zip(problem.quasi, plan.lo.T, plan.hi.T, strict=True)
            quasi = [key_ranges(one.taxonomy, lo, hi) for one, lo, hi in lo_hi]
            ranges = [np.unique(keys).astype(np.int64) for keys in quasi]
        numbers = RowNumbers.of(counted, problem, plan, quasi)
        labelled = numbers.list_labelled(plan, problem.cells.counts)
        sizes_before = counted.class_sizes(self.policy.names("quasi"))
        findings = Findings.of(self.policy, problem, plan, ranges, labelled)
        findings = findings.measure_region(self.policy, problem, plan, sizes_before)
        return PlannedRegion(findings, counted.run, plan.assignment, numbers, waiting)

    def _count(self, region: Settled, waiting: Waiting) -> CountedCells:
        stack, looked = RunStack(), self.looked
        for keys, _ in waiting():
            stack.push(Run.of_rows(keys))
        run = stack.total()
        n_cells = len(run.counts)
        if n_cells > self.budget.cells:
            raise UsageError(
                f"a part of the table with {n_cells:,} combinations of values cannot be cut so that both sides "
                f"meet the models; it needs {estimate_memory(n_cells, self.budget.threads)} of memory "
                f"and {self.budget.text} are allowed; allow more with --memory, or ask for less"
            )
        return CountedCells(looked.columns, looked.dictionaries, looked.layout, run, region.n_records)

    def _plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        method = self.policy.method
        try:
            plan = hide_withheld(lambda asked: method.plan(asked, rng, Silent()), problem)
        except UnreachableError as error:
            if self._as_values:
                raise
            raise UnreachableError(
                f"in a region of a table larger than memory: {error}; more memory makes fewer regions"
            ) from None
        if not isinstance(plan, Plan):
            raise TypeError(f"method {method.name} claims to take regions, but it makes no classes")
        return plan

    @property
    def _as_values(self) -> bool:
        return find_form(self.policy.method.form).as_they_are


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRegion:
    """The plan of a region: its findings and its rows."""

    findings: Findings
    cells: Run
    assignment: Assignment
    numbers: RowNumbers
    waiting: Waiting

    def batches(self, chance: Chance) -> Iterator[pa.RecordBatch]:
        """Yield all published rows, assigned to classes; the last column is the place in the source."""
        dealer = Dealer(self.assignment, chance)
        for keys, carried in self.waiting():
            cells = self.cells.find(keys)
            columns = [column.combine_chunks() for column in carried.columns]
            beside = dict(zip(carried.column_names, columns, strict=True))
            yield self.numbers.wait(cells, dealer.deal(cells), beside)


# The coarse plan: regions that are cut on a sample and settled by exact counts.


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A table cut into boxes, each of which one process can probably plan."""

    policy: Policy
    looked: SampledCells
    budget: Budget
    trees: tuple[Tree, ...]
    tree: RegionTree

    @classmethod
    def of(cls, policy: Policy, looked: SampledCells, budget: Budget, most_regions: int = MOST_FILES) -> Division:
        """Build the trees of all attributes, and cut the sample."""
        trees = make_trees(looked, policy)
        sample = encode_cells(looked.sample, policy, trees).problem
        refuse_method(policy.method, sample)
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
        return Router(self.looked, self.trees, self.policy, self.tree)

    def planner(self, counts: RegionCounts) -> RegionPlanner:
        """Return the planner of all regions, given their counts."""
        return RegionPlanner(self.policy, self.trees, self.looked.without_cells(), counts.whole, self.budget)

    def settle(self, counts: RegionCounts) -> list[Settled]:
        """Return the regions; each meets all requirements as one class if the method makes classes."""
        if not counts.sizes.any():
            raise InputError("every record has a missing value, and the policy drops such records")
        if find_form(self.policy.method.form).as_they_are:  # every box with records, because no requirements apply
            nodes = [self.tree.nodes[leaf] for leaf in self.tree.leaves]
            sizes = counts.sizes.tolist()
            return [Settled((n,), node.lo, node.hi, sizes[n]) for n, node in enumerate(nodes) if sizes[n]]
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
                "records are planned together, which needs up to "
                f"{estimate_memory(found[0].n_records, self.budget.threads)} of memory, and {self.budget.text} are "
                "allowed; allow more with --memory, or ask for less"
            )
        return found


# The local engine plans the regions one after another and collects their rows in one shuffler.


@dataclass(frozen=True, slots=True, eq=False)
class Larger:
    """A table with too many cells for memory, and everything needed to publish it by regions."""

    policy: Policy
    source: Source
    looked: SampledCells
    engine: LocalEngine
    budget: Budget
    chance: Chance
    folder: Path | None  # for temporary files
    progress: Progress

    def publication(self, held: ExitStack) -> RegionalPublication:
        """Plan all regions; the rows wait in temporary files until *held* is closed."""
        division = Division.of(self.policy, self.looked, self.budget)
        with RegionFiles(len(division.tree.leaves), self.looked.layout.n_words, self.folder) as files:
            counts = self._route(division.router(), files)
            regions = division.settle(counts)
            n_records = int(counts.sizes.sum())
            shuffler = held.enter_context(Shuffler(n_records, self.chance, self.folder, self.budget.heap_rows))
            planner, found = division.planner(counts), []
            with self.progress.step("planning regions", n_records, unit="records") as step:
                for region in regions:
                    waiting = partial(files.read, region.leaves, self.budget.heap_rows)
                    planned = planner.plan(region, waiting, self.chance.generator)
                    found.append(planned.findings)
                    for batch in planned.batches(self.chance):
                        shuffler.add(batch)
                    files.drop(region.leaves)
                    step.advance(region.n_records)
        findings = reduce(add, found)
        return RegionalPublication.of(
            self.policy, self.source, self.looked, division.trees, findings, counts.n_dropped, shuffler
        )

    def _route(self, router: Router, files: RegionFiles) -> RegionCounts:
        counts, first_row, carried = router.counts(), 0, self.policy.names("insensitive")
        routed = self.engine.locate_keys(self.source, self.looked, carried, self.progress, router.route_batch)
        for part in routed:
            files.write(part.place_rows(first_row), part.first)
            counts.add(part)
            first_row += len(part.region)
        return counts


# Boxes that meet every requirement are regions; others are joined until they do.


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """A region that can be planned separately: its leaves of the tree, and its box."""

    leaves: tuple[int, ...]
    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    n_records: int


def settle_regions(
    tree: RegionTree, counts: RegionCounts, problem: Problem, *, generalizes: bool = False
) -> list[Settled]:
    """Return the smallest regions that meet every requirement as one class, joining siblings if necessary.

    *problem* has the requirements with the whole table's counts. If the root does not meet them either, it is the only
    region. With *generalizes*, it is enough that generalizing all sensitive values would meet a requirement.
    """
    number = {node: leaf for leaf, node in enumerate(tree.leaves)}

    def settle(place: int) -> tuple[list[int], list[Settled] | None]:
        """Return the leaves below a node and its regions, or None if they fail and the node may not be a region."""
        node = tree.nodes[place]
        if node.attribute < 0:
            leaves = [number[place]]
        else:
            (below_leaves, below), (above_leaves, above) = settle(node.below), settle(node.above)
            leaves = below_leaves + above_leaves
            if below is not None and above is not None:
                return leaves, below + above
        n_records = int(counts.sizes[leaves].sum())
        if n_records and not (node.closed and _hold_as_class(leaves, counts, problem, generalizes)):
            return leaves, None
        return leaves, [Settled(tuple(leaves), node.lo, node.hi, n_records)] if n_records else []

    leaves, found = settle(0)
    root = tree.nodes[0]
    return found or [Settled(tuple(leaves), root.lo, root.hi, int(counts.sizes.sum()))]


def _hold_as_class(leaves: list[int], counts: RegionCounts, problem: Problem, generalizes: bool) -> bool:
    """Whether the records of these leaves meet every requirement as one class."""
    size = np.array([counts.sizes[leaves].sum()])
    for requirement in problem.requirements:
        values, names = None, requirement.model.attributes
        if requirement.values is not None:
            values = counts.values[names][leaves].sum(axis=0)[np.newaxis]
            if len(names) > 1:
                values = values[:, counts.whole.joint[names].place >= 0]
        whole = requirement.whole(problem.cells.counts)
        if requirement.model.holds(ClassHistograms(size, values), whole)[0]:
            continue
        if values is None or not (generalizes and _holds_generalized(requirement, size, values, problem)):
            return False
    return True


def _holds_generalized(requirement: Requirement, size: IntArray, values: IntArray, problem: Problem) -> bool:
    """Whether records with these true values meet a requirement if all sensitive values are generalized to the root.

    Models without a definition for generalized values do not allow that.
    """
    model, whole = requirement.model, requirement.whole(problem.cells.counts)
    if requirement.place is None or not problem.may_generalize(requirement.place) or not isinstance(model, ValueModel):
        return False
    if not model.holds_true(ClassHistograms(size, values), whole)[0]:
        return False
    weights = requirement.induce(problem.cells.counts).weights
    unit = int(weights.sum())
    generalized = ClassHistograms(size * unit, (size * weights)[np.newaxis], unit=unit)
    return bool(model.holds(generalized, whole)[0])

"""Figures of what a plan publishes: promises that it reaches, levels of taxonomies, shares of sensitive values.

Those of regions add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.models.base import PrivacyModel, TableModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.policy import Policy
from shoal.release.columns import key_ranges, list_ranges
from shoal.release.forms.base import find_form
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.base import Pool


@dataclass(frozen=True, slots=True, eq=False)
class LevelTally:
    """How many records publish a node so many steps above the original values, and how many a range that is no node.

    Tallies of the same attribute add up, region by region.
    """

    nodes: IntArray  # (n_levels + 1,) records; 0 steps: the original value
    ranges: int

    @classmethod
    def of(cls, taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray, records: AnyIntArray) -> Self:
        """Count leaf ranges, each with so many records.

        Steps are those of a full-domain generalization: the fewest that bring a value of the range there.

        >>> from shoal.taxonomies.files import from_nested
        >>> tree = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
        >>> found = LevelTally.of(tree, np.array([0, 0, 1, 0]), np.array([1, 2, 3, 4]), np.array([5, 6, 7, 8]))
        >>> found.nodes.tolist(), found.ranges
        ([5, 6, 8], 7)
        """
        nodes = taxonomy.lowest_nodes(lo, hi)
        whole = (taxonomy.lo[nodes] == lo) & (taxonomy.hi[nodes] == hi)
        steps = np.where(nodes < taxonomy.n_leaves, 0, taxonomy.height - taxonomy.level[nodes])
        counted = np.bincount(steps[whole], weights=records[whole], minlength=taxonomy.height + 1)
        return cls(np.rint(counted).astype(np.int64), int(records[~whole].sum()))

    def __add__(self, other: LevelTally) -> LevelTally:
        """Take the records of both."""
        return LevelTally(self.nodes + other.nodes, self.ranges + other.ranges)

    def as_dict(self) -> dict[str, Any]:
        """Return ``nodes``, a list from the original values up, and ``ranges``."""
        return {"nodes": self.nodes.tolist(), "ranges": self.ranges}


def plan_levels(problem: Problem, plan: Plan) -> dict[str, LevelTally]:
    """Return the levels that a plan publishes of every attribute; those of a kept sensitive value are 0."""
    found = {
        one.name: LevelTally.of(one.taxonomy, plan.lo[:, place], plan.hi[:, place], plan.sizes)
        for place, one in enumerate(problem.quasi)
    }
    records = plan.sizes if plan.targets is None else plan.targets.records
    nothing = np.full((len(records), len(problem.sensitive)), KEPT, dtype=np.int32)
    lo, hi = (nothing, nothing) if plan.targets is None else (plan.targets.lo, plan.targets.hi)
    lo, hi = np.where(lo == KEPT, 0, lo), np.where(lo == KEPT, 1, hi)  # a leaf, whichever it is
    for place, one in enumerate(problem.sensitive):
        found[one.name] = LevelTally.of(one.taxonomy, lo[:, place], hi[:, place], records)
    return found


MOST_VALUES = 20


@dataclass(frozen=True, slots=True, eq=False)
class ShareTally:
    """Counts and extreme shares of what classes publish of one sensitive attribute; tallies of regions add up.

    A published value is a leaf range, named by its key.
    """

    keys: IntArray  # (n_values,) ascending
    records: IntArray  # (n_values,)
    classes: IntArray  # (n_values,) that have the value
    lowest: FloatArray  # (n_values,) share in these
    highest: FloatArray  # (n_values,)
    n_classes: int

    @classmethod
    def of(cls, keys: IntArray, number: CodeArray, class_of: CodeArray, records: IntArray, n_classes: int) -> Self:
        """Count items, each so many records of a class that publish the key at its number; class -1 is none.

        >>> keys, item = np.array([1, 12]), np.array([[0, 0, 3], [1, 0, 1], [0, 1, 2], [0, -1, 9]], dtype=np.int32)
        >>> found = ShareTally.of(keys, *item.T, 2)
        >>> found.keys.tolist(), found.records.tolist(), found.lowest.tolist(), found.highest.tolist()
        ([1, 12], [5, 1], [0.75, 0.25], [1.0, 0.25])
        """
        first, order = kernels.group_items(class_of, n_classes)
        tallies, shares = np.zeros((3, len(keys)), dtype=np.int64), np.repeat([[1.0], [0.0]], len(keys), axis=1)
        n_filled = kernels.tally_shares(first, order, number, records, tallies, shares)
        (records, classes, _), (lowest, highest), there = tallies, shares, np.flatnonzero(tallies[0])
        return cls(keys[there], records[there], classes[there], lowest[there], highest[there], n_filled)

    def __add__(self, other: ShareTally) -> ShareTally:
        """Take the classes of both."""
        keys = np.union1d(self.keys, other.keys)
        records, classes = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
        lowest, highest = np.ones(len(keys)), np.zeros(len(keys))
        for one in (self, other):
            at = np.searchsorted(keys, one.keys)
            records[at] += one.records
            classes[at] += one.classes
            lowest[at] = np.minimum(lowest[at], one.lowest)
            highest[at] = np.maximum(highest[at], one.highest)
        return ShareTally(keys, records, classes, lowest, highest, self.n_classes + other.n_classes)

    def as_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """Return the most frequent ``values``, each with its share in the ``whole``, and how many ``more`` there are.

        ``lowest`` and ``highest`` are the shares in classes; a class without the value counts as 0.
        """
        shown = np.lexsort((self.keys, -self.records))[:MOST_VALUES]
        total, ranges = int(self.records.sum()), list_ranges(taxonomy, self.keys)
        values = [
            {
                "value": taxonomy.label(*ranges[at]),
                "whole": int(self.records[at]) / total,
                "lowest": float(self.lowest[at]) if self.classes[at] == self.n_classes else 0.0,
                "highest": float(self.highest[at]),
            }
            for at in shown.tolist()
        ]
        return {"values": values, "more": len(self.keys) - len(shown)}


def class_shares(problem: Problem, plan: Plan, place: int) -> ShareTally:
    """Return the shares of what classes publish of one sensitive attribute, generalized values as they are."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    number = problem.cells.codes[len(problem.quasi) + place][cell].astype(np.int32)
    taxonomy = problem.sensitive[place].taxonomy
    keys = _leaf_keys(taxonomy)
    if plan.targets is not None:
        lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
        keys, which = np.unique(
            np.append(keys, np.where(lo == KEPT, keys[0], key_ranges(taxonomy, lo, hi))), return_inverse=True
        )
        which = which.reshape(-1).astype(np.int32)
        ranged = np.append(lo != KEPT, False)[target]
        number = np.where(ranged, np.append(which[taxonomy.n_leaves :], np.int32(0))[target], which[number])
    return ShareTally.of(keys, number, class_of, records, plan.n_classes)


def bucket_shares(problem: Problem, plan: SlicedPlan, place: int) -> ShareTally:
    """Return the shares of the values of one sensitive attribute in buckets."""
    pieces = plan.pieces
    number = problem.cells.codes[len(problem.quasi) + place][pieces.cell].astype(np.int32)
    keys = _leaf_keys(problem.sensitive[place].taxonomy)
    return ShareTally.of(keys, number, pieces.bucket, pieces.records, plan.n_buckets)


def _leaf_keys(taxonomy: Taxonomy) -> IntArray:
    """Return (n_leaves,) the key of each leaf."""
    leaves = np.arange(taxonomy.n_leaves)
    return key_ranges(taxonomy, leaves, leaves + 1).astype(np.int64)


# What a plan promises: every model of the policy with what the classes really reach.


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One model and the strongest main parameter that all classes meet."""

    model: PrivacyModel
    achieved: float
    counts: str | None = None  # the policy's key of the people that it is about; None: records

    def weaken(self, other: Guarantee) -> Guarantee:
        """Return the weaker of two guarantees of the same model."""
        worse = min if self.model.achieved_is == "at least" else max
        return replace(self, achieved=worse(self.achieved, other.achieved))

    def over_all(self, sizes: Counter[int]) -> Guarantee:
        """Return the same, of all classes together if the model is about these; *sizes* counts those of each size."""
        if not isinstance(self.model, TableModel):
            return self
        every = np.repeat(np.array(list(sizes.keys())), np.array(list(sizes.values())))
        return replace(self, achieved=self.model.reach_together(every))

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        counts = {} if self.counts is None else {"counts": self.counts}
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved, **counts}


def measure_guarantees(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides.

    Where people are counted, a model has a guarantee for each way to count them.
    """
    reached: dict[tuple[int, str | None], Guarantee] = {}
    for requirement, classes, whole in judge_plan(problem, plan):
        model, place = policy.privacy[requirement.number], (requirement.number, requirement.counts)
        if isinstance(model, TableModel):
            worst = model.reach_together(plan.sizes)
        else:
            worst = requirement.model.worst(classes, whole)
        found = Guarantee(model, worst, requirement.counts)
        reached[place] = found.weaken(reached.get(place, found))
    return tuple(reached.values())


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What classes publish, and what they reach; it grows with values and ranges, not with records.

    The sum of all regions' findings is what a plan for the whole table with these classes would have found. Only of
    regions, of which sums are all that stays, it is stated what they were before and what is left of them.
    """

    n_regions: int
    n_records: int
    n_withheld: int
    reached: tuple[Guarantee, ...]  # the worst of each of the policy's models
    utility: Pool
    sizes: Counter[int]  # how many classes there are of each size
    sizes_before: Counter[int]  # the same by the values as they were
    warnings: tuple[str, ...]
    generalized: Counter[str]  # records, by sensitive attributes
    published: tuple[IntArray, ...]  # the leaves of each attribute that some published record has, ascending
    kept: tuple[IntArray, ...]  # the leaves of each sensitive attribute that some published record keeps, ascending
    ranges: tuple[IntArray, ...]  # the keys of what is published of each attribute, ascending; none: its values
    levels: Mapping[str, LevelTally]  # by attributes that have labels
    shares: Mapping[str, ShareTally]  # by sensitive attributes
    labelled: tuple[pa.RecordBatch, ...]  # rows with generalized values, if labels are defended

    @classmethod
    def of(
        cls,
        policy: Policy,
        problem: Problem,
        plan: Plan,
        quasi: Sequence[IntArray],
        labelled: tuple[pa.RecordBatch, ...],
    ) -> Findings:
        """Take all of it from the plan of a table or region; *quasi* are the ranges that its classes publish."""
        places, generalizes = range(len(problem.sensitive)), find_form(policy.method.form).generalizes
        cell, class_of, _, _ = plan.pieces(problem.cells.counts)
        shown = class_of >= 0
        return cls(
            n_regions=1,
            n_records=problem.cells.n_records,
            n_withheld=plan.n_withheld,
            reached=measure_guarantees(problem, plan, policy),
            utility=Pool(),
            sizes=count_sizes(plan.sizes[plan.sizes > 0]),
            sizes_before=Counter(),
            warnings=plan.warnings,
            generalized=Counter(plan.count_generalized(problem)),
            published=tuple(_find_leaves(codes, cell, shown) for codes in problem.cells.codes),
            kept=tuple(find_kept_leaves(plan, place, problem) for place in places),
            ranges=(*quasi, *(find_ranges(plan, place, problem) for place in places)),
            levels=plan_levels(problem, plan) if generalizes else {},
            shares={one.name: class_shares(problem, plan, place) for place, one in enumerate(problem.sensitive)},
            labelled=labelled,
        )

    def measure_region(self, problem: Problem, plan: Plan, sizes_before: IntArray) -> Findings:
        """Return the same with what is left of a region, whose classes by the values as they were have these sizes."""
        utility = Pool()
        utility.add(problem, plan)
        return replace(self, utility=utility, sizes_before=count_sizes(sizes_before))

    def __add__(self, other: Findings) -> Findings:
        """Take the regions of both."""
        sizes = self.sizes + other.sizes
        return Findings(
            n_regions=self.n_regions + other.n_regions,
            n_records=self.n_records + other.n_records,
            n_withheld=self.n_withheld + other.n_withheld,
            reached=tuple(
                one.weaken(two).over_all(sizes) for one, two in zip(self.reached, other.reached, strict=True)
            ),
            utility=self.utility + other.utility,
            sizes=sizes,
            sizes_before=self.sizes_before + other.sizes_before,
            warnings=tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            generalized=self.generalized + other.generalized,
            published=_unite(self.published, other.published),
            kept=_unite(self.kept, other.kept),
            ranges=_unite(self.ranges, other.ranges),
            levels=_add_tallies(self.levels, other.levels),
            shares=_add_tallies(self.shares, other.shares),
            labelled=(*self.labelled, *other.labelled),
        )


def count_sizes(sizes: IntArray) -> Counter[int]:
    """Return how many classes there are of each size."""
    found, times = np.unique(sizes, return_counts=True)
    return Counter(dict(zip(found.tolist(), times.tolist(), strict=True)))


T = TypeVar("T", LevelTally, ShareTally)


def _unite(one: Sequence[IntArray], other: Sequence[IntArray]) -> tuple[IntArray, ...]:
    return tuple(np.union1d(*both) for both in zip(one, other, strict=True))


def _add_tallies(one: Mapping[str, T], other: Mapping[str, T]) -> dict[str, T]:
    return {name: tally + other[name] for name, tally in one.items()}


def find_kept_leaves(plan: Plan, place: int, problem: Problem) -> IntArray:
    """Return the leaves of a sensitive attribute that some published record keeps."""
    leaves = problem.cells.codes[len(problem.quasi) + place]
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    own = (class_of >= 0) & (records > 0)
    if plan.targets is not None:
        own &= np.append(plan.targets.lo[:, place], 0)[target] == KEPT
    return _find_leaves(leaves, cell, own)


def _find_leaves(leaves: AnyIntArray, cell: IntArray, shown: BoolArray) -> IntArray:
    """Return the leaves, ascending, of the cells of which some piece is shown, given the cells of all pieces."""
    return kernels.occurring(leaves if shown.all() else leaves[cell[shown]])


def find_ranges(plan: Plan, place: int, problem: Problem) -> IntArray:
    """Return the keys of the ranges that some record publishes in place of its sensitive value, ascending."""
    if plan.targets is None:
        return np.zeros(0, dtype=np.int64)
    lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
    ranged = lo != KEPT
    keys = key_ranges(problem.sensitive[place].taxonomy, lo[ranged], hi[ranged])
    return np.unique(keys).astype(np.int64)

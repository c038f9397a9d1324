"""Figures of what a plan publishes: promises that it reaches, changes of columns, shares of sensitive values.

Those of regions add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.models.base import PrivacyModel, TableModel, ValueModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.policy import Policy
from shoal.release.columns import key_ranges, list_ranges
from shoal.release.forms.base import Form, find_form
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.base import Pool
from shoal.utility.information import find_exact_leaves, find_nodes, find_suppressed

CHANGES = ("unchanged", "generalized", "suppressed")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTally:
    """How many records have a column's value unchanged, generalized and suppressed; tallies of regions add up."""

    records: IntArray  # (3,)

    @classmethod
    def of(
        cls, taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray, records: AnyIntArray, level: int | None = None
    ) -> Self:
        """Count leaf ranges, each with so many records; *level* is the one that was chosen for all values, if any."""
        nodes = find_nodes(taxonomy, lo, hi, level)
        exact = (nodes >= 0) & (nodes < taxonomy.n_leaves) & find_exact_leaves(taxonomy)[lo]
        change = np.where(exact, 0, np.where(find_suppressed(taxonomy, lo, hi, nodes), 2, 1))
        return cls(np.rint(np.bincount(change, weights=records, minlength=3)).astype(np.int64))

    def __add__(self, other: ColumnTally) -> ColumnTally:
        return ColumnTally(self.records + other.records)

    def shares(self) -> dict[str, float]:
        return dict(zip(CHANGES, (self.records / max(self.records.sum(), 1)).tolist(), strict=True))


def count_suppressed_rows(problem: Problem, plan: Plan) -> int:
    """Return how many published records have every quasi-identifier suppressed."""
    hidden = np.ones(plan.n_classes, dtype=np.bool_)
    for place, one in enumerate(problem.quasi):
        ends = plan.lo[:, place], plan.hi[:, place]
        hidden &= find_suppressed(one.taxonomy, *ends, find_nodes(one.taxonomy, *ends, plan.find_level(one.name)))
    return int(plan.sizes[hidden].sum())


def tally_columns(problem: Problem, plan: Plan, form: type[Form]) -> dict[str, ColumnTally]:
    """Return the tally of every quasi attribute, unless values are published as they are, and of generalized ones.

    Averages of a class suppress no value.
    """
    found = {}
    for place, one in enumerate(() if form.as_they_are else problem.quasi):
        ends = plan.lo[:, place], plan.hi[:, place]
        tally = ColumnTally.of(one.taxonomy, *ends, plan.sizes, plan.find_level(one.name))
        unchanged, generalized, suppressed = tally.records
        averaged = ColumnTally(np.array([unchanged, generalized + suppressed, 0]))
        found[one.name] = tally if form.generalizes else averaged
    if plan.targets is not None:
        for place, one in enumerate(problem.sensitive):
            lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
            lo, hi = np.where(lo == KEPT, 0, lo), np.where(lo == KEPT, 1, hi)  # a leaf, whichever it is
            found[one.name] = ColumnTally.of(one.taxonomy, lo, hi, plan.targets.records)
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
    likeliest: int  # records that have the most frequent true value of their class
    true_counts: IntArray  # (n_leaves,) records of each true value

    @classmethod
    def of(
        cls,
        keys: IntArray,
        number: CodeArray,
        class_of: CodeArray,
        records: IntArray,
        n_classes: int,
        true: tuple[CodeArray, int] | None = None,
    ) -> Self:
        """Count items, each so many records of a class that publish the key at its number; class -1 is none.

        *true* has the true values of the items and their number, if labels are published instead of some.

        >>> keys, item = np.array([1, 12]), np.array([[0, 0, 3], [1, 0, 1], [0, 1, 2], [0, -1, 9]], dtype=np.int32)
        >>> found = ShareTally.of(keys, *item.T, 2)
        >>> found.keys.tolist(), found.records.tolist(), found.lowest.tolist(), found.highest.tolist()
        ([1, 12], [5, 1], [0.75, 0.25], [1.0, 0.25])
        >>> found.likeliest, found.true_counts.tolist()
        (5, [5, 1])
        """
        own, n_values = (number, len(keys)) if true is None else true
        shown = class_of >= 0
        true_counts = np.bincount(own[shown], records[shown], n_values).astype(np.int64)
        first, order = kernels.group_items(class_of, n_classes)
        tallies, shares = np.zeros((3, len(keys)), dtype=np.int64), np.repeat([[1.0], [0.0]], len(keys), axis=1)
        n_filled = kernels.tally_shares(first, order, number, records, tallies, shares)
        likeliest = kernels.count_likeliest(first, order, own, records, np.zeros(n_values, dtype=np.int64))
        (records, classes, _), (lowest, highest), there = tallies, shares, np.flatnonzero(tallies[0])
        figures = keys[there], records[there], classes[there], lowest[there], highest[there]
        return cls(*figures, n_filled, likeliest, true_counts)

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
        likeliest, true_counts = self.likeliest + other.likeliest, self.true_counts + other.true_counts
        n_classes = self.n_classes + other.n_classes
        return ShareTally(keys, records, classes, lowest, highest, n_classes, likeliest, true_counts)

    def as_dict(self, taxonomy: Taxonomy) -> dict[str, object]:
        """Return the most frequent ``values``, each with its share in the ``whole``, and how many ``more`` there are.

        ``lowest`` and ``highest`` are the shares in classes; a class without the value counts as 0. ``likeliest`` is
        the share of records that have the most frequent true value of their class, ``most_frequent`` of the table.
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
        return {
            "values": values,
            "more": len(self.keys) - len(shown),
            "likeliest": self.likeliest / total,
            "most_frequent": int(self.true_counts.max()) / total,
        }


def class_shares(problem: Problem, plan: Plan, place: int) -> ShareTally:
    """Return the shares of what classes publish of one sensitive attribute, generalized values as they are."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    number = problem.cells.codes[len(problem.quasi) + place][cell].astype(np.int32)
    taxonomy = problem.sensitive[place].taxonomy
    keys, true = _leaf_keys(taxonomy), (number, taxonomy.n_leaves)
    if plan.targets is not None:
        lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
        keys, which = np.unique(
            np.append(keys, np.where(lo == KEPT, keys[0], key_ranges(taxonomy, lo, hi))), return_inverse=True
        )
        which = which.reshape(-1).astype(np.int32)
        ranged = np.append(lo != KEPT, False)[target]
        number = np.where(ranged, np.append(which[taxonomy.n_leaves :], np.int32(0))[target], which[number])
    return ShareTally.of(keys, number, class_of, records, plan.n_classes, true)


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

    def as_dict(self) -> dict[str, object]:
        """Return the manifest's entry."""
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        counts = {} if self.counts is None else {"counts": self.counts}
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved, **counts}


def measure_guarantees(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides.

    Where people are counted, a model has a guarantee for each way to count them.
    """
    reached: dict[tuple[int, str | None], Guarantee] = {}
    published = tuple(requirement for requirement in problem.requirements if not requirement.of_true_values)
    for requirement, classes, whole in judge_plan(replace(problem, requirements=published), plan):
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
    columns: Mapping[str, ColumnTally]  # by attributes that have labels or averages
    n_suppressed: int  # published records with every quasi-identifier suppressed
    shares: Mapping[str, ShareTally]  # by sensitive attributes
    labelled: tuple[pa.RecordBatch, ...]  # rows with generalized values
    revealed: int  # people whose records were moved because of their values, or are counted with such people
    guessed: int = 0  # people about whom the minimality reader breaks a model, estimated region by region

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
        places, form = range(len(problem.sensitive)), find_form(policy.method.form)
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
            columns=tally_columns(problem, plan, form),
            n_suppressed=count_suppressed_rows(problem, plan) if form.generalizes else 0,
            shares={one.name: class_shares(problem, plan, place) for place, one in enumerate(problem.sensitive)},
            labelled=labelled,
            revealed=plan.search.get("people_revealed", 0),
        )

    def measure_region(self, policy: Policy, problem: Problem, plan: Plan, sizes_before: IntArray) -> Findings:
        """Return the same with what is left of a region, whose classes by the values as they were have these sizes."""
        utility = Pool()
        utility.add(problem, plan)
        guessed = estimate_guessed(policy, problem, plan)
        return replace(self, utility=utility, sizes_before=count_sizes(sizes_before), guessed=guessed)

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
            columns=_add_tallies(self.columns, other.columns),
            n_suppressed=self.n_suppressed + other.n_suppressed,
            shares=_add_tallies(self.shares, other.shares),
            labelled=(*self.labelled, *other.labelled),
            revealed=self.revealed + other.revealed,
            guessed=self.guessed + other.guessed,
        )


def count_sizes(sizes: IntArray) -> Counter[int]:
    """Return how many classes there are of each size."""
    found, times = np.unique(sizes, return_counts=True)
    return Counter(dict(zip(found.tolist(), times.tolist(), strict=True)))


T = TypeVar("T", ColumnTally, ShareTally)


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


def estimate_guessed(policy: Policy, problem: Problem, plan: Plan) -> int:
    """Estimate about how many people a reader breaks a model of values who asks why classes were not divided."""
    method = policy.method
    if method.divides is None or not any(isinstance(one.model, ValueModel) for one in problem.requirements):
        return 0
    from shoal.plan.reader import estimate_revealed  # only methods that divide classes need it

    return estimate_revealed(problem, plan, np.random.default_rng(1), each=method.divides == "each").people

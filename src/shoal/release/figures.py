"""Figures of a plan's publication: guarantees, changes of columns, shares of sensitive values.

The figures of regions can be added up.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

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
    """The number of records whose value in a column is unchanged, generalized and suppressed."""

    records: IntArray  # (3,)

    @classmethod
    def of(
        cls, taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray, records: AnyIntArray, level: int | None = None
    ) -> Self:
        """Count leaf ranges, given their numbers of *records* and the *level* chosen for all values, if any."""
        nodes = find_nodes(taxonomy, lo, hi, level)
        exact = (nodes >= 0) & (nodes < taxonomy.n_leaves) & find_exact_leaves(taxonomy)[lo]
        change = np.where(exact, 0, np.where(find_suppressed(taxonomy, lo, hi, nodes), 2, 1))
        return cls(np.rint(np.bincount(change, weights=records, minlength=3)).astype(np.int64))

    def __add__(self, other: ColumnTally) -> ColumnTally:
        return ColumnTally(self.records + other.records)

    def shares(self) -> dict[str, float]:
        return dict(zip(CHANGES, (self.records / max(self.records.sum(), 1)).tolist(), strict=True))


def count_suppressed_rows(problem: Problem, plan: Plan) -> int:
    hidden = np.ones(plan.n_classes, dtype=np.bool_)
    for place, one in enumerate(problem.quasi):
        ends = plan.lo[:, place], plan.hi[:, place]
        hidden &= find_suppressed(one.taxonomy, *ends, find_nodes(one.taxonomy, *ends, plan.find_level(one.name)))
    return int(plan.sizes[hidden].sum())


def tally_columns(problem: Problem, plan: Plan, form: type[Form]) -> dict[str, ColumnTally]:
    """Return the tally of every quasi attribute that is not published unchanged, and of generalized sensitive ones.

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
            lo, hi = np.where(lo == KEPT, 0, lo), np.where(lo == KEPT, 1, hi)  # any single leaf
            found[one.name] = ColumnTally.of(one.taxonomy, lo, hi, plan.targets.records)
    return found


MOST_VALUES = 20


@dataclass(frozen=True, slots=True, eq=False)
class ShareTally:
    """Counts and extreme shares of the published values of a sensitive attribute in classes.

    A published value is a leaf range, named by its key.
    """

    keys: IntArray  # (n_values,) ascending
    records: IntArray  # (n_values,)
    classes: IntArray  # (n_values,) number of classes with the value
    lowest: FloatArray  # (n_values,) share in these classes
    highest: FloatArray  # (n_values,)
    n_classes: int
    likeliest: int  # records with the most frequent true value of their class
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
        """Count items: *records* of a class that publish the key at *number*; items of class -1 are ignored.

        *true* has the items' true values and the number of possible values, if some items publish labels.

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
        the share of records with the most frequent true value of their class, ``most_frequent`` the share of the
        table's most frequent value.
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
    pieces = plan.pieces
    number = problem.cells.codes[len(problem.quasi) + place][pieces.cell].astype(np.int32)
    keys = _leaf_keys(problem.sensitive[place].taxonomy)
    return ShareTally.of(keys, number, pieces.bucket, pieces.records, plan.n_buckets)


def _leaf_keys(taxonomy: Taxonomy) -> IntArray:
    leaves = np.arange(taxonomy.n_leaves)
    return key_ranges(taxonomy, leaves, leaves + 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One model and the strongest main parameter that all classes satisfy."""

    model: PrivacyModel
    achieved: float
    counts: str | None = None  # the policy's key of people, if these are counted instead of records

    def weaken(self, other: Guarantee) -> Guarantee:
        worse = min if self.model.achieved_is == "at least" else max
        return replace(self, achieved=worse(self.achieved, other.achieved))

    def over_all(self, sizes: Counter[int]) -> Guarantee:
        """Return the guarantee for all classes together if the model is about the whole table."""
        if not isinstance(self.model, TableModel):
            return self
        every = np.repeat(np.array(list(sizes.keys())), np.array(list(sizes.values())))
        return replace(self, achieved=self.model.reach_together(every))

    def as_dict(self) -> dict[str, object]:
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        counts = {} if self.counts is None else {"counts": self.counts}
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved, **counts}


def measure_guarantees(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return the parameter that the plan reaches for each model of the policy; the verifier decides whether it
    suffices.

    If people are counted, a model has a guarantee for each way to count them.
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
    """The publication of all classes, and the guarantees that they reach; its size does not grow with the records.

    The sum of the findings of all regions equals the findings of one plan with the same classes. Utility and original
    class sizes are measured only for regions, because nothing else of a region is kept.
    """

    n_regions: int
    n_records: int
    n_withheld: int
    reached: tuple[Guarantee, ...]  # the worst of each of the policy's models
    utility: Pool
    sizes: Counter[int]  # how many classes there are of each size
    sizes_before: Counter[int]  # the same for original values
    warnings: tuple[str, ...]
    generalized: Counter[str]  # records, by sensitive attributes
    published: tuple[IntArray, ...]  # by attributes, the leaves of published records, ascending
    kept: tuple[IntArray, ...]  # by sensitive attributes, the leaves that are published unchanged, ascending
    ranges: tuple[IntArray, ...]  # by attributes, the keys of published ranges, ascending
    columns: Mapping[str, ColumnTally]  # by attributes with labels or averages
    n_suppressed: int  # published records with every quasi-identifier suppressed
    shares: Mapping[str, ShareTally]  # by sensitive attributes
    labelled: tuple[pa.RecordBatch, ...]  # rows with generalized values
    revealed: int  # people whose records were moved because of their values, or who are counted with such people
    guessed: int = 0  # people for whom the minimality reader breaks a model, estimated region by region

    @classmethod
    def of(
        cls,
        policy: Policy,
        problem: Problem,
        plan: Plan,
        quasi: Sequence[IntArray],
        labelled: tuple[pa.RecordBatch, ...],
    ) -> Findings:
        """Compute the findings of the plan of a table or region; *quasi* are the ranges that its classes publish."""
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
        """Return the findings with the utility of a region, whose classes of original values have these sizes."""
        utility = Pool.of(problem, plan)
        guessed = estimate_guessed(policy, problem, plan)
        return replace(self, utility=utility, sizes_before=count_sizes(sizes_before), guessed=guessed)

    def __add__(self, other: Findings) -> Findings:
        sizes, both = self.sizes + other.sizes, (self, other)
        merged: dict[str, Any] = {
            "reached": tuple(
                one.weaken(two).over_all(sizes) for one, two in zip(self.reached, other.reached, strict=True)
            ),
            "warnings": tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            "columns": {name: tally + other.columns[name] for name, tally in self.columns.items()},
            "shares": {name: tally + other.shares[name] for name, tally in self.shares.items()},
        }
        for name in ("published", "kept", "ranges"):
            merged[name] = tuple(map(np.union1d, *(getattr(each, name) for each in both)))
        names = [field.name for field in fields(self) if field.name not in merged]
        return Findings(**merged, **{name: operator.add(*(getattr(each, name) for each in both)) for name in names})


def count_sizes(sizes: IntArray) -> Counter[int]:
    found, times = np.unique(sizes, return_counts=True)
    return Counter(dict(zip(found.tolist(), times.tolist(), strict=True)))


def find_kept_leaves(plan: Plan, place: int, problem: Problem) -> IntArray:
    leaves = problem.cells.codes[len(problem.quasi) + place]
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    own = (class_of >= 0) & (records > 0)
    if plan.targets is not None:
        own &= np.append(plan.targets.lo[:, place], 0)[target] == KEPT
    return _find_leaves(leaves, cell, own)


def _find_leaves(leaves: AnyIntArray, cell: IntArray, shown: BoolArray) -> IntArray:
    """Return the leaves, ascending, of cells with a published piece, given the cells of all pieces."""
    return kernels.occurring(leaves if shown.all() else leaves[cell[shown]])


def find_ranges(plan: Plan, place: int, problem: Problem) -> IntArray:
    """Return the keys, ascending, of the ranges that replace sensitive values."""
    if plan.targets is None:
        return np.zeros(0, dtype=np.int64)
    lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
    ranged = lo != KEPT
    keys = key_ranges(problem.sensitive[place].taxonomy, lo[ranged], hi[ranged])
    return np.unique(keys).astype(np.int64)


def estimate_guessed(policy: Policy, problem: Problem, plan: Plan) -> int:
    """Estimate for how many people a reader who reasons about undivided classes breaks a model of values."""
    method = policy.method
    if method.divides is None or not any(isinstance(one.model, ValueModel) for one in problem.requirements):
        return 0
    from shoal.plan.reader import estimate_revealed  # loaded only for methods that divide classes

    return estimate_revealed(problem, plan, np.random.default_rng(1), each=method.divides == "each").people

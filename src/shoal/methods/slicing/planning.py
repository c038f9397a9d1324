"""The phases of slicing: attribute partition, column generalization, tuple partition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress, Step
from shoal.methods.slicing.attributes import Partition, check_columns, check_parts, cluster_quasi, correlations
from shoal.methods.slicing.beliefs import Beliefs
from shoal.methods.slicing.buckets import Cutter, group_at_random, join_pieces, merge_groups
from shoal.methods.slicing.parts import choose_groups, part_of
from shoal.methods.withholding import choose_company
from shoal.models.base import PrivacyModel, ValueModel, round_down, round_up
from shoal.models.column_frequency import ColumnFrequency
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.plan.judging import Judge
from shoal.plan.plan import WITHHELD
from shoal.plan.problem import Problem, Requirement
from shoal.plan.reader import satisfy
from shoal.plan.slices import Part, Pieces, SlicedPlan, sensitive_part
from shoal.utility.marginals import score_marginals
from shoal.utility.rows import view_plan

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing


_MANY = 100  # minimum size of a group that messages name by its values
_INSTANTIATIONS: tuple[tuple[str, PrivacyModel], ...] = (
    ("simple", SimpleLDiversity(l=1)),
    ("entropy", EntropyLDiversity(l=1)),
    ("distinct", DistinctLDiversity(l=1)),
)
_SMALLEST = 2  # a single record would link its parts
_RANDOM_BUCKET = 100
_GROUPS = 2  # of quasi-identifiers, if they are not generalized
_NEAREST, _MOST_JOINED = 6, 3  # attributes that are tried, and at most joined, in the part with the sensitive ones
_SETS = 150  # of attributes, to compare ways by marginals


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """Parts that can satisfy the requirements, and the records that are published in them."""

    partition: Partition
    parts: tuple[Part, ...]
    counts: IntArray  # (n_cells,)


def plan_slices(method: Slicing, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
    """Return a plan whose tuples all satisfy all requirements, or raise UnreachableError.

    If the policy leaves the parts open, several ways are planned, and the one with the best marginals is returned.
    """
    crowd = max((r.model.k for r in problem.requirements if isinstance(r.model, ColumnFrequency)), default=1)
    given_up: list[str] = []
    try:
        ways = []
        if (method.columns, method.alpha, method.parts) != (None, None, None):
            ways = [_build(method, problem, Partition.of(method, problem), crowd, progress)]
    except UnreachableError:
        if method.alpha is not None or not isinstance(method.columns, int):
            raise
    ways = ways or _choose_parts(method, problem, crowd, given_up, progress)
    plans = [_plan_parts(method, problem, way, crowd, rng, progress) for way in ways]
    search: dict[str, object] = {"given_up": given_up} if given_up else {}
    best = 0
    if len(plans) > 1:
        seen = [score_marginals(problem, view_plan(problem, plan), most_sets=_SETS)[-1].release for plan in plans]
        best = int(np.argmax(seen))
        search["tried"] = [
            {"parts": way.partition.list_names(problem), "buckets": plan.n_buckets, "marginals": round(score, 1)}
            for way, plan, score in zip(ways, plans, seen, strict=True)
        ]
    plan, partition = plans[best], ways[best].partition
    search |= {**partition.search, "parts": partition.list_names(problem)}
    return replace(plan, search=search, warnings=advice(problem, given_up, plan))


def _plan_parts(
    method: Slicing, problem: Problem, way: _Way, crowd: int, rng: np.random.Generator, progress: Progress
) -> SlicedPlan:
    smallest, n_records = max(crowd, method.bucket_size or _SMALLEST), int(way.counts.sum())
    if n_records < smallest:
        raise UnreachableError(f"slicing: buckets need {smallest} records, but the table has only {n_records}")
    if method.overlapping:
        _refuse_joined(problem, way)
    with progress.step("slicing", n_records, unit="records") as step:
        if method.grouping == "mondrian":
            pieces = _make_buckets(problem, way, smallest, step)
        else:
            pieces = _group_records(method, problem, way, crowd, rng)
    return SlicedPlan.of_pieces(way.parts, problem.cells.counts, pieces, int(pieces.bucket.max()) + 1)


def _choose_parts(
    method: Slicing, problem: Problem, frequency: int, given_up: list[str], progress: Progress
) -> list[_Way]:
    """Return ways to divide the attributes that can satisfy the requirements.

    Quasi-identifiers are grouped by correlation or, if rare values are generalized, by loss. One way has the sensitive
    attributes in their own part. Each further way adds a correlated quasi-identifier to it; those with which the
    requirement cannot be met are *given up*.
    """
    found, n_quasi = correlations(problem), len(problem.quasi)
    check_columns(n_quasi, len(problem.sensitive), _GROUPS, None)
    groups = cluster_quasi(found, n_quasi, _GROUPS if method.columns is None else int(method.columns) - 1)
    if frequency > 1 and method.columns is None:
        groups = choose_groups(problem, frequency, method.labels, progress)

    def build(*beside: int) -> _Way:
        left = [tuple(place for place in group if place not in beside) for group in groups]
        places = filter(None, (*left, (*sorted(beside), *range(n_quasi, len(found)))))
        return _build(method, problem, Partition.of_places(problem, tuple(places), found), frequency, progress)

    ways, beside = [build()], list[int]()
    near = found[n_quasi:, :n_quasi].max(axis=0, initial=0)
    for place in np.argsort(-near, kind="stable")[:_NEAREST].tolist() if problem.sensitive else ():
        if len(ways) > min(_MOST_JOINED, n_quasi - 1):
            break
        try:
            ways.append(build(*beside, place))
            beside.append(place)
        except UnreachableError:
            given_up.append(problem.quasi[place].name)
    return ways


def _build(method: Slicing, problem: Problem, partition: Partition, frequency: int, progress: Progress) -> _Way:
    """Return the parts of a partition, and the records that can be published in them.

    After withholding, a part's values may be too rare, so the parts are built again until nothing changes.
    """
    counts = problem.cells.counts
    while True:
        parts = tuple(
            part_of(problem, counts, frequency, method.labels, progress, group, names)
            for group, names in zip(partition.places, partition.carried, strict=True)
        )
        check_parts(method, problem, parts)
        kept = reachable_counts(problem, parts, counts)
        if np.array_equal(kept, counts):
            return _Way(partition, parts, counts)
        counts = kept


def _refuse_joined(problem: Problem, way: _Way) -> None:
    """Raise if joining overlapping parts reveals too much even with all records in one bucket."""
    cells = np.flatnonzero(way.counts)
    pieces = Pieces(cells, np.zeros(len(cells), dtype=np.int32), way.counts[cells])
    beliefs = Beliefs(problem, way.parts, pieces, 1)
    n_failing = int(beliefs.failing().sum())
    if n_failing:
        raise UnreachableError(
            f"slicing: an adversary who joins the overlapping parts learns too much about {n_failing:,} of "
            f"{beliefs.n_tuples:,} tuples even with all records in one bucket; share other attributes, or ask for less"
        )


def _make_buckets(problem: Problem, way: _Way, smallest: int, step: Step) -> Pieces:
    """Put similar records into buckets that are as small as the requirements allow.

    Each part is tried as the part to cut by. The score is the number of cuts times the mean correlation of the part's
    attributes with others, because buckets along an uncorrelated attribute would not be informative.
    """
    choices = [part.quasi for part in way.parts if part.quasi]
    with ThreadPoolExecutor() as threads:
        cut = list(threads.map(Cutter(problem, way.parts, way.counts, smallest).cut, choices))
    step.advance(int(way.counts.sum()))
    if len(cut) == 1:
        return cut[0].pieces()
    found = way.partition.found
    found = correlations(problem) if found is None else found
    inside = [np.array(places) for places in choices]
    others = [np.setdiff1d(np.arange(len(found)), places) for places in inside]
    scores = [
        (items.n_buckets - 1) * float(found[np.ix_(places, rest)].mean()) if len(rest) else 0.0
        for items, places, rest in zip(cut, inside, others, strict=True)
    ]
    return cut[int(np.argmax(scores))].pieces()


def _group_records(method: Slicing, problem: Problem, way: _Way, crowd: int, rng: np.random.Generator) -> Pieces:
    """Put the records into random buckets, and merge groups until all hold.

    Records of a failing group join others with the same quasi values in the sensitive part, which changes no other
    group. If there are several sensitive parts, their groups overlap, and whole buckets are merged. So are buckets that
    become too small.
    """
    parts, size = way.parts, max(crowd, method.bucket_size or _RANDOM_BUCKET)
    pieces = group_at_random(way.counts, size, rng)
    wanted = [problem.sensitive_places(r) for r in problem.requirements if r.values is not None]
    informed = [part for part in parts if any(places <= set(part.sensitive) for places in wanted)]
    whole = np.zeros(len(pieces.cell), dtype=np.int32)
    keys = informed[0].values[pieces.cell] if len(informed) == 1 else whole
    n_buckets = int(pieces.bucket.max()) + 1
    while (failing := Beliefs(problem, parts, pieces, n_buckets).pieces_that_fail()).any():
        before, pieces = pieces.bucket, merge_groups(pieces, keys, failing, rng)
        if np.array_equal(before, pieces.bucket):
            raise UnreachableError("slicing: groups fail even with all their records in one bucket; ask for less")
    sizes = kernels.sum_groups(pieces.bucket, pieces.records, n_buckets)
    while len(sizes[sizes > 0]) > 1 and (small := sizes[pieces.bucket] < max(crowd, size // 2)).any():
        pieces = merge_groups(pieces, whole, small, rng)
        sizes = kernels.sum_groups(pieces.bucket, pieces.records, n_buckets)
    return join_pieces(pieces.cell, pieces.bucket, pieces.records)


def advice(problem: Problem, given_up: Sequence[str], plan: SlicedPlan) -> tuple[str, ...]:
    """Return warnings about these parts and buckets; they name attributes, never values."""
    found = []
    if given_up:
        found.append(
            f"{', '.join(given_up)} correlate with the sensitive attribute but are in other parts, because the "
            "requirement cannot be met in one part; ask for less or generalize (column-frequency) to keep them together"
        )
    pieces = plan.pieces
    for place in sorted({place for part in plan.parts if part.lo is None for place in part.quasi}):
        records = np.bincount(problem.value_codes[place][pieces.cell], pieces.records)
        if int(records.max()) == 1 < int(records.sum()):
            found.append(
                f"{problem.quasi[place].name} has a different value in every record, which points to the person's "
                "bucket; generalize it (column-frequency) or do not publish it (role: identifier)"
            )
    found += [
        f"{attribute.name} has no guarantee: no model of the policy is about its values"
        for place, attribute in enumerate(problem.sensitive)
        if not any(place in problem.sensitive_places(r) for r in problem.requirements if r.values is not None)
    ]
    several = [kernels.varying(part.values, pieces.cell, pieces.bucket, plan.n_buckets) for part in plan.parts]
    if (np.sum(several, axis=0) < 2).all():
        found.append(
            "the buckets form no combination of quasi values that is not in the table: an adversary with a person's "
            "quasi values finds out whether the person is in it; more parts may help"
        )
    if plan.n_buckets == 1:
        found.append(
            "all records are in one bucket: the release does not show how values of different parts go together"
        )
    return tuple(found)


def reachable_counts(problem: Problem, parts: Sequence[Part], counts: IntArray) -> IntArray:
    """Return (n_cells,) the records, out of *counts*, of groups that hold when all records are in one bucket.

    Cutting a bucket only takes records away from a group, so if a union of classes cannot break a model, the whole
    group satisfies it best. Cells of other groups are withheld if the policy allows that many, and further groups with
    them until the withheld people satisfy the models. Otherwise the function raises and names the group.
    """
    counts, blocking = counts.copy(), ""
    while True:
        fails = np.zeros(len(counts), dtype=np.bool_)
        reason: str | None = None
        for requirement in problem.requirements:
            if requirement.values is not None:
                failing, sentence = _failing(problem, parts, requirement, counts)
                fails |= failing
                reason = reason or sentence
        if reason is None:
            company = _find_company(problem, parts, counts, blocking)
            if company is None:
                return counts
            counts[company] = 0
            continue
        counts[fails], blocking = 0, reason
        if problem.cells.n_records - int(counts.sum()) > problem.max_withheld:
            raise UnreachableError(reason)


def _find_company(problem: Problem, parts: Sequence[Part], counts: IntArray, blocking: str) -> BoolArray | None:
    """Return (n_cells,) which cells to withhold as well, or None; raise if the policy allows too few."""
    absent = problem.cells.counts - counts
    cell = np.flatnonzero(absent)
    if not len(cell) or satisfy(problem, np.zeros(len(cell), dtype=np.int32), cell, absent[cell], 1)[0]:
        return None
    asked = next(one for one in problem.requirements if isinstance(one.model, ValueModel))
    shown, owner = np.flatnonzero(counts), np.full(len(counts), WITHHELD, dtype=np.int32)
    present, group = np.unique(sensitive_part(problem, parts, asked).values[shown], return_inverse=True)
    owner[shown] = group.reshape(-1)
    company = choose_company(problem, np.arange(len(counts)), owner, problem.cells.counts, len(present))
    if company is None:
        raise UnreachableError(
            f"{blocking}. To withhold these records, others with other values must be withheld too, because readers "
            "may know who is absent; max_withheld does not allow enough of them"
        )
    return np.append(company, False)[owner]  # the last entry is for WITHHELD


def _failing(
    problem: Problem, parts: Sequence[Part], requirement: Requirement, counts: IntArray
) -> tuple[BoolArray, str | None]:
    """Return (n_cells,) which cells are in failing groups, and a sentence about the worst group.

    All records are in one bucket, and a group shares the quasi values of the sensitive part.
    """
    part, cells = sensitive_part(problem, parts, requirement), np.flatnonzero(counts)
    present, group = np.unique(part.values[cells], return_inverse=True)
    first, order = kernels.group_items(group.reshape(-1).astype(np.int32), len(present))
    cells = cells[order]
    items = first, requirement.values_at(cells), counts[cells]
    judge = Judge.of(requirement, counts)
    holds = judge.holds(*items)
    fails = np.zeros(len(counts), dtype=np.bool_)
    if holds.all():
        return fails, None
    fails[cells] = np.repeat(~holds, np.diff(first))
    more_is_better = requirement.model.achieved_is == "at least"
    reached = judge.reach(*items)
    blocking = int(np.where(holds, np.inf, reached if more_is_better else -reached).argmin())
    figure, size = float(reached[blocking]), int(np.add.reduceat(counts[cells], first[:-1])[blocking])
    reach = "cannot reach it with any parameter"
    if math.isfinite(figure):
        reach = f"can reach only {round_down(figure, 2) if more_is_better else round_up(figure, 4)}"
    others = {name: Judge(replace(requirement, model=model), None, judge.whole) for name, model in _INSTANTIATIONS}
    best = ", ".join(f"{name} {round_down(float(other.reach(*items).min()), 2)}" for name, other in others.items())
    who = _name_records(problem, part, int(cells[first[blocking]]), size)
    return fails, (
        f"{requirement.model.subject}: not reachable even with all {int(counts.sum()):,} records in one bucket: {who} "
        f"{reach}. The largest l of one bucket is {best}. Ask for less or for another kind of diversity, put "
        "fewer quasi attributes into the sensitive part (alpha), generalize columns (column-frequency), or allow "
        "records to be withheld (max_withheld)"
    )


def _name_records(problem: Problem, part: Part, cell: int, size: int) -> str:
    """Describe a group: by its values if it is large, otherwise by its columns only."""
    names = [problem.quasi[place].name for place in part.quasi]
    if not names:
        return f"all {size:,} records together"
    if size == 1:
        return f"one record with a unique value of {', '.join(names)}"
    if size < _MANY:
        return f"{size:,} records that share one value of {', '.join(names)}"
    if part.lo is None or part.hi is None:
        lows = [int(problem.cells.codes[place][cell]) for place in part.quasi]
        highs = [low + 1 for low in lows]
    else:
        lows, highs = part.lo[part.values[cell]].tolist(), part.hi[part.values[cell]].tolist()
    labels = [
        f"{problem.quasi[place].name} = {problem.quasi[place].taxonomy.label(low, high)}"
        for place, low, high in zip(part.quasi, lows, highs, strict=True)
    ]
    return f"the {size:,} records with {', '.join(labels)}"

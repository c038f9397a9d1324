"""The phases of slicing one after another: attribute partition, column generalization, tuple partition."""

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


_MANY = 100  # records that a group has at least to be named by its values
_INSTANTIATIONS: tuple[tuple[str, PrivacyModel], ...] = (
    ("simple", SimpleLDiversity(l=1)),
    ("entropy", EntropyLDiversity(l=1)),
    ("distinct", DistinctLDiversity(l=1)),
)
_SMALLEST = 2  # a bucket of one record would link all its parts
_RANDOM_BUCKET = 100
_GROUPS = 2  # of quasi attributes that are not generalized
_NEAREST, _MOST_BESIDE = 6, 3  # attributes that are tried beside the sensitive ones, and that are so together
_SETS = 150  # of attributes, by which parts are compared


@dataclass(frozen=True, slots=True, eq=False)
class _Parted:
    """Parts that can meet the requirements, and the records that are published so."""

    partition: Partition
    parts: tuple[Part, ...]
    counts: IntArray  # (n_cells,)


def plan_slices(method: Slicing, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
    """Return a plan of which all tuples meet all requirements, or raise UnreachableError.

    Parts that the policy leaves open are tried in several ways; that is taken of which the marginals are best.
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
    plans = [_plan_parts(method, problem, parted, crowd, rng, progress) for parted in ways]
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
    method: Slicing, problem: Problem, parted: _Parted, crowd: int, rng: np.random.Generator, progress: Progress
) -> SlicedPlan:
    """Return a plan of these parts."""
    smallest, n_records = max(crowd, method.bucket_size or _SMALLEST), int(parted.counts.sum())
    if n_records < smallest:
        raise UnreachableError(f"slicing: buckets of {smallest} records are asked for, the table has {n_records}")
    if method.overlapping:
        _refuse_joined(problem, parted)
    with progress.step("slicing", n_records, unit="records") as step:
        if method.grouping == "mondrian":
            pieces = _make_buckets(problem, parted, smallest, step)
        else:
            pieces = _group_records(method, problem, parted, crowd, rng)
    return SlicedPlan.of_pieces(parted.parts, problem.cells.counts, pieces, int(pieces.bucket.max()) + 1)


def _choose_parts(
    method: Slicing, problem: Problem, frequency: int, given_up: list[str], progress: Progress
) -> list[_Parted]:
    """Return ways to part the attributes that can meet the requirements.

    Quasi attributes are grouped by their correlations or, if rare values are to be generalized, so that little is lost.
    The sensitive ones are by themselves, and beside attributes that go best with them and let the requirement be met;
    those that do not are *given up*.
    """
    found, n_quasi = correlations(problem), len(problem.quasi)
    check_columns(n_quasi, len(problem.sensitive), _GROUPS, None)
    groups = cluster_quasi(found, n_quasi, _GROUPS if method.columns is None else int(method.columns) - 1)
    if frequency > 1 and method.columns is None:
        groups = choose_groups(problem, frequency, method.labels, progress)

    def build(*beside: int) -> _Parted:
        left = [tuple(place for place in group if place not in beside) for group in groups]
        places = filter(None, (*left, (*sorted(beside), *range(n_quasi, len(found)))))
        return _build(method, problem, Partition.of_places(problem, tuple(places), found), frequency, progress)

    ways, beside = [build()], list[int]()
    near = found[n_quasi:, :n_quasi].max(axis=0, initial=0)
    for place in np.argsort(-near, kind="stable")[:_NEAREST].tolist() if problem.sensitive else ():
        if len(ways) > min(_MOST_BESIDE, n_quasi - 1):
            break
        try:
            ways.append(build(*beside, place))
            beside.append(place)
        except UnreachableError:
            given_up.append(problem.quasi[place].name)
    return ways


def _build(method: Slicing, problem: Problem, partition: Partition, frequency: int, progress: Progress) -> _Parted:
    """Return the parts of a partition, and the records that can be published so.

    What withholding leaves of a part's values may be too rare, so that parts are built anew until nothing changes.
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
            return _Parted(partition, parts, counts)
        counts = kept


def _refuse_joined(problem: Problem, parted: _Parted) -> None:
    """Raise if whoever joins overlapping parts learns too much even if all records are in one bucket."""
    cells = np.flatnonzero(parted.counts)
    pieces = Pieces(cells, np.zeros(len(cells), dtype=np.int32), parted.counts[cells])
    beliefs = Beliefs(problem, parted.parts, pieces, 1)
    n_failing = int(beliefs.failing().sum())
    if n_failing:
        raise UnreachableError(
            f"slicing: whoever joins the overlapping parts learns too much about {n_failing:,} of "
            f"{beliefs.n_tuples:,} tuples even with all records in one bucket; share other attributes, or ask for less"
        )


def _make_buckets(problem: Problem, parted: _Parted, smallest: int, step: Step) -> Pieces:
    """Put the records into buckets of alike ones, as small as the requirements allow.

    Of the parts that they can be cut by, the one is taken that gives most buckets, times how much its attributes
    go with those of other parts: buckets along an attribute that has to do with nothing would tell nothing.
    """
    choices = [part.quasi for part in parted.parts if part.quasi]
    with ThreadPoolExecutor() as threads:
        cut = list(threads.map(Cutter(problem, parted.parts, parted.counts, smallest).cut, choices))
    step.advance(int(parted.counts.sum()))
    if len(cut) == 1:
        return cut[0].pieces()
    found = parted.partition.found
    found = correlations(problem) if found is None else found
    inside = [np.array(places) for places in choices]
    others = [np.setdiff1d(np.arange(len(found)), places) for places in inside]
    scores = [
        (items.n_buckets - 1) * float(found[np.ix_(places, rest)].mean()) if len(rest) else 0.0
        for items, places, rest in zip(cut, inside, others, strict=True)
    ]
    return cut[int(np.argmax(scores))].pieces()


def _group_records(method: Slicing, problem: Problem, parted: _Parted, crowd: int, rng: np.random.Generator) -> Pieces:
    """Put the records into random buckets, and bring records together until all groups hold.

    Records of a group that fails join others that share its quasi values of the sensitive part: no other group changes.
    Groups of several sensitive parts overlap; there whole buckets are put together, as are those that become too small.
    """
    parts, size = parted.parts, max(crowd, method.bucket_size or _RANDOM_BUCKET)
    pieces = group_at_random(parted.counts, size, rng)
    wanted = [problem.sensitive_places(r) for r in problem.requirements if r.values is not None]
    told = [part for part in parts if any(places <= set(part.sensitive) for places in wanted)]
    whole = np.zeros(len(pieces.cell), dtype=np.int32)
    keys = told[0].values[pieces.cell] if len(told) == 1 else whole
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
    """Return warnings about these parts and buckets; they name attributes only."""
    found = []
    if given_up:
        found.append(
            f"{', '.join(given_up)} go with the sensitive attribute but had to be in other parts: with them beside "
            "it the requirement could not be met; ask for less or generalize (column-frequency) to have them together"
        )
    pieces = plan.pieces
    for place in sorted({place for part in plan.parts if part.lo is None for place in part.quasi}):
        records = np.bincount(problem.value_codes[place][pieces.cell], pieces.records)
        if int(records.max()) == 1 < int(records.sum()):
            found.append(
                f"{problem.quasi[place].name} has a different value in every record, so that whoever knows it finds a "
                "person's bucket; generalize it (column-frequency) or do not publish it (role: identifier)"
            )
    found += [
        f"nothing is promised about {attribute.name}: no model of the policy is about its values"
        for place, attribute in enumerate(problem.sensitive)
        if not any(place in problem.sensitive_places(r) for r in problem.requirements if r.values is not None)
    ]
    several = [kernels.varying(part.values, pieces.cell, pieces.bucket, plan.n_buckets) for part in plan.parts]
    if (np.sum(several, axis=0) < 2).all():
        found.append(
            "the buckets form no combination of quasi values that is not in the table: whoever knows a person's quasi "
            "values can tell whether the person is in it; more parts may help"
        )
    if plan.n_buckets == 1:
        found.append(
            "all records are in one bucket: nothing is published about how values of different parts go together"
        )
    return tuple(found)


def reachable_counts(problem: Problem, parts: Sequence[Part], counts: IntArray) -> IntArray:
    """Return (n_cells,) the records that can be published, of *counts*: groups that hold when all are in one bucket.

    Cutting a bucket only takes records away from a group, and what a union of classes cannot break is reached best by
    the whole group. Cells of other groups are withheld if the policy allows so many, and further groups with them until
    the withheld people satisfy the models; else what blocks is named.
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
    """Return (n_cells,) which cells to withhold with others, None for none; raise if too few may be withheld."""
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
    return np.append(company, False)[owner]  # the last: WITHHELD


def _failing(
    problem: Problem, parts: Sequence[Part], requirement: Requirement, counts: IntArray
) -> tuple[BoolArray, str | None]:
    """Return (n_cells,) which cells are in groups that fail, and a sentence on the group that fails worst.

    Groups are those of one bucket of all records: they share the quasi values of the sensitive part.
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
    reach = "cannot reach it whatever its parameter is"
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
    """Say which records a group are: by its values if they are many, else by its columns only."""
    names = [problem.quasi[place].name for place in part.quasi]
    if not names:
        return f"all {size:,} records together"
    if size == 1:
        return f"a record that alone has its value of {', '.join(names)}"
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

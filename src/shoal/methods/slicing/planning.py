"""The phases of slicing one after another: attribute partition, column generalization, tuple partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, IntArray
from shoal.beliefs import Beliefs
from shoal.beliefs.index import Lists
from shoal.cells import Cells
from shoal.errors import PolicyError, UnreachableError
from shoal.methods.slicing.buckets import Cutter, Items, sensitive_part
from shoal.methods.slicing.by_hand import check_joint, check_tree, places_by_hand
from shoal.methods.slicing.columns import Places, one_each, partitioned, slimmer
from shoal.methods.slicing.correlation import correlations
from shoal.methods.slicing.generalizing import exact, regions
from shoal.methods.slicing.mixing import Mixer
from shoal.methods.slicing.reachable import reachable_counts
from shoal.models.k_anonymity import KAnonymity
from shoal.plan import WITHHELD
from shoal.problem import Problem
from shoal.progress import Progress, Step
from shoal.slices import Part, Pieces, SlicedPlan

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing

_COLUMNS = 2
_SMALLEST = 2  # a bucket of one record would link all its parts
_RANDOM_BUCKET = 100


def planned(method: Slicing, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
    """Return a plan of which all tuples meet all requirements, or raise UnreachableError."""
    search: dict[str, Any] = {}
    crowd = max((r.model.k for r in problem.requirements if isinstance(r.model, KAnonymity)), default=1)
    places, carried, found = _places(method, problem, search)
    counts, moved = problem.cells.counts, list[str]()
    while True:
        parts = tuple(
            _part(problem, counts, max(method.column_frequency, crowd), rng, progress, group, names)
            for group, names in zip(places, carried, strict=True)
        )
        _check(method, problem, parts)
        try:
            kept = reachable_counts(problem, parts, counts)
        except UnreachableError:
            if found is None or method.alpha is not None or not (parts[-1].quasi and parts[-1].sensitive):
                raise
            places, place = slimmer(places, found, len(problem.quasi))
            moved.append(problem.quasi[place].name)
            counts = problem.cells.counts
            continue
        if np.array_equal(kept, counts):
            break
        counts = kept  # values of what is left may be too rare now
    smallest = max(crowd, method.bucket_size or _SMALLEST)
    if int(counts.sum()) < smallest:
        raise UnreachableError(f"slicing: buckets of {smallest} records are asked for, the table has {counts.sum()}")
    if method.overlapping:
        _refuse_joined(problem, parts, counts)
    with progress.step("slicing", int(counts.sum()), unit="records") as step:
        if method.grouping == "mondrian":
            pieces = _cut(method, problem, parts, counts, smallest, step)
        else:
            size = max(crowd, method.bucket_size or _RANDOM_BUCKET)
            pieces = _grouped(method, problem, parts, counts, size, rng)
    plan = SlicedPlan.of_pieces(parts, problem.cells.counts, *_with_withheld(problem, counts, pieces))
    search["parts"] = [_names(problem, part) for part in parts]
    return replace(plan, search=search, warnings=tuple(_warnings(problem, plan, moved)))


def _names(problem: Problem, part: Part) -> list[str]:
    quasi, sensitive = problem.quasi, problem.sensitive
    return [*(quasi[place].name for place in part.quasi), *(sensitive[place].name for place in part.sensitive)]


def _places(
    method: Slicing, problem: Problem, search: dict[str, Any]
) -> tuple[Places, tuple[tuple[str, ...], ...], FloatArray | None]:
    """Return the attributes of each part, insensitive ones by name, and the correlations if these made the parts."""
    if method.parts is not None:
        places, carried = places_by_hand(problem, method.parts, method.overlapping)
        if method.overlapping:
            search["overlapping"] = _gained(problem, places)
        return places, carried, None
    if method.columns == "each":
        places = one_each(problem)
        return places, (problem.carried, *((),) * (len(places) - 1)), None
    columns = partitioned(problem, method.columns or _COLUMNS, method.alpha, method.correlation, method.intervals)
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    search["correlations"] = {
        f"{names[i]}, {names[j]}": round(float(columns.correlations[i, j]), 6)
        for i in range(len(names))
        for j in range(i)
    }
    return columns.places, (problem.carried, *((),) * (len(columns.places) - 1)), columns.correlations


def _gained(problem: Problem, places: Places) -> dict[str, Any]:
    """Return what overlapping keeps: correlation of attribute pairs within a part, with it and without it."""
    found = correlations(problem, "phi2", 10)
    pairs = {(i, j) for group in places for i in group for j in group if i < j}
    seen: set[int] = set()
    alone = set()
    for group in places:
        first = [place for place in group if place not in seen]
        seen.update(first)
        alone |= {(i, j) for i in first for j in first if i < j}
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    return {
        "pairs_gained": [f"{names[i]}, {names[j]}" for i, j in sorted(pairs - alone)],
        "phi2_within_parts": round(float(sum(found[i, j] for i, j in pairs)), 6),
        "phi2_without_overlap": round(float(sum(found[i, j] for i, j in alone)), 6),
    }


def _check(method: Slicing, problem: Problem, parts: Sequence[Part]) -> None:
    """Raise unless what the parts give away can be computed."""
    if method.overlapping and any(part.lo is not None for part in parts):
        raise PolicyError(
            "method.slicing: parts that overlap cannot be generalized too; leave out column_frequency and k-anonymity"
        )
    check_joint(problem, parts, method.overlapping)
    check_tree(parts)


def _refuse_joined(problem: Problem, parts: Sequence[Part], counts: IntArray) -> None:
    """Raise if whoever joins overlapping parts learns too much even if all records are in one bucket."""
    cells = np.flatnonzero(counts)
    beliefs = Beliefs(problem, parts, Pieces(cells, np.zeros(len(cells), dtype=np.int32), counts[cells]), 1)
    n_failing = int(beliefs.failing().sum())
    if n_failing:
        raise UnreachableError(
            f"slicing: whoever joins the overlapping parts learns too much about {n_failing:,} of "
            f"{beliefs.n_tuples:,} tuples even with all records in one bucket; share other attributes, or ask for less"
        )


def _part(
    problem: Problem,
    counts: IntArray,
    frequency: int,
    rng: np.random.Generator,
    progress: Progress,
    group: Sequence[int],
    carried: tuple[str, ...],
) -> Part:
    """Build one part; it is generalized only if some combination of its quasi values is rarer than *frequency*."""
    n_quasi = len(problem.quasi)
    quasi = tuple(place for place in group if place < n_quasi)
    sensitive = tuple(place - n_quasi for place in group if place >= n_quasi)
    values, n_values = exact(problem, quasi)
    times = kernels.summed(values, counts, n_values)
    if times[times > 0].min() >= frequency:
        return Part(quasi, sensitive, carried, values, n_values)
    published = replace(problem, cells=Cells(problem.cells.codes, counts))
    values, lo, hi = regions(published, quasi, frequency, rng, progress)
    return Part(quasi, sensitive, carried, values, len(lo), lo, hi)


def _cut(
    method: Slicing, problem: Problem, parts: tuple[Part, ...], counts: IntArray, smallest: int, step: Step
) -> Pieces:
    """Put the records into buckets of alike ones, as small as the requirements allow."""
    asked = [r for r in problem.requirements if r.values is not None]
    keys = sensitive_part(problem, parts, asked[0]).values if asked else np.zeros(len(counts), dtype=np.int32)
    items = Items.of_one_bucket(problem, np.flatnonzero(counts), keys, _cut_by(method, parts))
    told_twice = method.overlapping and sum(1 for part in parts if part.sensitive) > 1
    if not told_twice:
        Cutter(problem, parts, counts, smallest).cut(items, step)
    if told_twice or method.cuts == "relaxed" or any(part.lo is not None for part in parts):
        items = Mixer(problem, parts, smallest, method.cuts == "relaxed").cut(items)
    return items.pieces()


def _cut_by(method: Slicing, parts: Sequence[Part]) -> tuple[int, ...]:
    """Return the quasi attributes that buckets are cut by."""
    if method.cut_by == "all":
        return tuple(sorted({place for part in parts for place in part.quasi}))
    return max(parts, key=lambda part: (bool(part.quasi), part.n_values)).quasi


def _grouped(
    method: Slicing, problem: Problem, parts: tuple[Part, ...], counts: IntArray, size: int, rng: np.random.Generator
) -> Pieces:
    """Put the records into buckets of *size*, or of twice as many until all tuples meet the requirements."""
    from shoal.methods.slicing.grouping import gathered_grouping, random_grouping

    while True:
        if method.grouping == "random":
            pieces = random_grouping(counts, size, rng)
        else:
            pieces = gathered_grouping([part.values for part in parts], counts, size, rng)
        n_buckets = int(pieces.bucket.max()) + 1
        if n_buckets == 1 or not Beliefs(problem, parts, pieces, n_buckets).failing().any():
            return pieces
        size *= 2


def _with_withheld(problem: Problem, counts: IntArray, pieces: Pieces) -> tuple[Pieces, int]:
    """Add the records that are in no bucket, and say how many buckets there are."""
    rest = np.flatnonzero(counts < problem.cells.counts)
    everything = Pieces(
        np.concatenate([pieces.cell, rest]),
        np.concatenate([pieces.bucket, np.full(len(rest), WITHHELD, dtype=np.int32)]),
        np.concatenate([pieces.records, (problem.cells.counts - counts)[rest]]),
    )
    return everything, int(pieces.bucket.max()) + 1


def _warnings(problem: Problem, plan: SlicedPlan, moved: Sequence[str]) -> list[str]:
    """Say what the data holder should know of these parts."""
    told = []
    if moved:
        told.append(
            f"{', '.join(moved)} would go best with the sensitive attribute, but the requirement cannot be reached so; "
            "they are in other parts"
        )
    n_records = int(plan.sizes.sum())
    for part in plan.parts:
        if len(part.quasi) == 1 and not part.sensitive and part.lo is None and part.n_values == n_records:
            name = problem.quasi[part.quasi[0]].name
            told.append(
                f"{name} has a distinct value in every record and is a part of its own: whoever knows it finds the "
                "bucket of a person; generalize it (column_frequency), withhold it (identifier) or put it elsewhere"
            )
    if not _hides_members(plan, plan.pieces(problem.cells.counts)):
        told.append(
            "no bucket matches a tuple that is not in the table: whoever knows the quasi values of a person sees if "
            "that person is in it; more parts, or cut_by: part, may hide that"
        )
    if plan.n_buckets == 1:
        told.append("all records are in one bucket: values of different parts are not linked at all")
    return told


def _hides_members(plan: SlicedPlan, pieces: Pieces) -> bool:
    """Whether some bucket has several values of two parts, so that it matches tuples which are not in the table."""
    mixed = np.zeros(plan.n_buckets, dtype=np.int64)
    for part in plan.parts:
        lists = Lists.of(part.values[pieces.cell], part.n_values, pieces.bucket, pieces.records, plan.n_buckets)
        mixed += np.bincount(lists.bucket, minlength=plan.n_buckets) > 1
    return bool((mixed > 1).any())

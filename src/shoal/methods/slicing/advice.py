"""What the data holder should know of a slicing that meets all requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal import kernels
from shoal.arrays import AnyIntArray
from shoal.beliefs.index import Lists
from shoal.methods.slicing.partition import Partition
from shoal.problem import Problem
from shoal.slices import Pieces, SlicedPlan

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing


def advice(method: Slicing, problem: Problem, partition: Partition, plan: SlicedPlan) -> tuple[str, ...]:
    """Return warnings about these parts and buckets; they name attributes only."""
    told = []
    if partition.moved:
        told.append(
            f"with {', '.join(partition.moved)} beside the sensitive attribute, where the correlations suggest it, the "
            "requirement cannot be met; it was moved to other parts"
        )
    pieces = plan.pieces(problem.cells.counts)
    told += [
        f"{problem.quasi[place].name} has a different value in every record, so that whoever knows it finds a person's "
        "bucket; generalize it (column_frequency) or do not publish it (role: identifier)"
        for place in sorted({place for part in plan.parts if part.lo is None for place in part.quasi})
        if _all_differ(problem.value_codes[place], pieces)
    ]
    told += [
        f"nothing is promised about {attribute.name}: no model of the policy is about its values"
        for place, attribute in enumerate(problem.sensitive)
        if not any(place in problem.sensitive_places(r) for r in problem.requirements if r.values is not None)
    ]
    if not _hides_members(plan, pieces):
        remedy = "more parts, or cut_by: part, may help" if method.cut_by == "all" else "more parts may help"
        told.append(
            "the buckets form no combination of quasi values that is not in the table: whoever knows a person's quasi "
            f"values can tell whether the person is in it; {remedy}"
        )
    if plan.n_buckets == 1:
        told.append(
            "all records are in one bucket: nothing is published about how values of different parts go together"
        )
    return tuple(told)


def _all_differ(codes: AnyIntArray, pieces: Pieces) -> bool:
    """Whether no two published records share a value of an attribute, and there are several."""
    own = codes[pieces.cell].astype(np.int32)
    records = kernels.summed(own, pieces.records, int(own.max()) + 1)
    return int(records.max()) == 1 < int(records.sum())


def _hides_members(plan: SlicedPlan, pieces: Pieces) -> bool:
    """Whether some bucket has several values of two parts, so that it matches tuples which are not in the table."""
    mixed = np.zeros(plan.n_buckets, dtype=np.int64)
    for part in plan.parts:
        lists = Lists.of(part.values[pieces.cell], part.n_values, pieces.bucket, pieces.records, plan.n_buckets)
        mixed += np.bincount(lists.bucket, minlength=plan.n_buckets) > 1
    return bool((mixed > 1).any())

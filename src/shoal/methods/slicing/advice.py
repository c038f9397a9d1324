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
            f"{', '.join(partition.moved)} would go best with the sensitive attribute, but the requirement cannot be "
            "reached so; they are in other parts"
        )
    pieces = plan.pieces(problem.cells.counts)
    told += [
        f"{problem.quasi[place].name} has a distinct value in every record: whoever knows it finds the bucket of a "
        "person; generalize it (column_frequency) or leave it out (identifier)"
        for place in sorted({place for part in plan.parts if part.lo is None for place in part.quasi})
        if _all_differ(problem.value_codes[place], pieces)
    ]
    told += [
        f"nothing is promised about {attribute.name}: no model of the policy looks at its values"
        for place, attribute in enumerate(problem.sensitive)
        if not any(place in problem.sensitive_places(r) for r in problem.requirements if r.values is not None)
    ]
    if not _hides_members(plan, pieces):
        remedy = "more parts, or cut_by: part, may hide that" if method.cut_by == "all" else "more parts may hide that"
        told.append(
            "no bucket matches a tuple that is not in the table: whoever knows the quasi values of a person sees if "
            f"that person is in it; {remedy}"
        )
    if plan.n_buckets == 1:
        told.append("all records are in one bucket: values of different parts are not linked at all")
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

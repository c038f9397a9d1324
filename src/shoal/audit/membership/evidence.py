"""What a run tells the data holder about membership disclosure; it stays internal."""

from __future__ import annotations

from typing import Any

from shoal.audit.membership.contents import BucketContents
from shoal.audit.membership.counting import (
    MatchingBuckets,
    UncountableError,
    distinct_tuples,
    formed_tuples,
    matching_buckets,
)
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan

STEPS = 100_000_000  # well below a second


def membership_evidence(problem: Problem, plan: SlicedPlan) -> dict[str, Any]:
    """Return the numbers of original and of fake tuples, by the paper's categories of matching buckets.

    A tuple is what an adversary knows of a person: the quasi values or, after column generalization, their regions.
    What would take long to count is None, and ``reason`` says why.
    """
    quasi = [place for part in plan.parts for place in part.quasi]
    known = [part for part in plan.parts if part.quasi]
    told: dict[str, Any] = {"original_tuples": None, "fake_tuples": None, "matching_buckets": None, "reason": None}
    if not known:
        return {**told, "reason": "no attribute is quasi-identifying"}
    if len(set(quasi)) < len(quasi):
        return {**told, "reason": "tuples of overlapping parts are not counted"}
    pieces = plan.pieces(problem.cells.counts)
    values = [part.values[pieces.cell] for part in known]
    tuples, copies = distinct_tuples(values, pieces.records)
    told["original_tuples"] = len(copies)
    contents = BucketContents.of(pieces.bucket, values, pieces.records)
    try:
        matching = matching_buckets(contents, tuples, steps=STEPS)
        originals = MatchingBuckets.of(matching)
        categories = {
            "original_records": MatchingBuckets.of(matching, copies).categories(),
            "original_tuples": originals.categories(),
        }
        told["matching_buckets"] = categories
        formed = formed_tuples(contents, steps=STEPS) if len(known) > 1 else originals  # one part forms no others
        fakes = formed.without(originals)
    except UncountableError as error:
        return {**told, "reason": str(error)}
    return {**told, "fake_tuples": fakes.total, "matching_buckets": {**categories, "fake_tuples": fakes.categories()}}

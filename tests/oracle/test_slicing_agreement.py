"""The tuple partition looks at groups of a bucket only; here all tuples of Adult are judged against all buckets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.core.arrays import IntArray
from shoal.core.progress import Silent
from shoal.datasets.uci import adult
from shoal.engines.local import LocalEngine
from shoal.methods.slicing.beliefs import Beliefs
from shoal.methods.slicing.buckets import EIGHTHS, Items
from shoal.plan.problem import Problem
from shoal.plan.slices import Pieces, SlicedPlan
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

JOINED = [["age", "workclass", "occupation"], ["education", "marital-status"], ["race", "sex", "occupation"]]
SEVEN = ("age", "workclass", "education", "marital-status", "race", "sex", "occupation")


def planned(folder: Path, model: dict[str, Any], method: dict[str, Any]) -> tuple[Problem, SlicedPlan]:
    roles = {name: {"role": "sensitive" if name == "occupation" else "quasi"} for name in SEVEN}
    document = {"attributes": roles, "privacy": [model], "method": {"slicing": method}, "max_withheld": 0.05}
    policy = Policy.load(document)
    source = open_source(adult(folder, columns=SEVEN), policy.source)
    counted = LocalEngine().count(source, (SEVEN[-1], *SEVEN[:-1]), Silent())
    problem = encode(counted, policy).problem
    plan = policy.method.plan(problem, np.random.default_rng(2), Silent())
    assert isinstance(plan, SlicedPlan)
    return problem, plan


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ({"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2}),
        ({"entropy-l-diversity": {"l": 6}}, {"columns": 3, "alpha": 2}),
        ({"simple-l-diversity": {"l": 3}}, {"columns": 3, "alpha": 2, "grouping": "random", "bucket_size": 500}),
        ({"distinct-l-diversity": {"l": 2}}, {"parts": JOINED, "overlapping": True}),
    ],
    ids=["simple", "entropy", "random", "joined"],
)
def test_every_tuple_holds_against_all_buckets(
    shared_data: Path, model: dict[str, Any], method: dict[str, Any]
) -> None:
    problem, plan = planned(shared_data, model, method)
    beliefs = Beliefs(problem, plan.parts, plan.pieces, plan.n_buckets)
    assert plan.n_buckets > 10
    assert not beliefs.failing().any()


def test_after_strict_cuts_each_tuple_matches_its_own_bucket_only(shared_data: Path) -> None:
    _, plan = planned(shared_data, {"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2})
    pieces = plan.pieces
    buckets = [{*zip(part.values[pieces.cell].tolist(), pieces.bucket.tolist(), strict=True)} for part in plan.parts]
    tuples = {*zip(*(part.values[pieces.cell].tolist() for part in plan.parts), pieces.bucket.tolist(), strict=True)}
    for *values, own in sorted(tuples)[::97]:
        found = [
            {bucket for value, bucket in part if value == mine} for part, mine in zip(buckets, values, strict=True)
        ]
        assert set.intersection(*found) == {own}


def test_no_bucket_could_have_been_cut_once_more(shared_data: Path) -> None:
    """The cuts that the planner refused break the requirement for some tuple, all judged anew, or link the parts."""
    problem, plan = planned(shared_data, {"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2})
    pieces = plan.pieces
    order = np.argsort(pieces.bucket, kind="stable")
    edges = np.searchsorted(pieces.bucket[order], np.arange(plan.n_buckets + 1))
    keys = plan.parts[-1].values
    tried = 0
    for bucket in range(0, plan.n_buckets, 20):
        cells = pieces.cell[order[edges[bucket] : edges[bucket + 1]]]
        items = Items.of_one_bucket(problem, cells, keys, plan.parts[0].quasi)
        wide = np.flatnonzero(np.ptp(items.codes, axis=1))
        for eighths, attribute in itertools.product(EIGHTHS, wide):
            tried += 1
            left = items.cells[items.codes[attribute] <= find_cut(items.codes[attribute], items.records, eighths)]
            right = np.setdiff1d(items.cells, left)
            linked = any(sum(len({*part.values[side]}) > 1 for part in plan.parts) == 1 for side in (left, right))
            assert linked or _broken(problem, plan, pieces, bucket, left)
    assert tried > 20


def find_cut(codes: IntArray, records: IntArray, eighths: int) -> int:
    """Return the code that leaves most nearly so many eighths of the records at it or below, but not all of them."""
    below = np.cumsum(np.bincount(codes, records))
    candidates = [code for code in np.unique(codes)[::-1] if below[code] < below[-1]]
    return min(candidates, key=lambda code: abs(8 * below[code] - eighths * below[-1]))


def _broken(problem: Problem, plan: SlicedPlan, pieces: Pieces, bucket: int, left: IntArray) -> bool:
    moved = pieces.bucket.copy()
    moved[(pieces.bucket == bucket) & np.isin(pieces.cell, left)] = plan.n_buckets
    again = Beliefs(problem, plan.parts, Pieces(pieces.cell, moved, pieces.records), plan.n_buckets + 1)
    return bool(again.failing().any())

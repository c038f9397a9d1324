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
from shoal.methods.slicing.buckets import Items, propose_cuts
from shoal.plan.problem import Problem
from shoal.plan.slices import Pieces, SlicedPlan
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

SEVEN = ("age", "workclass", "education", "marital-status", "race", "sex", "occupation")


def planned(folder: Path, model: dict[str, Any], method: dict[str, Any]) -> tuple[Problem, SlicedPlan]:
    roles = {name: {"role": "sensitive" if name == "occupation" else "quasi"} for name in SEVEN}
    policy = Policy.load({"attributes": roles, "privacy": [model], "method": {"slicing": method}})
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
        ({"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2, "cuts": "relaxed"}),
        ({"t-closeness": {"t": 0.25}}, {"columns": 2, "alpha": 2, "column_frequency": 20, "cut_by": "all"}),
    ],
    ids=["simple", "entropy", "relaxed", "generalized"],
)
def test_every_tuple_holds_against_all_buckets(
    shared_data: Path, model: dict[str, Any], method: dict[str, Any]
) -> None:
    problem, plan = planned(shared_data, model, method)
    beliefs = Beliefs(problem, plan.parts, plan.pieces, plan.n_buckets)
    assert plan.n_buckets > 60
    assert not beliefs.failing().any()


def test_after_strict_cuts_each_tuple_matches_its_own_bucket_only(shared_data: Path) -> None:
    problem, plan = planned(shared_data, {"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2})
    pieces = plan.pieces
    beliefs = Beliefs(problem, plan.parts, pieces, plan.n_buckets)
    for bucket in range(0, plan.n_buckets, 31):
        some = np.arange(plan.n_buckets) == bucket
        own = np.unique(beliefs._tuple_of[pieces.bucket == bucket])
        assert beliefs.touching(some).tolist() == own.tolist()


def test_no_bucket_could_have_been_cut_once_more(shared_data: Path) -> None:
    """The cuts that the planner refused break the requirement for some tuple, all judged anew, or link the parts."""
    problem, plan = planned(shared_data, {"simple-l-diversity": {"l": 3}}, {"columns": 2, "alpha": 2})
    pieces = plan.pieces
    order = np.argsort(pieces.bucket, kind="stable")
    edges = np.searchsorted(pieces.bucket[order], np.arange(plan.n_buckets + 1))
    keys = plan.parts[-1].values
    spans = Items.of_one_bucket(problem, pieces.cell, keys, plan.parts[0].quasi).spans
    tried = 0
    for bucket in range(0, plan.n_buckets, 20):
        cells = pieces.cell[order[edges[bucket] : edges[bucket + 1]]]
        items = Items.of_one_bucket(problem, cells, keys, plan.parts[0].quasi)
        for attempt in itertools.count():
            attribute, cut, *_ = propose_cuts(items, np.array([attempt]), spans, True)
            if attribute[0] < 0:
                break
            tried += 1
            left = items.cells[items.codes[attribute[0]] <= cut[0]]
            right = np.setdiff1d(items.cells, left)
            linked = any(sum(len({*part.values[side]}) > 1 for part in plan.parts) == 1 for side in (left, right))
            assert linked or _broken(problem, plan, pieces, bucket, left)
    assert tried > 20


def _broken(problem: Problem, plan: SlicedPlan, pieces: Pieces, bucket: int, left: IntArray) -> bool:
    moved = pieces.bucket.copy()
    moved[(pieces.bucket == bucket) & np.isin(pieces.cell, left)] = plan.n_buckets
    again = Beliefs(problem, plan.parts, Pieces(pieces.cell, moved, pieces.records), plan.n_buckets + 1)
    return bool(again.failing().any())

"""What the full-domain search says of its best node is what the measures of utility say of the finished plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.methods.incognito import Incognito
from shoal.methods.incognito.measures import MEASURES
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source
from shoal.utility.base import Measure
from shoal.utility.base import measure as measure_plan
from shoal.utility.information import AttributeLoss, NormalizedCertaintyPenalty, Um

WEIGHTS = {"age": 3.0, "sex": 0.5, "job": 2.0}


def people(n: int, seed: int) -> pa.Table:
    """Ages with outliers, some values missing."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(40, 16, n), 0, 99).astype(int).tolist()
    return pa.table(
        {
            "age": [None if rng.random() < 0.05 else value for value in age],
            "sex": rng.choice(["f", "m"], n),
            "job": [None if rng.random() < 0.05 else str(rng.choice(list("abcde"))) for _ in range(n)],
            "illness": rng.choice(["angina", "flu", "gout"], n, p=[0.5, 0.3, 0.2]),
        }
    )


def problem_of(table: pa.Table, weights: dict[str, float], withheld: float) -> Problem:
    taxonomies: dict[str, dict[str, Any]] = {
        "age": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}},
        "sex": {"flat": {}},
        "job": {"tree": {"any": {"low": ["a", "b"], "high": {"h1": ["c"], "h2": ["d", "e"]}}}},
    }
    attributes: dict[str, Any] = {
        name: {"role": "quasi", "taxonomy": taxonomy, "weight": weights.get(name, 1.0)}
        for name, taxonomy in taxonomies.items()
    }
    attributes["illness"] = {"role": "sensitive"}
    privacy = [{"k-anonymity": {"k": 3}}, {"distinct-l-diversity": {"l": 2}}]
    policy = Policy.load({"attributes": attributes, "privacy": privacy, "max_withheld": withheld})
    names = (*policy.names("sensitive"), *policy.names("quasi"))
    return encode(LocalEngine().count(open_source(table), names, Silent()), policy).problem


def alone(measure: Measure, problem: Problem, plan: Plan, j: int) -> float:
    """A measure of one quasi attribute by itself."""
    part = replace(
        problem,
        quasi=(problem.quasi[j],),
        sensitive=(),
        cells=Cells((problem.cells.codes[j],), problem.cells.counts),
    )
    return measure.of(part, replace(plan, lo=plan.lo[:, [j]], hi=plan.hi[:, [j]]))


def weighted_um(problem: Problem, plan: Plan) -> float:
    weights = [attribute.weight for attribute in problem.quasi]
    kept = 1 - plan.n_withheld / problem.cells.n_records
    found = sum(weight * alone(Um(), problem, plan, j) for j, weight in enumerate(weights))
    return (found + kept * len(problem.sensitive)) / (sum(weights) + len(problem.sensitive))


def weighted_ncp(problem: Problem, plan: Plan) -> float:
    weights = [attribute.weight for attribute in problem.quasi]
    found = [alone(NormalizedCertaintyPenalty(), problem, plan, j) for j in range(len(weights))]
    return float(np.average(found, weights=weights))


def weighted_loss(problem: Problem, plan: Plan) -> float:
    weights = [attribute.weight for attribute in problem.quasi]
    lost = AttributeLoss().detail(problem, plan)
    factors = [(1 + lost[a.name]) ** (a.weight / sum(weights)) for a in problem.quasi]
    return math.prod(factors) - 1


WEIGHTED: dict[str, Callable[[Problem, Plan], float]] = {"um": weighted_um, "ncp": weighted_ncp, "loss": weighted_loss}


@pytest.mark.parametrize("withheld", [0, 0.03, 0.2])
@pytest.mark.parametrize("weights", [{}, WEIGHTS], ids=["even", "weighted"])
@pytest.mark.parametrize("measure", sorted(MEASURES))
def test_the_optimum_is_what_utility_measures(measure: str, weights: dict[str, float], withheld: float) -> None:
    n_withheld = 0
    for seed in (1, 2, 3):
        problem = problem_of(people(150, seed), weights, withheld)
        plan = Incognito(measure=measure).plan(problem, np.random.default_rng(1), Silent())
        expected = measure_plan(problem, plan)[measure]
        if weights and measure in WEIGHTED:
            assert plan.search["optimum"] != pytest.approx(expected, rel=1e-6)
            expected = WEIGHTED[measure](problem, plan)
        assert plan.search["optimum"] == pytest.approx(expected, rel=1e-12)
        n_withheld += plan.n_withheld
    assert (n_withheld > 0) == (withheld > 0)

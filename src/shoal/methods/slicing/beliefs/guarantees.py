"""What a sliced plan promises: every model of the policy with what all tuples really reach."""

from __future__ import annotations

import numpy as np

from shoal.core import kernels
from shoal.methods.slicing.beliefs.judging import Beliefs
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.policy import Policy
from shoal.release.guarantees import Guarantee


def sliced_guarantees(problem: Problem, plan: SlicedPlan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides."""
    pieces = plan.pieces(problem.cells.counts)
    beliefs = Beliefs(problem, plan.parts, pieces, plan.n_buckets)
    reached: dict[int, float] = {}
    for place, requirement in enumerate(problem.requirements):
        worst = float(smallest_crowd(problem, plan)) if requirement.values is None else beliefs.worst(place)
        weaker = min if requirement.model.achieved_is == "at least" else max
        reached[requirement.number] = weaker(reached.get(requirement.number, worst), worst)
    return tuple(Guarantee(model, reached[i]) for i, model in enumerate(policy.privacy))


def smallest_crowd(problem: Problem, plan: SlicedPlan) -> int:
    """Return the fewest records that share a bucket, or quasi values within one part: column frequency."""
    pieces = plan.pieces(problem.cells.counts)
    smallest = int(plan.sizes.min())
    for part in plan.parts:
        totals = kernels.summed(part.values[pieces.cell].astype(np.int32), pieces.records, part.n_values)
        smallest = min(smallest, int(totals[totals > 0].min()))
    return smallest

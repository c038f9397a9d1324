"""What a plan promises: every model of the policy with what the classes really reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.core import kernels
from shoal.methods.slicing.beliefs import Beliefs
from shoal.models.base import PrivacyModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One model and the strongest main parameter that all classes meet."""

    model: PrivacyModel
    achieved: float
    counts: str | None = None  # the policy's key of the people that it is about; None: records

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        counts = {} if self.counts is None else {"counts": self.counts}
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved, **counts}


def achieved(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides.

    Where people are counted, a model has a guarantee for each way to count them.
    """
    reached: dict[tuple[int, str | None], float] = {}
    for requirement, classes, whole in judge_plan(problem, plan):
        worst = requirement.model.worst(classes, whole)
        best = min if requirement.model.achieved_is == "at least" else max
        place = requirement.number, requirement.counts
        reached[place] = best(reached.get(place, worst), worst)
    return tuple(Guarantee(policy.privacy[i], worst, counts) for (i, counts), worst in reached.items())


def sliced_guarantees(problem: Problem, plan: SlicedPlan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides."""
    pieces = plan.pieces(problem.cells.counts)
    beliefs = Beliefs(problem, plan.parts, pieces, plan.n_buckets)
    reached: dict[int, float] = {}
    for place, requirement in enumerate(problem.requirements):
        worst = float(_smallest_crowd(problem, plan)) if requirement.values is None else beliefs.worst(place)
        weaker = min if requirement.model.achieved_is == "at least" else max
        reached[requirement.number] = weaker(reached.get(requirement.number, worst), worst)
    return tuple(Guarantee(model, reached[i]) for i, model in enumerate(policy.privacy))


def _smallest_crowd(problem: Problem, plan: SlicedPlan) -> int:
    """Return the fewest records that share a bucket, or quasi values within one part: column frequency."""
    pieces = plan.pieces(problem.cells.counts)
    smallest = int(plan.sizes.min())
    for part in plan.parts:
        totals = kernels.sum_groups(part.values[pieces.cell].astype(np.int32), pieces.records, part.n_values)
        smallest = min(smallest, int(totals[totals > 0].min()))
    return smallest

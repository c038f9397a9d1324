"""What a plan promises: every model of the policy with what the classes really reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.models.base import PrivacyModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
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


def measure_guarantees(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
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

"""What a plan promises: every model of the policy with what the classes really reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.judging import judged
from shoal.models.base import PrivacyModel
from shoal.plan import Plan
from shoal.policy import Policy
from shoal.problem import Problem


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One model and the strongest main parameter that all classes meet."""

    model: PrivacyModel
    achieved: float

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        parameters = self.model.model_dump(mode="json", exclude_none=True)
        return {"model": self.model.name, "parameters": parameters, "achieved": self.achieved}


def achieved(problem: Problem, plan: Plan, policy: Policy) -> tuple[Guarantee, ...]:
    """Return what the plan reaches for each model of the policy; whether that is enough, the verifier decides."""
    reached: dict[int, float] = {}
    for requirement, classes, whole in judged(problem, plan):
        worst = requirement.model.worst(classes, whole)
        best = min if requirement.model.achieved_is == "at least" else max
        reached[requirement.number] = best(reached.get(requirement.number, worst), worst)
    return tuple(Guarantee(model, reached[i]) for i, model in enumerate(policy.privacy))

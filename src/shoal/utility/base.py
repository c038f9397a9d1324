"""What a measure of utility is: one number for what a plan leaves of the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.registry import discover


class Measure(ABC):
    """A number that tells how much of the original table a release keeps or loses."""

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    better: ClassVar[Literal["higher", "lower"]]

    @abstractmethod
    def of(self, problem: Problem, plan: Plan) -> float:
        """Measure one plan; withheld records count as lost."""


def measured(problem: Problem, plan: Plan) -> dict[str, float]:
    """Return every measure of a plan by its name."""
    return {name: kind().of(problem, plan) for name, kind in discover("shoal.utility", Measure).items()}

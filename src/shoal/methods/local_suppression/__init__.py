"""Local suppression: recoding by hand, then as few suppressed values as possible, as in statistical offices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.core.errors import PolicyError, did_you_mean
from shoal.core.progress import Progress
from shoal.methods.base import Method
from shoal.models.base import ValueModel
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem

Level = Annotated[int, Field(ge=0, strict=True)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LocalSuppression(Method):
    """Every value is published at the level chosen for its attribute, or suppressed as ``*`` if a class requires it.

    Hundepool et al., "Statistical Disclosure Control" (2012), sections 3.4.2 and 3.4.3. All records of a class
    suppress the same attributes, so equal labels form the classes. Models of sensitive values are refused, because
    suppression must depend on quasi values only.
    """

    name: ClassVar[str] = "local-suppression"
    title: ClassVar[str] = "generalizes every attribute to a chosen level, then suppresses single values"
    counts_people = True
    by_hand = True

    levels: dict[str, Level] = Field(
        default={},
        description="the level of the taxonomy at which each attribute is published; 0, the default, keeps the "
        "original values",
    )
    importance: tuple[str, ...] | dict[str, Weight] | None = Field(
        default=None,
        description="which attributes to preserve: a list, the most important first, or the cost of a suppressed "
        "value of each, by default 1; if omitted, the weights of the attributes",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models of values and smallest shares of a population; unknown names and levels are errors."""
        self._find_levels(problem)
        self._weigh(problem)
        if names := [one.model.name for one in problem.requirements if isinstance(one.model, ValueModel)]:
            return (
                f"it serves models of class sizes, and {names[0]} constrains sensitive values: suppressing a frequent "
                "combination would disclose that its people share a value; use mondrian or sweep"
            )
        if any(not requirement.model.merge_monotone for requirement in problem.requirements):
            return "its labels overlap, so a share of the population has no lower bound; use mondrian, or a min of 0"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        from shoal.methods.local_suppression.planning import Planner

        with progress.step("suppressing", unit="patterns") as step:
            return Planner(problem, self._find_levels(problem), self._weigh(problem), step).plan()

    def _find_levels(self, problem: Problem) -> list[int]:
        _check_names("levels", self.levels, problem)
        for attribute in problem.quasi:
            height, level = attribute.taxonomy.height, self.levels.get(attribute.name, 0)
            if level > height:
                raise PolicyError(
                    f"method {self.name}: levels: the taxonomy of {attribute.name!r} has the levels 0 to {height}, "
                    f"not {level}"
                )
        return [self.levels.get(attribute.name, 0) for attribute in problem.quasi]

    def _weigh(self, problem: Problem) -> FloatArray:
        """Return (n_quasi,) the cost of a suppressed value of each attribute."""
        names = [attribute.name for attribute in problem.quasi]
        if self.importance is None:
            return np.array([attribute.weight for attribute in problem.quasi])
        _check_names("importance", self.importance, problem)
        if isinstance(self.importance, dict):
            return np.array([self.importance.get(name, 1.0) for name in names])
        if len(set(self.importance)) < len(self.importance):
            raise PolicyError(f"method {self.name}: importance names an attribute twice")
        places = {name: place for place, name in enumerate(reversed(self.importance), start=2)}
        return np.array([float(places.get(name, 1)) for name in names])


def _check_names(parameter: str, given: Iterable[str], problem: Problem) -> None:
    names = [attribute.name for attribute in problem.quasi]
    for name in given:
        if name not in names:
            raise PolicyError(
                f"method {LocalSuppression.name}: {parameter}: {name!r} is not a quasi attribute of the policy"
                f"{did_you_mean(name, names)}"
            )

"""What a measure of utility is: one number for what a plan leaves of the table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np

from shoal.plan import Plan
from shoal.problem import Problem
from shoal.registry import discover

Utility = dict[str, float | dict[str, float]]


class Measure(ABC):
    """A number that tells how much of the original table a release keeps or loses.

    The class variables say what the contract tests hold a measure to. ``within`` bounds its values; the bound on the
    better side is what an unchanged table has, unless that is out of reach for tables with equal records.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    better: ClassVar[Literal["higher", "lower"]]
    cost: ClassVar[Literal["cheap", "expensive"]] = "cheap"  # expensive ones are taken only when asked for
    within: ClassVar[tuple[float, float]] = (0.0, 1.0)
    grows_with: ClassVar[int] = 0  # n times as many equal records make it n to this power times as large
    monotone: ClassVar[bool] = True  # coarser classes of the same records are never better
    counts_withheld: ClassVar[bool] = True  # withholding more records is never better
    figure_titles: ClassVar[Mapping[str, str]] = {}  # further figures, each by its full name

    def applies(self, problem: Problem) -> bool:  # noqa: ARG002
        """Whether the measure has a meaning for this table and policy."""
        return True

    @abstractmethod
    def of(self, problem: Problem, plan: Plan) -> float:
        """Measure one plan."""

    def figures(self, problem: Problem, plan: Plan, rng: np.random.Generator) -> dict[str, float]:  # noqa: ARG002
        """Return the measure and its further figures, each by its full name; *rng* is for measures that draw."""
        return {self.name: self.of(problem, plan)}

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:  # noqa: ARG002
        """Return the measure attribute by attribute, where it can be told so."""
        return {}


def measured(
    problem: Problem,
    plan: Plan,
    *,
    expensive: bool = False,
    detail: bool = False,
    rng: np.random.Generator | None = None,
) -> Utility:
    """Return every measure that applies to a plan by its name; all numbers are finite.

    With *detail*, a measure that can be told by attributes is a mapping from these. Without *rng*, measures that draw
    questions draw the same ones for every plan.
    """
    chance = np.random.default_rng(0) if rng is None else rng
    found: Utility = {}
    for name, kind in discover("shoal.utility", Measure).items():
        measure = kind()
        if (kind.cost == "expensive" and not expensive) or not measure.applies(problem):
            continue
        by_attribute = measure.detail(problem, plan) if detail else {}
        found |= {name: by_attribute} if by_attribute else measure.figures(problem, plan, chance)
    return found


def told(utility: Mapping[str, float | Mapping[str, float]]) -> Iterator[tuple[str, str, float]]:
    """Yield (name, title, value) of all that ``measured`` found, for people to read."""
    titles: dict[str, str] = {}
    for name, kind in discover("shoal.utility", Measure).items():
        titles |= {name: kind.title, **kind.figure_titles}
    for name, value in utility.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {part}", titles[name], number) for part, number in value.items())
        else:
            yield name, titles[name], value


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and 1 where there was nothing to lose.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, 1.0)
    """
    return part / whole if whole > 0 and math.isfinite(part) else 1.0

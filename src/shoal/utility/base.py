"""The interface of utility measures: each gives one number for the information that a plan keeps or loses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from shoal.core.arrays import FloatArray
from shoal.core.registry import discover
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem

Utility = dict[str, float | dict[str, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """The facts about a whole table that measures need besides the sums over its classes."""

    quasi: tuple[Attribute, ...]
    sensitive: tuple[Attribute, ...]
    n_records: int
    n_withheld: int

    @classmethod
    def of(cls, problem: Problem, n_withheld: int) -> Total:
        return cls(problem.quasi, problem.sensitive, problem.cells.n_records, n_withheld)


class Measure(ABC):
    """A number for the share of the original table that a release keeps or loses.

    The contract tests check the class variables. ``within`` bounds the values; an unchanged table has the bound on the
    better side, unless a table with equal records cannot reach it.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    better: ClassVar[Literal["higher", "lower"]]
    cost: ClassVar[Literal["cheap", "expensive"]] = "cheap"  # expensive ones are computed on request only
    within: ClassVar[tuple[float, float]] = (0.0, 1.0)
    grows_with: ClassVar[int] = 0  # with n times as many equal records, it is n to this power times as large
    monotone: ClassVar[bool] = True  # coarser classes of the same records are never better
    counts_withheld: ClassVar[bool] = True  # withholding more records is never better
    figure_titles: ClassVar[Mapping[str, str]] = {}  # further figures, each by its full name

    def applies(self, problem: Problem) -> bool:  # noqa: ARG002
        """Whether the measure has a meaning for this table and policy."""
        return True

    @abstractmethod
    def of(self, problem: Problem, plan: Plan) -> float:
        """Measure one plan."""

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the measure and its further figures, each by its full name."""
        return {self.name: self.of(problem, plan)}

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:  # noqa: ARG002
        """Return the measure of each attribute; an empty dictionary if it has no such values."""
        return {}


class ExpensiveMeasure(Measure):
    """A measure of the errors of an analysis of the release; by chance, coarser tables may do better."""

    cost = "expensive"
    within = (0.0, math.inf)
    monotone = False
    counts_withheld = False

    def of(self, problem: Problem, plan: Plan) -> float:
        return self.figures(problem, plan)[self.name]

    @abstractmethod
    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]: ...


class PooledMeasure(Measure):
    """A measure that follows from sums over classes, so the regions of a table can be measured one after another."""

    def of(self, problem: Problem, plan: Plan) -> float:
        return self.of_sums(Total.of(problem, plan.n_withheld), self.sums(problem, plan))

    @abstractmethod
    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Return numbers of a region; their sums over all regions give the measure."""

    @abstractmethod
    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Measure a table by these sums over its regions."""

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:
        return self.detail_of_sums(Total.of(problem, plan.n_withheld), self.sums(problem, plan))

    def detail_of_sums(self, total: Total, sums: FloatArray) -> dict[str, float]:  # noqa: ARG002
        return {}


class Pool:
    """The sums that measures need, added up over regions; up to rounding they equal the whole table's sums."""

    def __init__(self) -> None:
        kinds = discover("shoal.utility", Measure)
        self._measures = {name: kind() for name, kind in kinds.items() if issubclass(kind, PooledMeasure)}
        self._sums: dict[str, FloatArray] = {}

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Pool:
        pool = cls()
        pool._sums = {name: measure.sums(problem, plan) for name, measure in pool._measures.items()}
        return pool

    def __add__(self, other: Pool) -> Pool:
        both = Pool()
        both._sums = {name: self._sums.get(name, 0) + sums for name, sums in other._sums.items()}
        return both

    def measure(self, total: Total) -> Utility:
        """Return every measure that follows from the sums, by attributes if it has such values."""
        return {
            name: measure.detail_of_sums(total, self._sums[name]) or measure.of_sums(total, self._sums[name])
            for name, measure in self._measures.items()
        }


def measure(problem: Problem, plan: Plan, *, expensive: bool = False, detail: bool = False) -> Utility:
    """Return every measure that applies to a plan by its name; all numbers are finite.

    With *detail*, a measure that has values by attribute is a mapping from attributes to values.
    """
    found: Utility = {}
    for name, kind in discover("shoal.utility", Measure).items():
        measure = kind()
        if (kind.cost == "expensive" and not expensive) or not measure.applies(problem):
            continue
        by_attribute = measure.detail(problem, plan) if detail else {}
        found |= {name: by_attribute} if by_attribute else measure.figures(problem, plan)
    return found


def list_figures(utility: Mapping[str, float | Mapping[str, float]]) -> Iterator[tuple[str, str, float]]:
    """Yield (name, title, value) of every figure that ``measure`` returned, for people to read."""
    titles: dict[str, str] = {}
    for name, kind in discover("shoal.utility", Measure).items():
        titles |= {name: kind.title, **kind.figure_titles}
    for name, value in utility.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {part}", titles[name], number) for part, number in value.items())
        else:
            yield name, titles[name], value

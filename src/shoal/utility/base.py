"""What a measure of utility is: one number for what a plan leaves of the table."""

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
    """What measures need to know of a table besides the sums over its classes."""

    quasi: tuple[Attribute, ...]
    sensitive: tuple[Attribute, ...]
    n_records: int
    n_withheld: int

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Total:
        """Take it from a problem and its plan."""
        return cls(problem.quasi, problem.sensitive, problem.cells.n_records, plan.n_withheld)


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

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the measure and its further figures, each by its full name."""
        return {self.name: self.of(problem, plan)}

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:  # noqa: ARG002
        """Return the measure attribute by attribute, where it can be given so."""
        return {}


class ExpensiveMeasure(Measure):
    """A measure of what an analysis of the release finds: by chance, coarser tables may do better."""

    cost = "expensive"
    within = (0.0, math.inf)
    monotone = False
    counts_withheld = False


class PooledMeasure(Measure):
    """A measure that follows from sums over classes, so that regions of a table can be measured one after another."""

    def of(self, problem: Problem, plan: Plan) -> float:
        """Measure one plan by its sums."""
        return self.of_sums(Total.of(problem, plan), self.sums(problem, plan))

    @abstractmethod
    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Return numbers that for all regions are the sums of those of each."""

    @abstractmethod
    def of_sums(self, total: Total, sums: FloatArray) -> float:
        """Measure the table whose regions have these sums."""

    def detail(self, problem: Problem, plan: Plan) -> dict[str, float]:
        """Return the measure of one plan attribute by attribute, by its sums."""
        return self.detail_of_sums(Total.of(problem, plan), self.sums(problem, plan))

    def detail_of_sums(self, total: Total, sums: FloatArray) -> dict[str, float]:  # noqa: ARG002
        """Return the measure attribute by attribute, where it can be given so."""
        return {}


class Pool:
    """Adds up what measures need of regions; all together give what the table in one would, but for rounding."""

    def __init__(self) -> None:
        kinds = discover("shoal.utility", Measure)
        self._measures = {name: kind() for name, kind in kinds.items() if issubclass(kind, PooledMeasure)}
        self._sums: dict[str, FloatArray] = {}

    def add(self, problem: Problem, plan: Plan) -> None:
        """Take one region."""
        for name, measure in self._measures.items():
            sums = measure.sums(problem, plan)
            self._sums[name] = self._sums[name] + sums if name in self._sums else sums

    def __add__(self, other: Pool) -> Pool:
        """Take the regions of both."""
        both = Pool()
        both._sums = {name: self._sums.get(name, 0) + sums for name, sums in other._sums.items()}
        return both

    def measure(self, total: Total) -> Utility:
        """Return every measure that follows from the sums, in detail where it can be given so."""
        return {
            name: measure.detail_of_sums(total, self._sums[name]) or measure.of_sums(total, self._sums[name])
            for name, measure in self._measures.items()
        }


def measure(problem: Problem, plan: Plan, *, expensive: bool = False, detail: bool = False) -> Utility:
    """Return every measure that applies to a plan by its name; all numbers are finite.

    With *detail*, a measure that can be given by attributes is a mapping from these.
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
    """Yield (name, title, value) of all that ``measure`` found, for people to read."""
    titles: dict[str, str] = {}
    for name, kind in discover("shoal.utility", Measure).items():
        titles |= {name: kind.title, **kind.figure_titles}
    for name, value in utility.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {part}", titles[name], number) for part, number in value.items())
        else:
            yield name, titles[name], value

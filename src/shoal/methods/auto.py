"""The choice of a method by measurement: all methods that satisfy the policy plan a sample, and marginals decide."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba.core.event import TimingListener, install_listener
from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.core.errors import ShoalError, UnreachableError
from shoal.core.progress import Progress, Silent, Step
from shoal.core.registry import discover
from shoal.core.wording import join_words
from shoal.methods.base import AnyPlan, Method, failing_as_one_class, make_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.marginals import score_marginals
from shoal.utility.rows import view_plan

MOST_SETS = 200  # of three attributes, to compare plans


class Auto(Method):
    """Replaced by the method whose plan of the table, or of a sample, best preserves the table's marginals.

    The score is the one for sets of three attributes (:mod:`shoal.utility.marginals`). Only methods that guarantee the
    policy's models take part.
    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "tries the methods that can satisfy the policy, and uses the one with the best marginals"
    averages = True  # some methods need numbers
    takes_regions = "nodes"
    counts_people = True

    sample: int = Field(default=20_000, ge=1, description="maximum number of records in the trial")
    time_budget: float = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="seconds after which the trial of a method ends"
    )

    def refuses(self, problem: Problem) -> str | None:  # noqa: ARG002
        """Refuse no problem, because the trials show which methods do."""
        return None

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
        return make_plan(self.choose(problem, rng).method, problem, rng, progress)

    def choose(
        self, problem: Problem, rng: np.random.Generator, *, by_regions: bool = False, weights: FloatArray | None = None
    ) -> Choice:
        """Try every method, or the methods that can plan a table by regions, and return the best with all trials.

        Survey *weights*, if there are any, weight the records of cells.
        """
        of_people = any(requirement.people is not None for requirement in problem.requirements)
        able = [
            method
            for method in list_methods()
            if (method.counts_people or not of_people) and (method.takes_regions is not None or not by_regions)
        ]
        trials = tuple(_try_method(method, problem, rng.spawn(1)[0], self.time_budget, weights) for method in able)
        scored = [trial for trial in trials if trial.score is not None]
        if not scored:
            raise UnreachableError(f"no method can satisfy the policy on this table. {_say_why(problem, trials)}")
        best = max(scored, key=lambda trial: trial.score or 0.0)  # the first of equal ones
        return Choice(best.method, trials, problem.cells.n_records)


@dataclass(frozen=True, slots=True)
class Trial:
    """A method with its score, or the reason for having no score."""

    method: Method
    score: float | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        chosen = self.method.model_dump(mode="json", exclude_defaults=True)
        entry: dict[str, object] = {"method": self.method.name, "parameters": chosen}
        return entry | ({"reason": self.reason} if self.score is None else {"score": round(self.score, 1)})


@dataclass(frozen=True, slots=True)
class Choice:
    """The method that replaces ``auto``, and all trials with their number of records."""

    method: Method
    trials: tuple[Trial, ...]
    n_records: int

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON; scores compare with the source and stay internal."""
        return {"method": self.method.name, "records": self.n_records, "tried": [one.as_dict() for one in self.trials]}


def list_methods() -> Sequence[Method]:
    """Return the methods to try, by name: all that guarantee models of the policy, with their usual parameters."""
    from shoal.methods.mondrian import Mondrian  # discovery imports it anyway

    kinds = [
        kind for kind in discover("shoal.methods", Method).values() if kind.models == "required" and not kind.by_hand
    ]
    usual: list[Method] = [kind(**kind.usual) for kind in kinds if kind is not Auto]
    return sorted([*usual, Mondrian(measure="non-uniform-entropy")], key=lambda method: method.name)


def _try_method(
    method: Method, problem: Problem, rng: np.random.Generator, seconds: float, weights: FloatArray | None
) -> Trial:
    """Plan and score; a method that refuses or exceeds the time has no score."""
    try:
        refusal = method.refuses(problem)
        if refusal is not None:
            return Trial(method, reason=refusal)
        has_own = "time_budget" in type(method).model_fields  # it then returns the best plan so far
        tried = method.model_copy(update={"time_budget": seconds / 2}) if has_own else method
        deadline = _Deadline(seconds)
        with install_listener("numba:compile", deadline.compiling):
            plan = _read(method, problem, make_plan(tried, problem, rng, deadline))
        *_, largest = score_marginals(problem, view_plan(problem, plan, weights), weights, most_sets=MOST_SETS)
        return Trial(method, largest.release)
    except ShoalError as error:
        return Trial(method, reason=str(error))


def _say_why(problem: Problem, trials: Sequence[Trial]) -> str:
    if blocking := dict.fromkeys(reason for *_, reason in failing_as_one_class(problem)):
        return "\n".join(["Change in privacy:", *blocking])
    methods: dict[str, dict[str, None]] = {}
    for trial in trials:
        methods.setdefault(trial.reason, {})[trial.method.name] = None
    return "\n".join(["The methods refuse:", *(f"{join_words([*names])}: {why}" for why, names in methods.items())])


def _read(method: Method, problem: Problem, plan: AnyPlan) -> AnyPlan:
    """Return the plan with each class at its averages, if the method publishes averages."""
    from shoal.methods.microaggregation import Microaggregation, place_centres

    if isinstance(method, Microaggregation) and isinstance(plan, Plan):
        return place_centres(problem, plan, method)
    return plan


class _Deadline(Silent):
    """Ends a step that exceeds the time; the one-time compilation of kernels does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self.compiling = TimingListener()

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        del title, total, unit
        yield self

    def advance(self, amount: int) -> None:
        del amount
        compiled = self.compiling.duration if self.compiling.done else 0.0
        if time.monotonic() > self._end + compiled:
            raise UnreachableError(f"it takes longer than {self._seconds:g} seconds")

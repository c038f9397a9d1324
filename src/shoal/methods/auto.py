"""The choice of a method by measurement: each that can keep the promises plans a sample, and the marginals decide."""

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

MOST_SETS = 200  # of three attributes, by which plans are compared


class Auto(Method):
    """The method whose plan of the table, or of a sample, is nearest to the table's marginals takes this one's place.

    The score is that of three attributes (:mod:`shoal.utility.marginals`). Tried are methods that promise the models of
    the policy; none that promises something else or nothing.
    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "tries the methods that can keep the promises, and takes the best by the marginals"
    averages = True  # some that are tried need numbers
    takes_regions = "nodes"
    counts_people = True

    sample: int = Field(default=20_000, ge=1, description="the most records that are planned to choose a method")
    time_budget: float = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="seconds after which a method that is tried is given up"
    )

    def refuses(self, problem: Problem) -> str | None:  # noqa: ARG002
        """What the methods refuse shows when they are tried."""
        return None

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
        return make_plan(self.choose(problem, rng).method, problem, rng, progress)

    def choose(
        self, problem: Problem, rng: np.random.Generator, *, by_regions: bool = False, weights: FloatArray | None = None
    ) -> Choice:
        """Try every method, or those that can plan a table region by region, and return the best and what was tried.

        The records of cells count by their survey *weights*, if there are any.
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
    """A method, and its score or why it has none."""

    method: Method
    score: float | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON."""
        chosen = self.method.model_dump(mode="json", exclude_defaults=True)
        entry: dict[str, object] = {"method": self.method.name, "parameters": chosen}
        return entry | ({"reason": self.reason} if self.score is None else {"score": round(self.score, 1)})


@dataclass(frozen=True, slots=True)
class Choice:
    """The method that takes the place of ``auto``, and all that were tried on so many records."""

    method: Method
    trials: tuple[Trial, ...]
    n_records: int

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON: scores compare with the source, so that they stay internal."""
        return {"method": self.method.name, "records": self.n_records, "tried": [one.as_dict() for one in self.trials]}


def list_methods() -> Sequence[Method]:
    """Return the methods to try, by name: all that promise models of the policy, with their usual parameters."""
    from shoal.methods.mondrian import Mondrian  # which would be imported to know of any method

    kinds = [
        kind for kind in discover("shoal.methods", Method).values() if kind.models == "required" and not kind.by_hand
    ]
    usual: list[Method] = [kind(**kind.usual) for kind in kinds if kind is not Auto]
    return sorted([*usual, Mondrian(measure="non-uniform-entropy")], key=lambda method: method.name)


def _try_method(
    method: Method, problem: Problem, rng: np.random.Generator, seconds: float, weights: FloatArray | None
) -> Trial:
    """Plan and score; what refuses or takes too long has no score."""
    try:
        refusal = method.refuses(problem)
        if refusal is not None:
            return Trial(method, reason=refusal)
        has_own = "time_budget" in type(method).model_fields  # it then takes the best that it has found
        tried = method.model_copy(update={"time_budget": seconds / 2}) if has_own else method
        deadline = _Deadline(seconds)
        with install_listener("numba:compile", deadline.compiling):
            plan = _read(method, problem, make_plan(tried, problem, rng, deadline))
        *_, largest = score_marginals(problem, view_plan(problem, plan, weights), weights, most_sets=MOST_SETS)
        return Trial(method, largest.release)
    except ShoalError as error:
        return Trial(method, reason=str(error))


def _say_why(problem: Problem, trials: Sequence[Trial]) -> str:
    """Say what to change: each model that the whole table as one class fails, or else each reason of the methods."""
    if blocking := dict.fromkeys(reason for *_, reason in failing_as_one_class(problem)):
        return "\n".join(["Change in privacy:", *blocking])
    methods: dict[str, dict[str, None]] = {}
    for trial in trials:
        methods.setdefault(trial.reason, {})[trial.method.name] = None
    return "\n".join(["The methods refuse:", *(f"{join_words([*names])}: {why}" for why, names in methods.items())])


def _read(method: Method, problem: Problem, plan: AnyPlan) -> AnyPlan:
    """Return the plan with classes where their averages are, if the method publishes these."""
    from shoal.methods.microaggregation import Microaggregation, place_centres

    if isinstance(method, Microaggregation) and isinstance(plan, Plan):
        return place_centres(problem, plan, method)
    return plan


class _Deadline(Silent):
    """Gives a step up that goes on for too long. To compile kernels, once on a machine, does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self.compiling = TimingListener()

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Open a step that nobody sees."""
        del title, total, unit
        yield self

    def advance(self, amount: int) -> None:
        """Raise if time is up."""
        del amount
        compiled = self.compiling.duration if self.compiling.done else 0.0
        if time.monotonic() > self._end + compiled:
            raise UnreachableError(f"it takes longer than {self._seconds:g} seconds")

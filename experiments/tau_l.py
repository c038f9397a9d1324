"""Figures 5 to 8 of Tian and Zhang: Sequential Sweep beside its rivals over a grid of (tau,l) requirements.

CLD is Incognito with recursive (c,l)-diversity, its best node by um; 1DLD is the Hilbert curve method. Neither takes
(tau,l), so both are run with all their parameters, and of the tables that meet a requirement the one with the least
excessive protection is reported, as in the paper.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from experiments.id3 import CrossValidation, Generalizing
from experiments.problems import (
    ADULT,
    NURSERY,
    QUICK_ADULT,
    QUICK_NURSERY,
    Grid,
    Table,
    adult_table,
    meets,
    nursery_table,
)
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress, Silent, Step
from shoal.methods.hilbert import Hilbert
from shoal.methods.incognito import Incognito
from shoal.methods.sweep import SequentialSweep
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.information import ExcessiveProtection, Um

SWEEP = "SWEEP"
IMPROVED = "SWEEP improved"
CLD = "CLD"
ONE_D = "1DLD"
ALGORITHMS = (SWEEP, IMPROVED, CLD, ONE_D)
_FOLDS = 3
REPETITIONS = 3
_CHEAP = 1.0  # seconds; once runs have taken that long, there is no further one
_QUICK_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one algorithm gives for one requirement; without a table that meets it, the figures are None."""

    algorithm: str
    tau: float
    l: int
    excessive_protection: float | None = None
    um: float | None = None
    accuracy_ratio: float | None = None
    seconds: float | None = None  # of processor time, of the whole search
    seconds_of_table: float | None = None  # of the run that made the reported table
    parameters: dict[str, float] | None = None  # of that run
    highest_um: float | None = None  # among all tables of the search that meet the requirement
    classes: int | None = None

    @property
    def reached(self) -> bool:
        """Whether there is a table that meets the requirement."""
        return self.um is not None


@dataclass(frozen=True, slots=True)
class TableResult:
    """All outcomes on one table."""

    name: str
    title: str
    choices: str
    records: int
    quasi: list[str]
    sensitive: str
    requirements: list[tuple[float, int]]
    baseline_accuracy: float  # of trees that learned from the original records
    guess_accuracy: float  # of always naming the commonest value
    outcomes: list[Outcome]

    def of(self, algorithm: str) -> list[Outcome]:
        """Return one algorithm's outcomes in the order of the requirements."""
        return [outcome for outcome in self.outcomes if outcome.algorithm == algorithm]


@dataclass(frozen=True, slots=True)
class Result:
    """The whole experiment."""

    tables: list[TableResult]
    quick: bool
    seed: int


class _Output:
    """A table that an algorithm made, and what is measured of it, once."""

    def __init__(self, method: Generalizing, problem: Problem, plan: Plan, seconds: float, **parameters: float) -> None:
        self.plan, self.seconds, self.parameters = plan, seconds, parameters
        self._method, self._problem = method, problem
        self._ratio: tuple[float | None] | None = None

    @cached_property
    def um(self) -> float:
        return Um().of(self._problem, self.plan)

    def ratio(self, folds: CrossValidation, rng: np.random.Generator) -> float | None:
        if self._ratio is None:
            self._ratio = (folds.ratio(self._method, self._problem, rng),)
        return self._ratio[0]


class _Experiment:
    """One table under all algorithms."""

    def __init__(self, table: Table, asked: Grid, repetitions: int, seed: int, progress: Progress) -> None:
        self._table, self._grid, self._repetitions = table, asked, repetitions
        self._seed, self._progress = seed, progress
        first = asked.requirements[0]
        self._folds = CrossValidation.of(self._tau_l(first), _FOLDS, np.random.default_rng(seed))

    def run(self) -> TableResult:
        outcomes = [
            *self._sweep(SWEEP, improve=False),
            *self._sweep(IMPROVED, improve=True),
            *self._cld(),
            *self._one_d(),
        ]
        return TableResult(
            name=self._table.name,
            title=self._table.title,
            choices=self._table.choices,
            records=self._table.n_records,
            quasi=self._table.names("quasi"),
            sensitive=self._table.names("sensitive")[0],
            requirements=[(asked.tau, asked.l) for asked in self._grid.requirements],
            baseline_accuracy=statistics.fmean(self._folds.baseline),
            guess_accuracy=self._folds.commonest,
            outcomes=outcomes,
        )

    def _sweep(self, algorithm: str, improve: bool) -> list[Outcome]:
        method = SequentialSweep(improve=improve, defend=False)
        outcomes = []
        with self._step(algorithm, len(self._grid.requirements)) as step:
            for asked in self._grid.requirements:
                output, seconds = self._run_method(method, self._tau_l(asked))
                outcomes.append(self._outcome(algorithm, asked, [] if output is None else [output], seconds))
                step.advance(1)
        return outcomes

    def _cld(self) -> list[Outcome]:
        """Search all (c,l): they have no order by which the search could stop early."""
        method = Incognito(measure="um")
        found: list[_Output] = []
        pairs = [(c, l) for l in self._grid.cld_l for c in self._grid.cld_c]
        seconds = 0.0
        with self._step(CLD, len(pairs)) as step:
            for c, l in pairs:
                problem = self._table.problem("recursive-cl-diversity", c=c, l=l)
                output, taken = self._run_method(method, problem, c=c, l=l)
                seconds += taken
                found += [] if output is None else [output]
                step.advance(1)
        return [self._outcome(CLD, asked, found, seconds) for asked in self._grid.requirements]

    def _one_d(self) -> list[Outcome]:
        """Search l from 2 upward; the search ends where a table meets the requirement, and that is its time."""
        found: list[_Output] = []
        with self._step(ONE_D, len(self._grid.one_d_l)) as step:
            for l in self._grid.one_d_l:
                problem = self._table.problem("simple-l-diversity", l=l)
                output, _ = self._run_method(Hilbert(l=l), problem, l=l)
                found += [] if output is None else [output]
                step.advance(1)
        outcomes = []
        for asked in self._grid.requirements:
            problem = self._tau_l(asked)
            first = next((i for i, output in enumerate(found) if meets(problem, output.plan)), len(found) - 1)
            outcomes.append(self._outcome(ONE_D, asked, found, sum(o.seconds for o in found[: first + 1])))
        return outcomes

    def _outcome(self, algorithm: str, asked: TauLDiversity, found: Sequence[_Output], seconds: float) -> Outcome:
        problem = self._tau_l(asked)
        good = [output for output in found if meets(problem, output.plan)]
        if not good:
            return Outcome(algorithm, asked.tau, asked.l)
        excess = [ExcessiveProtection().of(problem, output.plan) for output in good]
        # Of tables with equal excessive protection the one with the higher um, in the rivals' favour.
        best = min(range(len(good)), key=lambda i: (round(excess[i], 9), -good[i].um))
        table = good[best]
        return Outcome(
            algorithm,
            asked.tau,
            asked.l,
            excessive_protection=excess[best],
            um=table.um,
            accuracy_ratio=table.ratio(self._folds, np.random.default_rng(self._seed)),
            seconds=seconds,
            seconds_of_table=table.seconds,
            parameters=table.parameters,
            highest_um=max(output.um for output in good),
            classes=table.plan.n_classes,
        )

    def _run_method(self, method: Generalizing, problem: Problem, **parameters: float) -> tuple[_Output | None, float]:
        """Run a method and take its processor time, the median of some cheap runs; None if it cannot serve.

        Other work on the machine hardly changes that time, so algorithms that run minutes apart can be compared.
        """
        taken: list[float] = []
        plan = None
        while len(taken) < self._repetitions and sum(taken) < _CHEAP:
            began = time.process_time()
            try:
                plan = method.plan(problem, np.random.default_rng(self._seed), Silent())
            except UnreachableError:
                return None, time.process_time() - began
            taken.append(time.process_time() - began)
        seconds = statistics.median(taken)
        return None if plan is None else _Output(method, problem, plan, seconds, **parameters), seconds

    def _tau_l(self, asked: TauLDiversity) -> Problem:
        return self._table.problem("tau-l-diversity", tau=asked.tau, l=asked.l)

    def _step(self, algorithm: str, total: int) -> AbstractContextManager[Step]:
        return self._progress.step(f"{self._table.title}: {algorithm}", total, "runs")


def run_tau_l(data: Path | None, *, quick: bool, seed: int, progress: Progress) -> Result:
    """Run all algorithms on Adult and Nursery; *quick* takes few requirements and a sample of the records."""
    rows = _QUICK_ROWS if quick else None
    tables = (
        (adult_table, QUICK_ADULT if quick else ADULT),
        (nursery_table, QUICK_NURSERY if quick else NURSERY),
    )
    results = []
    for open_table, asked in tables:
        table = open_table(data, rows, np.random.default_rng(seed))
        _warm_up(table, asked)
        results.append(_Experiment(table, asked, 1 if quick else REPETITIONS, seed, progress).run())
    return Result(results, quick, seed)


def _warm_up(table: Table, asked: Grid) -> None:
    """Run every method once, so that no compilation is timed."""
    weakest = asked.requirements[0]
    rng = np.random.default_rng(0)
    for improve in (False, True):
        problem = table.problem("tau-l-diversity", tau=weakest.tau, l=weakest.l)
        SequentialSweep(improve=improve, defend=False).plan(problem, rng, Silent())
    Incognito(measure="um").plan(table.problem("recursive-cl-diversity", c=10.0, l=2), rng, Silent())
    Hilbert(l=2).plan(table.problem("simple-l-diversity", l=2), rng, Silent())

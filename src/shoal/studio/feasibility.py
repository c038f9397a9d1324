"""The studio's engine for questions about a policy, and its hints: whether the table as one class rules a promise out.

A thread answers the newest question of each kind about a project; older questions are abandoned.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from shoal.core.errors import InputError, ShoalError, UnreachableError
from shoal.core.progress import Silent
from shoal.core.registry import discover
from shoal.engines.local import LocalEngine
from shoal.methods.base import Method, failing_as_one_class, refuse_unreachable
from shoal.models.base import TableModel
from shoal.plan.counted import CountedCells
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem, Requirement
from shoal.policy.encoding import Tree, check_columns, encode_cells, make_trees, open_populations
from shoal.policy.policy import AttributePolicy, Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.forms.base import find_form
from shoal.release.sliced.table import number_rows
from shoal.sources.opening import open_source
from shoal.studio.project import Project

MOST_ROWS = 2_000_000  # of a table that is counted for a hint
PATIENCE = 0.12  # seconds that a request waits for the answer
_UNKNOWN = "no estimate is possible; start a run to find out"

Verdict = Literal["possible", "open", "costly", "impossible"]
Answer = TypeVar("Answer")
_COUNTING = threading.Lock()  # one table is counted at a time


@dataclass(frozen=True, slots=True, eq=False)
class CountedTable:
    """The counts of one pass over the table, which serve every policy with the same attributes."""

    counted: CountedCells
    people: Mapping[str, CountedCells]
    trees: tuple[Tree, ...]
    attributes: Mapping[str, AttributePolicy]  # with baskets unfolded
    changed: bool  # whether a run samples the table or changes it by techniques first

    @classmethod
    def read(cls, source: Path, policy: Policy) -> CountedTable:
        """Read the table as the command does."""
        opened = open_source(source, policy.source)
        check_columns(policy, opened)
        if opened.n_rows is not None and opened.n_rows > MOST_ROWS:
            raise InputError(f"tables of more than {MOST_ROWS:,} records have no estimates; start a run")
        plain, table = unfold_baskets(policy, opened)
        quasi, sensitive = plain.names("quasi"), plain.names("sensitive")
        engine, silent = LocalEngine(), Silent()
        persons = tuple(dict.fromkeys(plain.counted_units.values()))
        counted = engine.count(table, (*persons, *sensitive, *quasi), silent)
        people = {path: engine.count(other, quasi, silent) for path, other in open_populations(plain).items()}
        changed = bool(policy.techniques) or policy.sample is not None
        return cls(counted, people, make_trees(counted, plain, people), plain.attributes, changed)

    @classmethod
    def of(cls, project: Project, document: Mapping[str, Any], policy: Policy) -> CountedTable:
        """Return the counts for a policy, or those for an earlier one if the same pass serves both."""
        key = f"{pass_key(document)} {_list_versions(project)}"
        with _COUNTING:
            held: tuple[str, CountedTable] | None = project.memory.get("counted")
            if held is None or held[0] != key:
                held = project.memory["counted"] = None  # free the memory first
                held = project.memory["counted"] = key, cls.read(project.source, policy)
            return held[1]

    def problem(self, policy: Policy) -> Problem:
        """Bind the promises of a policy to the counts."""
        unfolded = replace(policy, attributes=self.attributes)
        return encode_cells(self.counted, unfolded, self.trees, self.people).problem


def pass_key(document: Mapping[str, Any]) -> str:
    """Return a text that is equal for policies served by the same pass over the table."""
    populations = {
        str(parameters["population"])
        for entry in document.get("privacy") or ()
        if isinstance(entry, Mapping)
        for parameters in entry.values()
        if isinstance(parameters, Mapping) and parameters.get("population") is not None
    }
    method = document.get("method", "mondrian")
    parts = {key: document.get(key) for key in ("attributes", "source", "missing", "sample", "unit", "household")}
    name = method if isinstance(method, str) else next(iter(method), "") if isinstance(method, Mapping) else ""
    kind = discover("shoal.methods", Method).get(name)
    return json.dumps([parts, sorted(populations), kind and kind.draws_rows], sort_keys=True, default=str)


def _list_versions(project: Project) -> tuple[tuple[str, int], ...]:
    """Return the attached files with the times of their last change."""
    return tuple((name, (project.files / name).stat().st_mtime_ns) for name in project.list_attached())


class Newest(Generic[Answer]):
    """The answer to the newest question of one kind about a project."""

    def __init__(self) -> None:
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._question: object = None
        self._answer: Future[Answer] = Future()

    @classmethod
    def of(cls, project: Project, kind: str) -> Newest[Answer]:
        found: Newest[Answer] = project.memory.setdefault(kind, cls())
        return found

    def ask(
        self,
        project: Project,
        document: dict[str, Any],
        key: object,
        make: Callable[[CountedTable, Policy], Answer],
        follow: Callable[[Answer, Callable[[], bool]], None] | None = None,
    ) -> Future[Answer]:
        """Return the future result of *make* for a policy document; questions with the same key share it.

        *follow* goes on with the result as long as its second argument returns that the question is the newest.
        """
        question = key, _list_versions(project)

        def is_newest() -> bool:
            return question == self._question

        def work(answer: Future[Answer]) -> None:
            with self._working:
                if not is_newest():
                    return
                try:
                    policy = Policy.load(document, project.files)
                    made = make(CountedTable.of(project, document, policy), policy)
                except ShoalError as error:
                    answer.set_exception(error)
                except Exception:  # noqa: BLE001 - the message may quote a record
                    answer.set_exception(InputError(_UNKNOWN))
                else:
                    answer.set_result(made)
                    if follow is not None:
                        follow(made, is_newest)

        with self._lock:
            if not is_newest():
                self._question, self._answer = question, Future()
                threading.Thread(target=work, args=(self._answer,), name="studio-answer", daemon=True).start()
            return self._answer


@dataclass(frozen=True, slots=True)
class Hint:
    """An estimate for one promise; "possible" means only that the table as one class satisfies it."""

    subject: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The hints so far; *pending* while the table is being counted."""

    hints: tuple[Hint, ...] = ()
    problem: str = ""
    pending: bool = False


def foresee(project: Project, patience: float = PATIENCE) -> Forecast:
    """Return the hints for the newest policy, if they come within *patience* seconds."""
    newest: Newest[tuple[Hint, ...]] = Newest.of(project, "forecast")
    answer = newest.ask(project, project.document, project.revision, make_hints)
    try:
        return Forecast(answer.result(timeout=patience))
    except TimeoutError:
        return Forecast(pending=True)
    except ShoalError as error:
        return Forecast(problem=str(error))


def make_hints(table: CountedTable, policy: Policy) -> tuple[Hint, ...]:
    """Return for each promise of the policy whether the table as a whole rules it out."""
    problem, method = table.problem(policy), policy.method
    refusal = method.refuses(problem)
    if refusal is not None:
        return (Hint(f"method {method.name}", "impossible", refusal),)
    fails = {id(requirement): reason for requirement, _, reason in failing_as_one_class(problem)}
    found: dict[int, Hint] = {}
    rank: tuple[Verdict, ...] = ("possible", "open", "costly", "impossible")
    for requirement in problem.requirements:
        verdict, reason = _judge(problem, method, requirement, fails.get(id(requirement)))
        if table.changed:
            verdict, reason = "open", f"by the table as given: {reason}"
        before = found.get(requirement.number)
        if before is None or rank.index(verdict) > rank.index(before.verdict):
            found[requirement.number] = Hint(policy.privacy[requirement.number].subject, verdict, reason)
    return tuple(found[number] for number in sorted(found))


def _judge(problem: Problem, method: Method, requirement: Requirement, failure: str | None) -> tuple[Verdict, str]:
    """Return an estimate for a requirement; *failure* is the reason why the table as one class does not satisfy it."""
    if requirement.people is not None and (failure is not None or find_form(method.form).as_they_are):
        return "open", _UNKNOWN
    if failure is None:
        if find_form(method.form).as_they_are:
            return _judge_equal(problem, requirement)
        if method.makes_parts:
            return "open", f"the table as a whole satisfies it; a run shows whether {method.name} can"
        if requirement.model.relative_to_whole:
            return "possible", "the table as one class always satisfies it; strict parameters leave little detail"
        return "possible", "the table as one class satisfies it"
    why = failure.partition(": ")[2] or failure  # the hint has its subject
    if method.generalizes_values and requirement.place is not None and problem.may_generalize(requirement.place):
        return "costly", f"{why}; only generalizing sensitive values with {method.name} might help"
    try:
        refuse_unreachable(replace(problem, requirements=(requirement,)), problem.max_withheld)
    except UnreachableError as error:
        return "impossible", str(error).partition(": ")[2] or str(error)
    return "costly", f"{why}; only withholding records might help, and not every method can do that"


def _judge_equal(problem: Problem, requirement: Requirement) -> tuple[Verdict, str]:
    """Judge the classes of equal records, for a method that changes no record."""
    counts = problem.cells.counts
    present = np.flatnonzero(counts)
    columns = [codes[present] for codes in problem.value_codes[: len(problem.quasi)]]
    group, _ = number_rows(columns, len(present))
    order = np.argsort(group, kind="stable")
    cells, first = present[order], np.searchsorted(group[order], np.arange(int(group.max()) + 2))
    sizes = np.add.reduceat(counts[cells], first[:-1])
    if isinstance(requirement.model, TableModel):
        if requirement.model.holds_together(sizes):
            return "possible", "the unchanged records satisfy it"
        return "impossible", "the unchanged records do not satisfy it, and the method changes none"
    values = None if requirement.values is None else requirement.values[cells]
    holds = Judge.of(requirement, counts).holds(first, values, counts[cells])
    if below := int(sizes[~holds].sum()):
        return "impossible", f"it fails for {below:,} of {counts.sum():,} records, and the method changes none"
    return "possible", "the unchanged records satisfy it"

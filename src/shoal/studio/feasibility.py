"""What can be said of a policy's guarantees before a run: whether the table as one class rules them out.

It is worked out beside the requests while a policy is edited, for the newest policy only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
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
_UNKNOWN = "nothing can be said beforehand; the run will tell"

Verdict = Literal["possible", "open", "costly", "impossible"]
Answer = TypeVar("Answer")


class Newest(Generic[Answer]):
    """The answer to a project's newest question, worked out beside the requests; an older one is given up."""

    def __init__(self) -> None:
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._question: object = None
        self._answer: Future[Answer] = Future()

    def ask(self, question: object, work: Callable[[Future[Answer], Callable[[], bool]], None]) -> Future[Answer]:
        """Return the answer to come; *work* sets it, and asks its second argument whether anybody still waits."""

        def is_current() -> bool:
            return question == self._question

        def run(answer: Future[Answer]) -> None:
            with self._working:
                if is_current():
                    work(answer, is_current)

        with self._lock:
            if not is_current():
                self._question, self._answer = question, Future()
                threading.Thread(target=run, args=(self._answer,), name="studio-answer", daemon=True).start()
            return self._answer


@dataclass(frozen=True, slots=True)
class Hint:
    """What is known of one promise; "possible" says no more than that the table as one class keeps it."""

    subject: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """One pass over the table, which serves every list of promises as long as attributes stay as they are."""

    counted: CountedCells
    people: Mapping[str, CountedCells]
    trees: tuple[Tree, ...]
    attributes: Mapping[str, AttributePolicy]  # with those that take the place of baskets
    changed: bool  # whether a sample or techniques will change the table before it is judged

    @classmethod
    def at(cls, source: Path, policy: Policy) -> Looked:
        """Read the table as the command would."""
        opened = open_source(source, policy.source)
        check_columns(policy, opened)
        if opened.n_rows is not None and opened.n_rows > MOST_ROWS:
            raise InputError(f"the table has more than {MOST_ROWS:,} records; the run itself will tell")
        plain, table = unfold_baskets(policy, opened)
        quasi, sensitive = plain.names("quasi"), plain.names("sensitive")
        engine, silent = LocalEngine(), Silent()
        persons = tuple(dict.fromkeys(plain.counted_units.values()))
        counted = engine.count(table, (*persons, *sensitive, *quasi), silent)
        people = {path: engine.count(other, quasi, silent) for path, other in open_populations(plain).items()}
        changed = bool(policy.techniques) or policy.sample is not None
        return cls(counted, people, make_trees(counted, plain, people), plain.attributes, changed)

    def problem(self, policy: Policy) -> Problem:
        """Bind the promises of a policy to what was counted."""
        unfolded = replace(policy, attributes=self.attributes)
        return encode_cells(self.counted, unfolded, self.trees, self.people).problem


def pass_key(document: Mapping[str, Any]) -> str:
    """Return a text that is equal for policies which one pass over the table serves."""
    populations = [
        parameters.get("population")
        for entry in document.get("privacy") or ()
        if isinstance(entry, Mapping)
        for parameters in entry.values()
        if isinstance(parameters, Mapping)
    ]
    method = document.get("method", "mondrian")
    parts = {key: document.get(key) for key in ("attributes", "source", "missing", "sample", "unit", "household")}
    named = sorted({str(path) for path in populations if path is not None})
    name = method if isinstance(method, str) else next(iter(method), "") if isinstance(method, Mapping) else ""
    kind = discover("shoal.methods", Method).get(name)
    return json.dumps([parts, named, kind is not None and kind.draws_rows], sort_keys=True, default=str)


def hints(looked: Looked, policy: Policy) -> tuple[Hint, ...]:
    """Say of each promise of the policy whether the table as a whole rules it out."""
    problem = looked.problem(policy)
    method = policy.method
    refusal = method.refuses(problem)
    if refusal is not None:
        return (Hint(f"method {method.name}", "impossible", refusal),)
    fails = {id(requirement): reason for requirement, _, reason in failing_as_one_class(problem)}
    found: dict[int, Hint] = {}
    rank: tuple[Verdict, ...] = ("possible", "open", "costly", "impossible")
    for requirement in problem.requirements:
        verdict, reason = _judge(problem, method, requirement, fails.get(id(requirement)))
        if looked.changed:
            verdict, reason = "open", f"by the table as it is given: {reason}"
        before = found.get(requirement.number)
        if before is None or rank.index(verdict) > rank.index(before.verdict):
            found[requirement.number] = Hint(policy.privacy[requirement.number].subject, verdict, reason)
    return tuple(found[number] for number in sorted(found))


def _judge(problem: Problem, method: Method, requirement: Requirement, failure: str | None) -> tuple[Verdict, str]:
    """Return what is known of a requirement and why; *failure* says why the table as one class does not meet it."""
    if requirement.people is not None and (failure is not None or find_form(method.form).as_they_are):
        return "open", _UNKNOWN
    if failure is None:
        if find_form(method.form).as_they_are:
            return _judge_equal(problem, requirement)
        if method.makes_parts:
            return "open", f"the table as a whole keeps it; whether {method.name} can, the run will tell"
        if requirement.model.relative_to_whole:
            return "possible", "the table as one class keeps it always; a strict one leaves little else"
        return "possible", "the table as one class keeps it"
    why = failure.partition(": ")[2] or failure  # without its subject, which the hint has already
    if method.generalizes_values and requirement.place is not None and problem.may_generalize(requirement.place):
        return "costly", f"{why}; {method.name} could only generalize sensitive values, if that helps"
    try:
        refuse_unreachable(replace(problem, requirements=(requirement,)), problem.max_withheld)
    except UnreachableError as error:
        return "impossible", str(error).partition(": ")[2] or str(error)
    return "costly", f"{why}; only withholding records could help, and not every method does that"


def _judge_equal(problem: Problem, requirement: Requirement) -> tuple[Verdict, str]:
    """Judge the classes of equal records, for a method that changes none."""
    counts = problem.cells.counts
    present = np.flatnonzero(counts)
    columns = [codes[present] for codes in problem.value_codes[: len(problem.quasi)]]
    group, _ = number_rows(columns, len(present))
    order = np.argsort(group, kind="stable")
    cells, first = present[order], np.searchsorted(group[order], np.arange(int(group.max()) + 2))
    sizes = np.add.reduceat(counts[cells], first[:-1])
    if isinstance(requirement.model, TableModel):
        if requirement.model.holds_together(sizes):
            return "possible", "the records as they are meet it"
        return "impossible", "the records as they are do not meet it, and the method changes none"
    values = None if requirement.values is None else requirement.values[cells]
    holds = Judge.of(requirement, counts).holds(first, values, counts[cells])
    if below := int(sizes[~holds].sum()):
        return "impossible", f"it fails for {below:,} of {counts.sum():,} records, and the method changes none"
    return "possible", "the records as they are meet it"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known so far; *pending* while the table is still being counted."""

    hints: tuple[Hint, ...] = ()
    problem: str = ""
    pending: bool = False


def foresee(project: Project, patience: float = PATIENCE) -> Known:
    """Return what is known of the newest policy within *patience* seconds."""
    forecast: Newest[Known] = project.memory.setdefault("forecast", Newest())
    question = project.revision, list_versions(project)
    try:
        return forecast.ask(question, partial(_work, project, project.document)).result(timeout=patience)
    except TimeoutError:
        return Known(pending=True)


def _work(project: Project, document: dict[str, Any], answer: Future[Known], _: Callable[[], bool]) -> None:
    try:
        policy = Policy.load(document, project.files)
        answer.set_result(Known(hints(look(project, document, policy), policy)))
    except ShoalError as error:
        answer.set_result(Known(problem=str(error)))
    except Exception:  # noqa: BLE001 - a hint is a courtesy, and its failure may quote a record
        answer.set_result(Known(problem=_UNKNOWN))


_COUNTING = threading.Lock()  # one table is counted at a time, whoever asks


def look(project: Project, document: Mapping[str, Any], policy: Policy) -> Looked:
    """Return the table as it was counted for a policy, or for an earlier one that the same pass serves."""
    key = f"{pass_key(document)} {list_versions(project)}"
    with _COUNTING:
        held: tuple[str, Looked] | None = project.memory.get("looked")
        if held is None or held[0] != key:
            held = project.memory["looked"] = None  # before the next one takes its memory
            held = project.memory["looked"] = key, Looked.at(project.source, policy)
        return held[1]


def list_versions(project: Project) -> tuple[tuple[str, int], ...]:
    """Return the attached files with the times of their last change."""
    return tuple((name, (project.files / name).stat().st_mtime_ns) for name in project.list_attached())

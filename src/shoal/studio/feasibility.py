"""What can be said of a policy's promises before a run: what the table as one class rules out, and what is dear.

It is worked out beside the requests while a policy is edited, for the newest policy only.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError, ShoalError, UnreachableError
from shoal.core.kernels import pack
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
from shoal.sources.opening import open_source
from shoal.studio.project import Project

MOST_ROWS = 2_000_000  # of a table that is counted for a hint

Verdict = Literal["possible", "open", "costly", "impossible"]
MOST_LOOKED = 2  # projects whose tables are held as they were counted
PATIENCE = 0.12  # seconds that a request waits for the answer
_UNKNOWN = "nothing can be said beforehand; the run will tell"


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The cells that records have, those which agree in some columns beside each other."""

    cells: CodeArray  # (n_present,) group by group
    first: CodeArray  # (n_groups + 1,) where each group begins among them
    sizes: IntArray  # (n_groups,) records

    @classmethod
    def of(cls, columns: Sequence[AnyIntArray], counts: IntArray) -> Grouping:
        """Group the cells by their codes in all *columns*; without a column all of them are one group."""
        present = np.flatnonzero(counts).astype(np.int32)
        codes = [column[present] for column in columns] or [np.zeros(len(present), dtype=np.int64)]
        key = pack(codes, [int(column.max()) + 1 for column in codes])
        order = np.argsort(key)
        key = key[order]
        starts = np.append(0, np.flatnonzero(key[1:] != key[:-1]) + 1)
        cells = present[order]
        sizes = np.add.reduceat(counts[cells], starts)
        return cls(cells, np.append(starts, len(cells)).astype(np.int32), sizes)


@dataclass(frozen=True, slots=True)
class Hint:
    """What is known of one promise; "possible" says no more than that the table as one class keeps it."""

    subject: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """How many records have a value of one attribute that is too rare, and how many are too rare without it.

    By a promise that merging classes cannot break, whoever is too rare by this attribute *alone* cannot be published
    with its value as it is; *without* is what is left too rare if it were not published at all.
    """

    attribute: str
    alone: int
    without: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The records that are below the promises with every value as it is, and what each attribute does to that."""

    records: int
    below: int
    attributes: tuple[Cost, ...]

    @property
    def dear(self) -> bool:
        """Whether at least half of the values of an average attribute cannot stay as they are."""
        alone = sum(cost.alone for cost in self.attributes)
        return 2 * alone >= self.records * len(self.attributes)


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
            columns, counts = problem.value_codes[: len(problem.quasi)], problem.cells.counts
            grouping = Grouping.of(columns, counts)
            if isinstance(requirement.model, TableModel):
                if requirement.model.holds_together(grouping.sizes):
                    return "possible", "the records as they are meet it"
                return "impossible", "the records as they are do not meet it, and the method changes none"
            below = _below(problem, [requirement], grouping)
            if below:
                return "impossible", f"it fails for {below:,} of {counts.sum():,} records, and the method changes none"
            return "possible", "the records as they are meet it"
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


def costs(looked: Looked, policy: Policy, wanted: Callable[[], bool] = lambda: True) -> Costs | None:
    """Count the records that are below the promises at the finest level, by each attribute and without it.

    Models on a population, on people, and on all classes together are left out: they show only in the run. None if
    nothing else is promised, or once it is not *wanted* any more.
    """
    problem = looked.problem(policy)
    asked = [
        requirement
        for requirement in problem.requirements
        if requirement.population is None
        and requirement.people is None
        and not isinstance(requirement.model, TableModel)
    ]
    if not asked:
        return None
    every = range(len(problem.quasi))

    def below(places: Sequence[int]) -> int:
        columns = [problem.quasi_codes[place] for place in places]
        return _below(problem, asked, Grouping.of(columns, problem.cells.counts))

    found = []
    for place, attribute in enumerate(problem.quasi):
        if not wanted():
            return None
        others = [other for other in every if other != place]
        found.append(Cost(attribute.name, below([place]), below(others)))
    return Costs(problem.cells.n_records, below(every), tuple(found))


def _below(problem: Problem, asked: list[Requirement], grouping: Grouping) -> int:
    """Return the records of classes, which are the groups, that some requirement refuses."""
    smallest = max(requirement.model.smallest_class for requirement in asked)
    large = grouping.sizes >= smallest  # others fail without being looked at
    lengths = np.diff(grouping.first)
    first = np.append(0, np.cumsum(lengths[large])).astype(np.int64)
    cells = grouping.cells[np.repeat(large, lengths)]
    records = problem.cells.counts[cells]
    holds = np.ones(len(first) - 1, dtype=np.bool_)
    for requirement in asked if len(holds) else ():
        judge = Judge.of(requirement, problem.cells.counts)
        values = None if requirement.values is None else requirement.values[cells]
        blocks = judge.histograms(first, values, records)
        holds &= np.concatenate([requirement.model.holds(classes, judge.whole) for classes in blocks])
    return int(grouping.sizes[~large].sum()) + int(grouping.sizes[large][~holds].sum())


@dataclass(frozen=True, slots=True)
class Known:
    """What is known so far; *pending* while some of it is still being counted."""

    hints: tuple[Hint, ...] = ()
    costs: Costs | None = None
    problem: str = ""
    pending: bool = False


class Forecast:
    """Answers for one project: the table is read once for as long as its attributes stay as they are."""

    def __init__(self) -> None:
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._question: tuple[Any, ...] = ()
        self._first: Future[Known] = Future()
        self._whole: Future[Known] = Future()
        self._looked: tuple[str, Looked] | None = None

    @classmethod
    def of(cls, project: Project) -> Forecast:
        """Return the project's own."""
        found: Forecast = project.memory.setdefault("forecast", cls())
        return found

    def ask(self, project: Project, patience: float = PATIENCE) -> Known:
        """Return what is known of the newest policy within *patience* seconds."""
        with self._lock:
            question = (project.revision, list_versions(project))
            if question != self._question:
                self._question, self._first, self._whole = question, Future(), Future()
                arguments = (project, question, project.document, self._first, self._whole)
                threading.Thread(target=self._work, args=arguments, name="forecast", daemon=True).start()
            first, whole = self._first, self._whole
        try:
            return whole.result(timeout=patience)
        except TimeoutError:
            return first.result() if first.done() else Known(pending=True)

    def _work(
        self,
        project: Project,
        question: tuple[Any, ...],
        document: dict[str, Any],
        first: Future[Known],
        whole: Future[Known],
    ) -> None:
        with self._working:
            found = Known()
            try:
                if question == self._question:  # else nobody waits for it any more
                    policy = Policy.load(document, project.files)
                    looked = self._look(project, document, policy, question[1])
                    found = Known(hints(looked, policy))
                    first.set_result(Known(found.hints, pending=True))
                    found = Known(found.hints, costs(looked, policy, lambda: question == self._question))
            except ShoalError as error:
                found = Known(problem=str(error))
            except Exception:  # noqa: BLE001 - a hint is a courtesy, and its failure may quote a record
                found = Known(problem=_UNKNOWN)
            whole.set_result(found)

    def look(self, project: Project, document: dict[str, Any], policy: Policy) -> Looked:
        """Return the table as it was counted for a policy, or one that a pass over it serves as well."""
        with self._working:
            return self._look(project, document, policy, list_versions(project))

    def _look(self, project: Project, document: dict[str, Any], policy: Policy, attached: object) -> Looked:
        key = f"{pass_key(document)} {attached}"
        held = self._looked
        if held is not None and held[0] == key:
            return held[1]
        held = self._looked = None  # before the next one takes its memory
        looked = Looked.at(project.source, policy)
        self._looked = key, looked
        keep_newest(_LATEST, self)
        return looked

    def let_go(self) -> None:
        self._looked = None


def list_versions(project: Project) -> tuple[tuple[str, int], ...]:
    """Return the attached files with the times of their last change."""
    return tuple((name, (project.files / name).stat().st_mtime_ns) for name in project.list_attached())


def keep_newest(latest: deque[weakref.ref[Any]], holder: Any) -> None:
    """Add a holder of counts to the *latest* ones, and let the others free theirs."""
    latest.append(weakref.ref(holder))
    while len(latest) > MOST_LOOKED:
        earlier = latest.popleft()()
        if earlier is not None and not any(other() is earlier for other in latest):
            earlier.let_go()


_LATEST: deque[weakref.ref[Forecast]] = deque()  # those that counted a table last

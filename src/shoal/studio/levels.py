"""The lattice of full-domain levels of a policy: what a combination costs and leaves, the optimum, and many others.

Nodes are judged as ``incognito`` does, over the cells that were counted for the project. Search and survey go on beside
the requests, for the newest policy only.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from shoal.audit.units import Appearances, class_risks
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import ShoalError, UsageError
from shoal.core.progress import Silent
from shoal.methods.incognito import Incognito
from shoal.methods.incognito.groups import Grouping, Groupings, Levels
from shoal.methods.incognito.judge import Finding, Judge, Verdict
from shoal.methods.incognito.measures import MEASURES, NcpCost
from shoal.methods.incognito.search import Search
from shoal.plan.problem import Problem
from shoal.policy.policy import Policy
from shoal.studio.feasibility import Newest, list_versions, look, pass_key
from shoal.studio.project import Project

MOST_NODES = 4096  # of a lattice whose nodes are all looked at
MOST_SEEN = 20_000  # nodes that are kept of a larger one
SECONDS = 20.0  # for the search, and again for looking at all other nodes


@dataclass(frozen=True, slots=True)
class Point:
    """A node that was looked at: what it loses, as published if it holds, and among how many its records hide."""

    levels: Levels
    holds: bool | None  # None: it costs more than the best, and nobody asked further
    loss: float  # by the measure; without suppression if it does not hold
    mean_risk: float
    suppressed: int  # records; 0 if it does not hold


@dataclass(frozen=True, slots=True)
class Node:
    """One combination of levels: all of its classes, and those that are left if the failing ones are suppressed."""

    levels: Levels
    holds: bool
    suppressed: int | None  # records that would have to be; None: no suppression helps
    everything: Mapping[str, Any]  # risks and losses with nothing suppressed
    published: Mapping[str, Any] | None
    failing: Mapping[int, int]  # records that fail a model with nothing suppressed, by its number in the policy


@dataclass(frozen=True, slots=True)
class Survey:
    """What was looked at so far; *figures* are those of the search once it has ended."""

    points: Mapping[Levels, Point] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    optimum: Levels | None = None
    ended: bool = False


class _NotWantedError(Exception):
    """Nobody waits for the search any more."""


class _Watching(Judge):
    """A judge that keeps what it has seen, until that is not wanted any more."""

    def __init__(self, explorer: Explorer, wanted: Callable[[], bool]) -> None:
        problem = explorer.problem
        super().__init__(problem, Groupings(problem), explorer.judge.measure, problem.max_withheld)
        self.points: dict[Levels, Point] = {}
        self._explorer, self._wanted = explorer, wanted

    def check(self, levels: Levels, best: float = np.inf, source: Grouping | None = None) -> Verdict:
        if not self._wanted():
            raise _NotWantedError
        grouping = self.groupings.at(levels, source)
        verdict = super().check(levels, best, grouping)
        if len(self.points) < MOST_SEEN or verdict.finding is Finding.HOLDS:
            self.points[levels] = self._explorer.describe(self.groupings, grouping, verdict)
        return verdict


class Explorer:
    """The lattice of one problem; requests ask for nodes while a thread searches."""

    def __init__(self, problem: Problem, measure: str, *, changed: bool = False) -> None:
        """Group the cells; *changed* says that a run will change the table first."""
        self.problem, self.changed = problem, changed
        groupings = Groupings(problem)
        self.ladders = groupings.ladders
        self._people = next((one.people for one in problem.requirements if one.people is not None), None)
        cost = MEASURES[measure](self.ladders, len(problem.sensitive))
        self.judge = Judge(problem, groupings, cost, problem.max_withheld)
        self._free = Judge(problem, groupings, cost, problem.cells.n_records)
        self._ncp = NcpCost(self.ladders, len(problem.sensitive))
        self._lock = threading.Lock()  # groupings are kept for the next node
        ends = (groupings.base, groupings.at(self.ladders.top))
        self.ends = [cost.value(cost.cost(one, one.sizes < 0)) for one in ends]  # lost by the finest node, the coarsest
        self.survey = Survey()
        self.searched = threading.Event()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.problem.quasi)

    @property
    def n_nodes(self) -> int:
        return math.prod(self.ladders.shape)

    @property
    def counts(self) -> str:
        """What classes are made of."""
        return "records" if self._people is None else "people"

    def read_levels(self, given: Iterable[str]) -> Levels:
        """Return the levels that a form has, one for each attribute in order."""
        texts = list(given)
        if len(texts) == len(self.ladders.top) and all(text.isascii() and text.isdigit() for text in texts):
            levels = tuple(map(int, texts))
            if all(level <= most for level, most in zip(levels, self.ladders.top, strict=True)):
                return levels
        raise UsageError("there are no such levels any more; reload this page")

    def examples(self) -> list[list[tuple[str, int]]]:
        """Return for each attribute and level what its most frequent value becomes, and how many values are left."""
        found = []
        for rung in self.ladders.rungs:
            value = int(rung.records.argmax())
            codes = [int(codes[value]) for codes in rung.codes]
            ranges = [(int(lo[code]), int(hi[code])) for lo, hi, code in zip(rung.lo, rung.hi, codes, strict=True)]
            labels = [rung.taxonomy.label(*one, level) for level, one in enumerate(ranges)]
            found.append(list(zip(labels, rung.widths, strict=True)))
        return found

    def look(self, levels: Levels) -> Node:
        with self._lock:
            grouping = self.judge.groupings.at(levels)
            verdict = self.judge.check(levels, source=grouping)
            free = verdict if verdict.suppressed is not None else self._free.check(levels, source=grouping)
            there = grouping.sizes > 0
            failing: dict[int, int] = {}
            for requirement, _, groups in self.judge.find_failing(grouping):
                records = int(grouping.sizes[groups].sum())
                failing[requirement.number] = max(failing.get(requirement.number, 0), records)
            for one in self.problem.requirements:
                if one.model in self.judge.of_all and not one.model.holds_together(grouping.sizes[there]):
                    failing[one.number] = self.problem.cells.n_records
            gone = free.suppressed
            return Node(
                levels,
                verdict.suppressed is not None,
                None if gone is None else int(grouping.sizes[gone].sum()),
                self._measure(grouping, ~there),
                None if gone is None else self._measure(grouping, gone),
                failing,
            )

    def _measure(self, grouping: Grouping, gone: BoolArray) -> dict[str, Any]:
        """Return risks and losses of a node's classes without those that are gone."""
        sizes = self._sizes(self.judge.groupings, grouping)[(grouping.sizes > 0) & ~gone]
        measure = self.judge.measure
        losses = {"loss": measure.value(measure.cost(grouping, gone)), "ncp": self._ncp.cost(grouping, gone)}
        return {**class_risks(sizes), **losses}

    def _sizes(self, groupings: Groupings, grouping: Grouping) -> IntArray:
        """Return (n_groups,) the records of each group, or its people if these are counted."""
        if self._people is None:
            return grouping.sizes
        there, counts = np.flatnonzero(self.problem.cells.counts), self.problem.cells.counts
        class_of, person = groupings.group_of_cells(grouping)[there], self._people.person[there] + 1
        return Appearances(class_of, person, None, counts[there], grouping.n_groups).class_sizes()

    def describe(self, groupings: Groupings, grouping: Grouping, verdict: Verdict) -> Point:
        """Return what is shown of a node among others."""
        holds = None if verdict.finding is Finding.DEARER else verdict.suppressed is not None
        gone = np.zeros(grouping.n_groups, dtype=np.bool_) if verdict.suppressed is None else verdict.suppressed
        sizes = self._sizes(groupings, grouping)[(grouping.sizes > 0) & ~gone]
        cost = verdict.cost if holds else verdict.plain
        mean = len(sizes) / max(int(sizes.sum()), 1)
        return Point(verdict.levels, holds, self.judge.measure.value(cost), mean, int(grouping.sizes[gone].sum()))

    def search(self, wanted: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Find the optimum, then look at all nodes if there are not too many; what is known is in ``survey``."""
        watching = _Watching(self, wanted)
        try:
            with Silent().step("searching") as step:
                found = Search.of(watching, seconds, step)
            best = None if found.best is None else found.best.levels
            few = self.n_nodes <= MOST_NODES
            self.survey = Survey(dict(watching.points), found.as_dict(), best, not few)
            self.searched.set()
            end = time.monotonic() + seconds
            for levels in itertools.product(*map(range, self.ladders.shape)) if few else ():
                known = watching.points.get(levels)
                if known is None or known.holds is None:
                    watching.check(levels)
                if time.monotonic() > end:
                    break
            self.survey = Survey(dict(watching.points), found.as_dict(), best, True)
        except _NotWantedError:
            pass
        finally:
            self.searched.set()


def ask_lattice(project: Project, patience: float) -> Explorer | None:
    """Return the lattice within *patience* seconds, None if the table is still counted; or raise why there is none.

    Of a lattice that is there, the search has ended or goes on.
    """
    document = full_domain(project.document)
    guarantees = {key: document.get(key) for key in ("privacy", "max_withheld", "method")}
    lattices: Newest[Explorer] = project.memory.setdefault("levels", Newest())
    question = (pass_key(document), json.dumps(guarantees, default=str), list_versions(project))
    end = time.monotonic() + patience
    try:
        found = lattices.ask(question, partial(_work, project, document)).result(timeout=patience)
    except TimeoutError:
        return None
    found.searched.wait(max(end - time.monotonic(), 0.0))
    return found


def _work(project: Project, document: dict[str, Any], made: Future[Explorer], wanted: Callable[[], bool]) -> None:
    try:
        policy = Policy.load(document, project.files)
        looked = look(project, document, policy)
        problem = looked.problem(policy)
        refusal = policy.method.refuses(problem)
        if refusal is not None:
            raise UsageError(refusal)
        explorer = Explorer(problem, str(getattr(policy.method, "measure", "loss")), changed=looked.changed)
    except ShoalError as error:
        made.set_exception(error)
    except Exception:  # noqa: BLE001 - its message may quote a record
        made.set_exception(UsageError("the levels of this table could not be counted; the run will tell why"))
    else:
        made.set_result(explorer)
        explorer.search(wanted)


def full_domain(document: Mapping[str, Any], levels: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a policy with incognito as its method, by these levels; its own measure and time budget stay."""
    given = document.get("method")
    own = given.get(Incognito.name) if isinstance(given, Mapping) else None
    kept = {key: own[key] for key in ("measure", "time_budget") if isinstance(own, Mapping) and key in own}
    return {**document, "method": {Incognito.name: {**kept, **({"levels": dict(levels)} if levels else {})}}}

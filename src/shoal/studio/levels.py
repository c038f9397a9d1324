"""The lattice of full-domain levels of a policy: the cost and risk of a combination, the optimum, and many others.

Nodes are judged as ``incognito`` judges them, over the project's counted cells. A search runs in the background for the
newest policy.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.audit.units import Appearances, class_risks
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.methods.incognito import Incognito
from shoal.methods.incognito.groups import Grouping, Groupings, Levels
from shoal.methods.incognito.judge import Finding, Judge, Verdict
from shoal.methods.incognito.measures import MEASURES, NcpCost
from shoal.methods.incognito.search import Search
from shoal.plan.problem import Problem
from shoal.policy.policy import Policy
from shoal.studio.feasibility import CountedTable, Newest, pass_key
from shoal.studio.project import Project

MOST_NODES = 4096  # of a lattice that is examined completely
MOST_SEEN = 20_000  # recorded nodes of a larger lattice
SECONDS = 20.0  # for the search, and again for all other nodes


@dataclass(frozen=True, slots=True)
class Point:
    """An examined node: its loss, as published if it holds, and the mean risk of its records."""

    levels: Levels
    holds: bool | None  # None: not judged, because it costs more than the best
    loss: float  # by the measure; without suppression if it does not hold
    mean_risk: float
    suppressed: int  # records; 0 if it does not hold


@dataclass(frozen=True, slots=True)
class Node:
    """One combination of levels: its classes with and without suppression of the failing ones."""

    levels: Levels
    holds: bool
    suppressed: int | None  # records to suppress; None: no suppression helps
    everything: Mapping[str, Any]  # risks and losses without suppression
    published: Mapping[str, Any] | None
    failing: Mapping[int, int]  # records that fail a model without suppression, by its number in the policy


@dataclass(frozen=True, slots=True)
class Survey:
    """The examined nodes so far; *figures* are the search's once it has ended."""

    points: Mapping[Levels, Point] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    optimum: Levels | None = None
    ended: bool = False


class _AbandonedError(Exception):
    """The question is no longer the newest."""


class _RecordingJudge(Judge):
    """A judge that records each node, and stops if the search is abandoned."""

    def __init__(self, explorer: Explorer, wanted: Callable[[], bool]) -> None:
        problem = explorer.problem
        super().__init__(problem, Groupings(problem), explorer.judge.measure, problem.max_withheld)
        self.points: dict[Levels, Point] = {}
        self._explorer, self._wanted = explorer, wanted

    def check(self, levels: Levels, best: float = np.inf, source: Grouping | None = None) -> Verdict:
        if not self._wanted():
            raise _AbandonedError
        grouping = self.groupings.at(levels, source)
        verdict = super().check(levels, best, grouping)
        if len(self.points) < MOST_SEEN or verdict.finding is Finding.HOLDS:
            self.points[levels] = self._explorer.describe(self.groupings, grouping, verdict)
        return verdict


class Explorer:
    """The lattice of one problem; requests ask for nodes while a thread searches."""

    def __init__(self, problem: Problem, measure: str, *, changed: bool = False) -> None:
        self.problem, self.changed = problem, changed  # changed: a run changes the table before it judges levels
        groupings = Groupings(problem)
        self.ladders = groupings.ladders
        self._people = next((one.people for one in problem.requirements if one.people is not None), None)
        cost = MEASURES[measure](self.ladders, len(problem.sensitive))
        self.judge = Judge(problem, groupings, cost, problem.max_withheld)
        self._free = Judge(problem, groupings, cost, problem.cells.n_records)
        self._ncp = NcpCost(self.ladders, len(problem.sensitive))
        self._lock = threading.Lock()  # protects the cached groupings
        ends = (groupings.base, groupings.at(self.ladders.top))
        self.ends = [cost.value(cost.cost(one, one.sizes < 0)) for one in ends]  # losses of the finest, coarsest node
        self.survey = Survey()
        self.searched = threading.Event()
        self.names = tuple(attribute.name for attribute in problem.quasi)
        self.n_nodes = math.prod(self.ladders.shape)
        self.counts = "records" if self._people is None else "people"  # the unit of classes

    @classmethod
    def of(cls, table: CountedTable, policy: Policy) -> Explorer:
        """Return the lattice of a policy; raise if its method refuses the problem."""
        problem = table.problem(policy)
        if (refusal := policy.method.refuses(problem)) is not None:
            raise UsageError(refusal)
        return cls(problem, str(getattr(policy.method, "measure", "loss")), changed=table.changed)

    def read_levels(self, given: Iterable[str]) -> Levels:
        texts = list(given)
        if len(texts) == len(self.ladders.top) and all(text.isascii() and text.isdigit() for text in texts):
            levels = tuple(map(int, texts))
            if all(level <= most for level, most in zip(levels, self.ladders.top, strict=True)):
                return levels
        raise UsageError("these levels no longer exist; reload this page")

    def examples(self) -> list[list[tuple[str, int]]]:
        """Return for each attribute and level the label of its most frequent value, and the number of labels."""
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
        """Return risks and losses of a node's remaining classes."""
        sizes = self._sizes(self.judge.groupings, grouping)[(grouping.sizes > 0) & ~gone]
        measure = self.judge.measure
        losses = {"loss": measure.value(measure.cost(grouping, gone)), "ncp": self._ncp.cost(grouping, gone)}
        return {**class_risks(sizes), **losses}

    def _sizes(self, groupings: Groupings, grouping: Grouping) -> IntArray:
        """Return (n_groups,) the number of records or people in each group."""
        if self._people is None:
            return grouping.sizes
        there, counts = np.flatnonzero(self.problem.cells.counts), self.problem.cells.counts
        class_of, person = groupings.group_of_cells(grouping)[there], self._people.person[there] + 1
        return Appearances(class_of, person, None, counts[there], grouping.n_groups).class_sizes()

    def describe(self, groupings: Groupings, grouping: Grouping, verdict: Verdict) -> Point:
        """Return the point of a node in the drawing."""
        holds = None if verdict.finding is Finding.DEARER else verdict.suppressed is not None
        gone = np.zeros(grouping.n_groups, dtype=np.bool_) if verdict.suppressed is None else verdict.suppressed
        sizes = self._sizes(groupings, grouping)[(grouping.sizes > 0) & ~gone]
        cost = verdict.cost if holds else verdict.plain
        mean = len(sizes) / max(int(sizes.sum()), 1)
        return Point(verdict.levels, holds, self.judge.measure.value(cost), mean, int(grouping.sizes[gone].sum()))

    def search(self, wanted: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Find the optimum, then examine all nodes of a small lattice; ``survey`` has the results so far."""
        judge = _RecordingJudge(self, wanted)
        try:
            with Silent().step("searching") as step:
                found = Search.of(judge, seconds, step)
            best = None if found.best is None else found.best.levels
            few = self.n_nodes <= MOST_NODES
            self.survey = Survey(dict(judge.points), found.as_dict(), best, not few)
            self.searched.set()
            end = time.monotonic() + seconds
            for levels in itertools.product(*map(range, self.ladders.shape)) if few else ():
                known = judge.points.get(levels)
                if known is None or known.holds is None:
                    judge.check(levels)
                if time.monotonic() > end:
                    break
            self.survey = Survey(dict(judge.points), found.as_dict(), best, True)
        except _AbandonedError:
            pass
        finally:
            self.searched.set()


def ask_lattice(project: Project, patience: float) -> Explorer | None:
    """Return the lattice within *patience* seconds, or None while the table is being counted; its search may go on."""
    document = full_domain(project.document)
    guarantees = {key: document.get(key) for key in ("privacy", "max_withheld", "method")}
    newest: Newest[Explorer] = Newest.of(project, "levels")
    key = pass_key(document), json.dumps(guarantees, default=str)
    end = time.monotonic() + patience
    try:
        found = newest.ask(project, document, key, Explorer.of, Explorer.search).result(timeout=patience)
    except TimeoutError:
        return None
    found.searched.wait(max(end - time.monotonic(), 0.0))
    return found


def full_domain(document: Mapping[str, Any], levels: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a policy with incognito as its method, at these levels; its measure and time budget stay."""
    given = document.get("method")
    own = given.get(Incognito.name) if isinstance(given, Mapping) else None
    kept = {key: own[key] for key in ("measure", "time_budget") if isinstance(own, Mapping) and key in own}
    return {**document, "method": {Incognito.name: {**kept, **({"levels": dict(levels)} if levels else {})}}}

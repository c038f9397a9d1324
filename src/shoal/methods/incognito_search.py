"""The search for the cheapest node of the lattice that keeps every requirement."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.methods.incognito_judge import Finding, Judge, Verdict
from shoal.methods.incognito_kernels import most_telling
from shoal.methods.incognito_levels import Levels
from shoal.progress import Step

_TABULATED_NODES = 1 << 18  # lattices up to this size are kept as arrays


@dataclass(frozen=True, slots=True)
class Outcome:
    """The best node, and the search's proof: nothing below ``bound`` is possible."""

    best: Verdict | None
    bound: float  # cost
    complete: bool
    n_nodes: int
    n_checked: int

    def as_dict(self, judge: Judge) -> dict[str, Any]:
        """Return the figures for the evidence."""
        told: dict[str, Any] = {
            "measure": judge.measure.name,
            "lattice": self.n_nodes,
            "checked": self.n_checked,
            "pruned": self.n_nodes - self.n_checked if self.complete else None,
            "complete": self.complete,
        }
        if self.best is not None:
            told["optimum"] = judge.measure.value(self.best.cost)
            told["bound"] = judge.measure.value(self.bound)
            told["gap"] = abs(told["optimum"] - told["bound"])
        return told


def search(judge: Judge, seconds: float, step: Step) -> Outcome:
    """Return the cheapest node that holds; of equally cheap ones the least general, then the first."""
    deadline = time.monotonic() + seconds
    n_nodes = math.prod(judge.groupings.ladders.shape)
    known = judge.n_checked
    walk = _Tabulated(judge, deadline) if n_nodes <= _TABULATED_NODES else _Frontier(judge, deadline)
    for _ in walk.run():
        step.advance(1)
    top = judge.groupings.ladders.top
    best = walk.best
    if best is None and not walk.complete:
        best = _if_holds(judge.check(top))
    return Outcome(best, walk.bound, walk.complete, n_nodes, min(judge.n_checked - known, n_nodes))


def _if_holds(verdict: Verdict) -> Verdict | None:
    return verdict if verdict.finding is Finding.HOLDS else None


def _rank(verdict: Verdict) -> tuple[float, int, Levels]:
    return verdict.cost, sum(verdict.levels), verdict.levels


class _Walk:
    """What both kinds of search share: the best node so far, and the time."""

    def __init__(self, judge: Judge, deadline: float) -> None:
        self.judge = judge
        self.best: Verdict | None = None
        self.bound = 0.0
        self.complete = False
        self._deadline = deadline

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    @property
    def _limit(self) -> float:
        return np.inf if self.best is None else self.best.cost

    def _improves(self, verdict: Verdict) -> bool:
        if verdict.finding is not Finding.HOLDS or (self.best is not None and _rank(verdict) >= _rank(self.best)):
            return False
        self.best = verdict
        return True

    def _finish(self, bound: float) -> None:
        self.bound = min(bound, self._limit)
        self.complete = not bound < self._limit

    def run(self) -> Iterator[None]:
        """Search, yielding after every node that was checked."""
        raise NotImplementedError


class _Tabulated(_Walk):
    """A lattice as an array: every check rules out as many nodes as possible.

    Alive are the nodes that may still be the best. One that fails with everything finer kills its down-set; one
    that holds kills all that cost more. The next node to check is one that promises much either way: it maximizes
    the smaller of both numbers. Once no alive node can be
    ruled out easily, the cheapest comes next.
    """

    def __init__(self, judge: Judge, deadline: float) -> None:
        super().__init__(judge, deadline)
        self._costs: FloatArray = judge.measure.lattice()
        shape = self._costs.shape
        self._alive: BoolArray = np.ones(shape, dtype=np.bool_)
        self._passed: BoolArray = np.zeros(shape, dtype=np.bool_)
        heights = sum(np.ogrid[tuple(slice(n) for n in shape)])
        self._ties = np.empty(shape, dtype=np.int64)  # of equal cost, the lower is better
        self._ties.flat[np.lexsort((np.arange(self._ties.size), np.ravel(heights)))] = np.arange(self._ties.size)
        self._shape = np.array(shape, dtype=np.int64)
        self._by_cost = np.argsort(self._costs, axis=None, kind="stable")

    def run(self) -> Iterator[None]:
        """Check until no node is alive, or the time is over."""
        if self.judge.budget:
            yield from self._descend()
        while self._alive.any():
            if self._late:
                self._finish(float(self._costs[self._alive].min()))
                return
            self._settle(self._next())
            yield
        self._finish(np.inf)

    def _descend(self) -> Iterator[None]:
        """Go down from the top, always to the cheapest node that holds: failures say little where records go."""
        levels: Levels | None = self.judge.groupings.ladders.top
        while levels is not None:
            nodes = sorted(_lowered(levels, (0,) * len(levels)), key=self._costs.__getitem__)
            levels = None
            for node in nodes:
                if self._late:
                    return
                if self._alive[node]:
                    finding = self._settle(node)
                    yield
                    if finding is Finding.HOLDS:
                        levels = node
                        break

    def _settle(self, levels: Levels) -> Finding:
        verdict = self.judge.check(levels, self._limit)
        self._alive[levels] = False
        finer = tuple(slice(level + 1) for level in levels)
        coarser = tuple(slice(level, None) for level in levels)
        if verdict.finding is Finding.FAILS_DOWN:
            self._alive[finer] = False
        if verdict.passes:
            self._passed[coarser] = True
        if not self.judge.measure.separable:
            np.maximum(self._costs[coarser], verdict.plain, out=self._costs[coarser])
        improved = self._improves(verdict)
        if self.best is not None and (improved or not self.judge.measure.separable):
            tie = self._ties[self.best.levels]
            cost = self.best.cost
            self._alive &= (self._costs < cost) | ((self._costs == cost) & (self._ties < tie))
        return verdict.finding

    def _next(self) -> Levels:
        open_ones = self._alive & ~self._passed
        if not open_ones.any():
            alive = np.flatnonzero(self._alive)
            return self._levels(int(alive[self._costs.flat[alive].argmin()]))
        place = most_telling(
            np.ravel(self._alive), np.ravel(open_ones), self._shape, self._by_cost, self.judge.measure.separable
        )
        return self._levels(place)

    def _levels(self, place: int) -> Levels:
        return tuple(int(level) for level in np.unravel_index(place, self._alive.shape))


class _Frontier(_Walk):
    """A lattice too large for arrays: climb to a good node at once, then raise the lower bound until time is over.

    No node is better than the cheapest of the frontier, all costs being without suppression: nodes leave it cheapest
    first, and those that are ruled out are replaced by their generalizations.
    """

    def run(self) -> Iterator[None]:
        """Climb from the lowest levels that sizes permit, look around, and then prove."""
        floor = self._floor()
        self.bound = self.judge.measure.plain(floor)
        yield from self._climb(floor)
        yield from self._look_around(floor)
        yield from self._prove(floor)

    def _floor(self) -> Levels:
        """Return the lowest level of each attribute at which sizes suffice if all others are at the top."""
        top = self.judge.groupings.ladders.top
        floor = []
        for j, height in enumerate(top):
            level = 0
            while level < height and not self.judge.sizes_suffice((*top[:j], level, *top[j + 1 :])):
                level += 1
            floor.append(level)
        return tuple(floor)

    def _climb(self, floor: Levels) -> Iterator[None]:
        """Raise the attribute that gains the largest classes for its cost, until a node holds."""
        judge, levels = self.judge, floor
        top = judge.groupings.ladders.top
        while not self._late:
            verdict = judge.check(levels)
            yield
            if self._improves(verdict) or levels == top:
                return
            levels = min(_raised(levels, top), key=self._price)

    def _price(self, levels: Levels) -> float:
        """Return the cost times the logarithm of the number of classes: what is lost, and what remains to be done."""
        grouping = self.judge.groupings.at(levels)
        plain = self.judge.measure.cost(grouping, np.zeros(grouping.n_groups, dtype=np.bool_))
        return plain * math.log(1 + grouping.n_groups)

    def _look_around(self, floor: Levels) -> Iterator[None]:
        """Lower attributes, or exchange a level of one for a level of another, as long as that is cheaper."""
        judge = self.judge
        top = judge.groupings.ladders.top
        seen: set[Levels] = set()
        start = None
        while self.best is not None and self.best is not start:
            start = self.best
            lower = _lowered(start.levels, floor)
            around = [*lower, *(up for node in lower for up in _raised(node, top))]
            for levels in sorted(set(around) - seen, key=judge.measure.plain):
                if self._late:
                    return
                seen.add(levels)
                if judge.measure.plain(levels) < self._limit:
                    self._improves(judge.check(levels, self._limit))
                    yield

    def _prove(self, floor: Levels) -> Iterator[None]:
        judge = self.judge
        top = judge.groupings.ladders.top
        first = self.judge.measure.plain(floor)
        frontier = [(first, sum(floor), floor)]
        seen = {floor}
        while frontier:
            cost, _, levels = frontier[0]
            if self._late or not cost < self._limit:
                break
            heapq.heappop(frontier)
            verdict = judge.check(levels, self._limit)
            self._improves(verdict)
            yield
            for node in _raised(levels, top):
                plain = max(judge.measure.plain(node), verdict.plain)
                if node not in seen and plain < self._limit:
                    seen.add(node)
                    heapq.heappush(frontier, (plain, sum(node), node))
        self._finish(frontier[0][0] if frontier else np.inf)


def _raised(levels: Levels, top: Levels) -> list[Levels]:
    return [(*levels[:j], level + 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level < top[j]]


def _lowered(levels: Levels, floor: Levels) -> list[Levels]:
    return [(*levels[:j], level - 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level > floor[j]]

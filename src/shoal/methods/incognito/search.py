"""The search for the cheapest node of the lattice that keeps every requirement."""

from __future__ import annotations

import heapq
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.core.progress import Step
from shoal.methods.incognito.groups import Levels
from shoal.methods.incognito.judge import Finding, Judge, Verdict, small_records

_MOST_WAITING = 1 << 20  # nodes of the frontier, for the sake of memory
_MOVED = 3  # attributes at most, in one round of wandering
_ROUNDS = 40  # of wandering before the proof is taken up
_ROUNDS_BETWEEN = 4  # whenever the proof has taken as long as these
_WORSE = 1.01  # times the best cost: a node from which wandering may go on
_TABULATED_NODES = 1 << 18  # lattices up to this size are kept as arrays


class Search(ABC):
    """A search that keeps the best node it has seen; when it ends, no node costs less than ``bound``."""

    def __init__(self, judge: Judge, seconds: float) -> None:
        self.judge = judge
        self.seconds = seconds
        self.best: Verdict | None = None
        self.bound = 0.0
        self.complete = False
        self.n_nodes = math.prod(judge.groupings.ladders.shape)
        self._deadline = time.monotonic() + seconds

    @classmethod
    def of(cls, judge: Judge, seconds: float, step: Step) -> Search:
        """Find the cheapest node that holds; of equally cheap ones of a tabulated lattice the least general."""
        small = math.prod(judge.groupings.ladders.shape) <= _TABULATED_NODES
        found: Search = _Tabulated(judge, seconds) if small else _Frontier(judge, seconds)
        for _ in found.run():
            step.advance(1)
        if found.best is None and not found.complete:
            found.improves(judge.check(judge.groupings.ladders.top))
        return found

    @property
    def n_checked(self) -> int:
        """Nodes that were checked."""
        return min(self.judge.n_checked, self.n_nodes)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._deadline

    @property
    def limit(self) -> float:
        """What a node must cost less than."""
        return np.inf if self.best is None else self.best.cost

    def improves(self, verdict: Verdict) -> bool:
        """Take a node that holds if it is the best so far."""
        if verdict.finding is not Finding.HOLDS or (self.best is not None and _rank(verdict) >= _rank(self.best)):
            return False
        self.best = verdict
        return True

    def finish(self, bound: float) -> None:
        """End with a lower bound of all that was not checked."""
        self.bound = min(bound, self.limit)
        self.complete = not bound < self.limit

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for the evidence: the best node, and the proof that nothing below a bound is possible."""
        measure = self.judge.measure
        figures: dict[str, Any] = {
            "measure": measure.name,
            "lattice": self.n_nodes,
            "checked": self.n_checked,
            "pruned": self.n_nodes - self.n_checked if self.complete else None,
            "complete": self.complete,
        }
        if self.best is not None:
            optimum, bound = measure.value(self.best.cost), measure.value(self.bound)
            figures |= {"optimum": optimum, "bound": bound, "gap": abs(optimum - bound)}
        return figures

    @abstractmethod
    def run(self) -> Iterator[None]:
        """Search, yielding after every node that was checked."""


def nodes_above(levels: Levels, top: Levels) -> list[Levels]:
    """Return the nodes one level above."""
    return [(*levels[:j], level + 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level < top[j]]


def nodes_below(levels: Levels, floor: Levels) -> list[Levels]:
    """Return the nodes one level below, as far as the floor."""
    return [(*levels[:j], level - 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level > floor[j]]


def _rank(verdict: Verdict) -> tuple[float, int, Levels]:
    return verdict.cost, sum(verdict.levels), verdict.levels


class _Tabulated(Search):
    """A lattice as an array: every check rules out as many nodes as possible.

    Alive are the nodes that may still be the best. One that fails with everything finer kills its down-set; one
    that holds kills all that cost more. The next node to check is one that promises much either way: it maximizes
    the smaller of both numbers. Once no alive node can be ruled out easily, the cheapest comes next.
    """

    def __init__(self, judge: Judge, seconds: float) -> None:
        super().__init__(judge, seconds)
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
            if self.late:
                self.finish(float(self._costs[self._alive].min()))
                return
            self._settle(self._next())
            yield
        self.finish(np.inf)

    def _descend(self) -> Iterator[None]:
        """Go down from the top, always to the cheapest node that holds: failures say little where records go."""
        levels: Levels | None = self.judge.groupings.ladders.top
        while levels is not None:
            nodes = sorted(nodes_below(levels, (0,) * len(levels)), key=self._costs.__getitem__)
            levels = None
            for node in nodes:
                if self.late:
                    return
                if self._alive[node]:
                    finding = self._settle(node)
                    yield
                    if finding is Finding.HOLDS:
                        levels = node
                        break

    def _settle(self, levels: Levels) -> Finding:
        verdict = self.judge.check(levels, self.limit)
        self._alive[levels] = False
        finer = tuple(slice(level + 1) for level in levels)
        coarser = tuple(slice(level, None) for level in levels)
        if verdict.finding is Finding.FAILS_DOWN:
            self._alive[finer] = False
        if verdict.passes:
            self._passed[coarser] = True
        if not self.judge.measure.separable:
            np.maximum(self._costs[coarser], verdict.plain, out=self._costs[coarser])
        improved = self.improves(verdict)
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


class _Frontier(Search):
    """Climb to a node that holds, look and wander around it, then raise the lower bound until the time is over.

    No node is better than the cheapest of the frontier, all costs being without suppression: nodes leave it cheapest
    first, and those that do not hold are replaced by their generalizations.
    """

    def __init__(self, judge: Judge, seconds: float) -> None:
        super().__init__(judge, seconds)
        self._top = judge.groupings.ladders.top
        self._floor: Levels = (0,) * len(self._top)
        self._known: dict[Levels, tuple[float, float]] = {}  # of checked nodes: cost, and cost without suppression
        self._start: Levels = self._floor  # of the next round of wandering
        self._chance = np.random.default_rng(0)  # protects nobody: it only says where to look

    def run(self) -> Iterator[None]:
        """Search from the lowest levels that sizes permit."""
        self._floor = self._lowest()
        self.bound = self.judge.measure.plain(self._floor)
        yield from self._climb(self._floor)
        yield from self._look_around()
        yield from self._wander(_ROUNDS)
        yield from self._prove()
        while not self.complete and self.best is not None and not self.late:  # memory ended the proof
            yield from self._wander(_ROUNDS)
            self.finish(self.bound)

    def _lowest(self) -> Levels:
        """Return the lowest level of each attribute at which sizes suffice if all others are at the top."""
        top = self._top
        floor = []
        for j, height in enumerate(top):
            level = 0
            while level < height and self._too_small((*top[:j], level, *top[j + 1 :])):
                level += 1
            floor.append(level)
        return tuple(floor)

    def _too_small(self, levels: Levels) -> bool:
        """Whether classes that are too small for any model have more records than may be suppressed."""
        judge = self.judge
        return small_records(judge.groupings.at(levels).sizes, judge.smallest) > judge.budget

    def _check(self, levels: Levels, best: float = np.inf) -> Verdict:
        verdict = self.judge.check(levels, best)
        self._known[levels] = verdict.cost, verdict.plain
        self.improves(verdict)
        return verdict

    def _cost(self, levels: Levels) -> float:
        """Return what a node costs, infinite if it does not hold."""
        known = self._known.get(levels)
        return self._check(levels).cost if known is None else known[0]

    def _climb(self, levels: Levels) -> Iterator[None]:
        """Raise the attribute that gains the largest classes for its cost, until a node holds."""
        while not self.late:
            cost = self._cost(levels)
            yield
            if cost < np.inf or levels == self._top:
                return
            levels = min(nodes_above(levels, self._top), key=self._price)

    def _price(self, levels: Levels) -> float:
        """Return the cost times the logarithm of the number of classes: what is lost, and what remains to be done."""
        grouping = self.judge.groupings.at(levels)
        plain = self.judge.measure.cost(grouping, np.zeros(grouping.n_groups, dtype=np.bool_))
        return plain * math.log(1 + grouping.n_groups)

    def _look_around(self) -> Iterator[None]:
        """Lower attributes, or exchange a level of one for a level of another, as long as that is cheaper."""
        plain = self.judge.measure.plain
        start = None
        while self.best is not None and self.best is not start:
            start = self.best
            lower = nodes_below(start.levels, self._floor)
            around = {*lower, *(up for node in lower for up in nodes_above(node, self._top))}
            for levels in sorted(around - self._known.keys(), key=plain):
                if self.late:
                    return
                if plain(levels) < self.limit:
                    self._check(levels, self.limit)
                    yield

    def _wander(self, rounds: int) -> Iterator[None]:
        """Move a few attributes at random, climb until a node holds, descend; go on from there if it is about as good.

        Ends at once if no node is known to hold.
        """
        chance = self._chance
        for _ in range(rounds):
            if self.best is None or self.late:
                return
            before = self.best
            if self._cost(self._start) > _WORSE * before.cost:
                self._start = before.levels
            moved = list(self._start)
            for j in chance.choice(len(moved), min(int(chance.integers(1, _MOVED + 1)), len(moved)), replace=False):
                moved[j] = int(chance.integers(self._floor[j], self._top[j] + 1))
            levels = tuple(moved)
            while self._cost(levels) == np.inf and levels != self._top and not self.late:
                levels = min(nodes_above(levels, self._top), key=self._price)
                yield
            yield from self._descend(levels)
            if self.best is not before:
                yield from self._look_around()

    def _descend(self, levels: Levels) -> Iterator[None]:
        """Lower one attribute after another, always to the first node that costs less."""
        plain = self.judge.measure.plain
        self._start, descending = levels, True
        while descending:
            cost, descending = self._cost(self._start), False
            for node in sorted(nodes_below(self._start, self._floor), key=plain):
                if self.late:
                    return
                if plain(node) < cost and self._cost(node) < cost:
                    self._start, descending = node, True
                    break
                yield

    def _prove(self) -> Iterator[None]:
        """Take nodes cheapest first; every node is made once, from the one where its last raised attribute is lower.

        Half of the time goes on wandering, for a proof may be far away.
        """
        plain = self.judge.measure.plain
        waiting = [(plain(self._floor), sum(self._floor), self._floor, 0)]
        pause = 0.0
        while waiting and len(waiting) < _MOST_WAITING and not self.late and waiting[0][0] < self.limit:
            if (now := time.monotonic()) > pause:
                yield from self._wander(_ROUNDS_BETWEEN)
                pause = 2 * time.monotonic() - now
            cost, height, levels, first = heapq.heappop(waiting)
            if levels not in self._known:
                self._check(levels, self.limit)
                yield
            cost = max(cost, self._known[levels][1])
            for j in range(first, len(levels)):
                if levels[j] < self._top[j]:
                    node = (*levels[:j], levels[j] + 1, *levels[j + 1 :])
                    least = max(plain(node), cost)
                    if least < self.limit:
                        heapq.heappush(waiting, (least, height + 1, node, j))
        self.finish(waiting[0][0] if waiting else np.inf)


@kernel
def most_telling(alive: BoolArray, open_ones: BoolArray, shape: IntArray, by_cost: IntArray, separable: bool) -> int:
    """Return the open node with the largest minimum of alive nodes in its down-set and alive nodes that cost more.

    Where costs are not known beforehand, the up-set takes the place of the latter.
    """
    n = len(alive)
    below = np.empty(n, dtype=np.int32)
    above = np.empty(n, dtype=np.int32)
    for i in range(n):
        below[i] = alive[i]
        above[i] = alive[i]
    stride = n
    for axis in range(len(shape)):
        stride //= shape[axis]
        span = stride * shape[axis]
        for start in range(0, n, span):
            for i in range(start + stride, start + span):
                below[i] += below[i - stride]
            if not separable:
                for i in range(start + span - stride - 1, start - 1, -1):
                    above[i] += above[i + stride]
    if separable:
        dearer = 0
        for place in range(n - 1, -1, -1):
            dearer += alive[by_cost[place]]
            above[by_cost[place]] = dearer
    best, worth = -1, -1
    for i in range(n):
        if open_ones[i] and min(below[i], above[i]) > worth:
            best, worth = i, min(below[i], above[i])
    return best

"""The search for the cheapest node of the lattice that satisfies every requirement."""

from __future__ import annotations

import heapq
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.core.progress import Step
from shoal.methods.incognito.groups import Grouping, Levels
from shoal.methods.incognito.judge import Finding, Judge, Verdict

_TABULATED_NODES = 1 << 18  # lattices up to this size are kept as arrays


class Search(ABC):
    """A search and the best node it has found; when it ends, no valid node costs less than ``bound``."""

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
        """Find the cheapest node that holds; in tabulated lattices, ties go to the least general one."""
        small = math.prod(judge.groupings.ladders.shape) <= _TABULATED_NODES
        found: Search = _Tabulated(judge, seconds) if small else _Branches(judge, seconds)
        for _ in found.run():
            step.advance(1)
        if found.best is None and not found.complete:
            found.improves(judge.check(judge.groupings.ladders.top))
        return found

    @property
    def n_checked(self) -> int:
        return min(self.judge.n_checked, self.n_nodes)

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    @property
    def limit(self) -> float:
        return np.inf if self.best is None else self.best.cost

    def improves(self, verdict: Verdict) -> bool:
        """Record a node that holds if it is the best so far."""
        if verdict.finding is not Finding.HOLDS or (self.best is not None and _rank(verdict) >= _rank(self.best)):
            return False
        self.best = verdict
        return True

    def finish(self, bound: float) -> None:
        """End with a lower bound of the costs of unchecked nodes."""
        self.bound = min(bound, self.limit)
        self.complete = not bound < self.limit

    def as_dict(self) -> dict[str, object]:
        """Return the figures for the evidence: the best node, and the bound that proves its optimality."""
        measure = self.judge.measure
        figures: dict[str, object] = {
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
        """Search, yielding after every checked node."""


def nodes_above(levels: Levels, top: Levels) -> list[Levels]:
    return [(*levels[:j], level + 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level < top[j]]


def nodes_below(levels: Levels) -> list[Levels]:
    return [(*levels[:j], level - 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level]


def _rank(verdict: Verdict) -> tuple[float, int, Levels]:
    return verdict.cost, sum(verdict.levels), verdict.levels


class _Tabulated(Search):
    """A lattice as an array; every check rules out as many nodes as possible.

    Nodes are alive while they may be the best. A node that fails with everything finer rules out its down-set; a node
    that holds rules out all nodes that cost more. The next node to check maximizes the smaller of both numbers. If all
    alive nodes have passed the cheap tests, the cheapest is next.
    """

    def __init__(self, judge: Judge, seconds: float) -> None:
        super().__init__(judge, seconds)
        self._costs: FloatArray = judge.measure.lattice()
        shape = self._costs.shape
        self._alive: BoolArray = np.ones(shape, dtype=np.bool_)
        self._passed: BoolArray = np.zeros(shape, dtype=np.bool_)
        heights = sum(np.ogrid[tuple(slice(n) for n in shape)])
        self._ties = np.empty(shape, dtype=np.int64)  # ties in cost go to the lower node
        self._ties.flat[np.lexsort((np.arange(self._ties.size), np.ravel(heights)))] = np.arange(self._ties.size)
        self._shape = np.array(shape, dtype=np.int64)
        self._by_cost = np.argsort(self._costs, axis=None, kind="stable")

    def run(self) -> Iterator[None]:
        """Check nodes until none is alive or the time is over."""
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
        """Descend from the top to the cheapest child that holds, because with suppression failures rule out little."""
        levels: Levels | None = self.judge.groupings.ladders.top
        while levels is not None:
            nodes = sorted(nodes_below(levels), key=self._costs.__getitem__)
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
        nodes, separable = np.ravel(self._alive), self.judge.measure.separable
        around = np.array([nodes, nodes], dtype=np.int32)
        return self._levels(most_telling(nodes, np.ravel(open_ones), self._shape, self._by_cost, separable, around))

    def _levels(self, place: int) -> Levels:
        return tuple(int(level) for level in np.unravel_index(place, self._alive.shape))


class Branch(NamedTuple):
    """All nodes between a finest and a coarsest one."""

    least: float  # lower bound of its nodes' costs
    finest: Levels
    coarsest: Levels
    unsure: tuple[int, ...]  # attributes whose finest level may be too low


class _Branches(Search):
    """Branch and bound: splits the lattice into ever smaller branches, the cheapest first.

    If the coarsest node of a branch with one attribute lowered fails downwards, no node of the branch can be that low:
    its finest node is raised, and so is the lower bound of its costs. Then it is split by an attribute. The part with
    the lowest level is followed until a single node is left, and the part with the higher levels is queued. If records
    may be suppressed, the cheapest nodes need not be the finest; neighbours of the best node are tried as well.
    """

    def __init__(self, judge: Judge, seconds: float) -> None:
        super().__init__(judge, seconds)
        self._seen: set[Levels] = set()  # nodes whose neighbours were looked at

    def run(self) -> Iterator[None]:
        """Follow the cheapest branch until none is cheaper than the best node or the time is over."""
        top = self.judge.groupings.ladders.top
        self.improves(self.judge.check(top))
        yield
        waiting = [Branch(0.0, (0,) * len(top), top, tuple(range(len(top))))]
        while waiting and waiting[0].least < self.limit and not self.late:
            branch, source = heapq.heappop(waiting), self.judge.groupings.base
            while branch.least < self.limit and not self.late:
                source = self.judge.groupings.at(branch.finest, source)
                branch = yield from self._raise_finest(branch, source)
                if branch.unsure or branch.finest == branch.coarsest:
                    break
                branch, other = self._split(branch)
                heapq.heappush(waiting, other)
            yield from self._look_around()
            if branch.unsure and branch.least < self.limit:
                heapq.heappush(waiting, branch)  # the time is over
        self.finish(waiting[0].least if waiting else np.inf)

    def _look_around(self) -> Iterator[None]:
        """Lower one attribute, or lower one and raise another, as long as that is cheaper."""
        plain, top = self.judge.measure.plain, self.judge.groupings.ladders.top
        while self.best is not None and self.best.levels not in self._seen:
            start = self.best.levels
            self._seen.add(start)
            lower = nodes_below(start)
            around = {*lower, *(up for node in lower for up in nodes_above(node, top))}
            for levels in sorted(around - self._seen, key=plain):
                if self.late:
                    return
                if plain(levels) < self.limit:
                    self.improves(self.judge.check(levels, self.limit))
                    yield

    def _raise_finest(self, branch: Branch, source: Grouping) -> Generator[None, None, Branch]:
        """Raise the finest node to the lowest levels with which a node of the branch can hold, or to the cost limit."""
        least, finest, coarsest, unsure = branch
        while unsure and least < self.limit and not self.late:
            j = unsure[0]
            node = (*coarsest[:j], finest[j], *coarsest[j + 1 :])
            if finest[j] < coarsest[j]:
                verdict = self.judge.check(node, self.limit, source)
                self.improves(verdict)
                yield
                if verdict.finding is Finding.FAILS_DOWN:
                    finest = (*finest[:j], finest[j] + 1, *finest[j + 1 :])
                    least = max(least, self._least(finest))
                    continue
            unsure = unsure[1:]
        return Branch(least, finest, coarsest, unsure)

    def _split(self, branch: Branch) -> tuple[Branch, Branch]:
        """Split by the attribute with the fewest values, into its lowest level and all higher levels."""
        _, finest, coarsest, _ = branch
        rungs = self.judge.groupings.ladders.rungs
        left = [j for j, (low, high) in enumerate(zip(finest, coarsest, strict=True)) if low < high]
        j = min(left, key=lambda j: rungs[j].widths[finest[j]])
        lowest = (*coarsest[:j], finest[j], *coarsest[j + 1 :])
        higher = (*finest[:j], finest[j] + 1, *finest[j + 1 :])
        return (
            Branch(branch.least, finest, lowest, tuple(left)),
            Branch(max(branch.least, self._least(higher)), higher, coarsest, (j,)),
        )

    def _least(self, finest: Levels) -> float:
        """Return a lower bound of the costs of this node and all coarser ones."""
        measure, groupings = self.judge.measure, self.judge.groupings
        if measure.separable:
            return measure.plain(finest)
        grouping = groupings.at(finest)
        return measure.cost(grouping, np.zeros(grouping.n_groups, dtype=np.bool_))


@kernel
def most_telling(
    alive: BoolArray, open_ones: BoolArray, shape: IntArray, by_cost: IntArray, separable: bool, around: CodeArray
) -> int:
    """Return the open node that maximizes min(alive nodes in its down-set, alive nodes that cost more).

    If costs are not known in advance, alive nodes in the up-set replace the latter. *around* is (2, n) scratch space
    for both counts, initially the alive nodes.
    """
    below, above = around[0], around[1]
    n = stride = len(alive)
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

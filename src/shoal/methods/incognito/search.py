"""The search for the cheapest node of the lattice that keeps every requirement."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.methods.incognito.frontier import Frontier
from shoal.methods.incognito.judge import Finding, Judge, Verdict
from shoal.methods.incognito.kernels import most_telling
from shoal.methods.incognito.levels import Levels
from shoal.methods.incognito.walk import Walk, lowered
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
    """Return the cheapest node that holds; of equally cheap ones of a tabulated lattice the least general."""
    deadline = time.monotonic() + seconds
    n_nodes = math.prod(judge.groupings.ladders.shape)
    walk: Walk = _Tabulated(judge, deadline) if n_nodes <= _TABULATED_NODES else Frontier(judge, deadline)
    for _ in walk.run():
        step.advance(1)
    if walk.best is None and not walk.complete:
        walk.improves(judge.check(judge.groupings.ladders.top))
    return Outcome(walk.best, walk.bound, walk.complete, n_nodes, min(judge.n_checked, n_nodes))


class _Tabulated(Walk):
    """A lattice as an array: every check rules out as many nodes as possible.

    Alive are the nodes that may still be the best. One that fails with everything finer kills its down-set; one
    that holds kills all that cost more. The next node to check is one that promises much either way: it maximizes
    the smaller of both numbers. Once no alive node can be ruled out easily, the cheapest comes next.
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
            nodes = sorted(lowered(levels, (0,) * len(levels)), key=self._costs.__getitem__)
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

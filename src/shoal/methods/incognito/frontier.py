"""The search of a lattice too large for arrays: good nodes at once, then a bound on what is left."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from shoal.arrays import IntArray
from shoal.methods.incognito.judge import Finding, Judge, Verdict
from shoal.methods.incognito.levels import Levels
from shoal.methods.incognito.walk import Walk, lowered, raised

_MOST_WAITING = 1 << 20  # nodes of the frontier, for the sake of memory
_MOST_FAILURES = 4096
_MOVED = 3  # attributes at most, in one round of wandering
_ROUNDS = 40  # of wandering before the proof is taken up
_ROUNDS_BETWEEN = 4  # whenever the proof has taken as long as these
_WORSE = 1.01  # times the best cost: a node from which wandering may go on


class Frontier(Walk):
    """Climb to a node that holds, look and wander around it, then raise the lower bound until the time is over.

    No node is better than the cheapest of the frontier, all costs being without suppression: nodes leave it cheapest
    first, and those that do not hold are replaced by their generalizations. Nodes below one that is known to fail with
    everything finer need no check, unless only a check tells what they cost.
    """

    def __init__(self, judge: Judge, deadline: float) -> None:
        super().__init__(judge, deadline)
        self._top = judge.groupings.ladders.top
        self._floor: Levels = (0,) * len(self._top)
        self._known: dict[Levels, tuple[float, float]] = {}  # of checked nodes: cost, and cost without suppression
        self._failures: set[Levels] = set()
        self._start: Levels = self._floor  # of the next round of wandering
        self._chance = np.random.default_rng(0)  # protects nobody: it only says where to look

    def run(self) -> Iterator[None]:
        """Search from the lowest levels that sizes permit."""
        self._floor = self._lowest()
        self.bound = self.judge.measure.plain(self._floor)
        yield from self._climb(self._floor)
        yield from self._look_around()
        yield from self._wander(_ROUNDS)
        yield from self._compare_pairs()
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
            while level < height and not self.judge.sizes_suffice((*top[:j], level, *top[j + 1 :])):
                level += 1
            floor.append(level)
        return tuple(floor)

    def _checked(self, levels: Levels, best: float = np.inf) -> Verdict:
        verdict = self.judge.check(levels, best)
        self._known[levels] = verdict.cost, verdict.plain
        if verdict.finding is Finding.FAILS_DOWN and len(self._failures) < _MOST_FAILURES:
            self._failures.add(levels)
        self.improves(verdict)
        return verdict

    def _cost(self, levels: Levels) -> float:
        """Return what a node costs, infinite if it does not hold."""
        known = self._known.get(levels)
        return self._checked(levels).cost if known is None else known[0]

    def _climb(self, levels: Levels) -> Iterator[None]:
        """Raise the attribute that gains the largest classes for its cost, until a node holds."""
        while not self.late:
            cost = self._cost(levels)
            yield
            if cost < np.inf or levels == self._top:
                return
            levels = min(raised(levels, self._top), key=self._price)

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
            lower = lowered(start.levels, self._floor)
            around = {*lower, *(up for node in lower for up in raised(node, self._top))}
            for levels in sorted(around - self._known.keys(), key=plain):
                if self.late:
                    return
                if plain(levels) < self.limit:
                    self._checked(levels, self.limit)
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
                levels = min(raised(levels, self._top), key=self._price)
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
            for node in sorted(lowered(self._start, self._floor), key=plain):
                if self.late:
                    return
                if plain(node) < cost and self._cost(node) < cost:
                    self._start, descending = node, True
                    break
                yield

    def _compare_pairs(self) -> Iterator[None]:
        """Find the levels of any two attributes that fail with all others at the top: so does everything below."""
        for i, j in combinations(range(len(self._top)), 2):
            high = self._top[j]
            for low in range(self._floor[i], self._top[i] + 1):
                while high >= self._floor[j]:
                    if self.late:
                        return
                    levels = tuple(low if a == i else high if a == j else top for a, top in enumerate(self._top))
                    if levels not in self._known:
                        self._checked(levels)
                        yield
                    if levels in self._failures:
                        break
                    high -= 1

    def _prove(self) -> Iterator[None]:
        """Take nodes cheapest first; every node is made once, from the one where its last raised attribute is lower.

        Half of the time goes on wandering, for a proof may be far away.
        """
        plain, separable = self.judge.measure.plain, self.judge.measure.separable
        failures = self._largest_failures()
        waiting = [(plain(self._floor), sum(self._floor), self._floor, 0)]
        pause = 0.0
        while waiting and len(waiting) < _MOST_WAITING and not self.late and waiting[0][0] < self.limit:
            if (now := time.monotonic()) > pause:
                yield from self._wander(_ROUNDS_BETWEEN)
                pause = 2 * time.monotonic() - now
            cost, height, levels, first = heapq.heappop(waiting)
            if not separable or not (np.array(levels) <= failures).all(axis=1).any():
                if levels not in self._known:
                    self._checked(levels, self.limit)
                    yield
                cost = max(cost, self._known[levels][1])
            for j in range(first, len(levels)):
                if levels[j] < self._top[j]:
                    node = (*levels[:j], levels[j] + 1, *levels[j + 1 :])
                    least = max(plain(node), cost)
                    if least < self.limit:
                        heapq.heappush(waiting, (least, height + 1, node, j))
        self.finish(waiting[0][0] if waiting else np.inf)

    def _largest_failures(self) -> IntArray:
        """Return (n, n_attributes) the nodes that fail with everything finer, without those below another."""
        nodes = np.array(sorted(self._failures, key=lambda node: (-sum(node), node)), dtype=np.int64)
        nodes = nodes.reshape(-1, len(self._top))
        kept: list[int] = []
        for place, node in enumerate(nodes):
            if not (node <= nodes[kept]).all(axis=1).any():
                kept.append(place)
        return np.asarray(nodes[kept])

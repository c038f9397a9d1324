"""What every search of the lattice shares: the best node so far, the time, and the steps between nodes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from shoal.methods.incognito.judge import Finding, Judge, Verdict
from shoal.methods.incognito.levels import Levels


class Walk(ABC):
    """A search that keeps the best node it has seen; when it ends, no node costs less than ``bound``."""

    def __init__(self, judge: Judge, deadline: float) -> None:
        self.judge = judge
        self.best: Verdict | None = None
        self.bound = 0.0
        self.complete = False
        self._deadline = deadline

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

    @abstractmethod
    def run(self) -> Iterator[None]:
        """Search, yielding after every node that was checked."""


def raised(levels: Levels, top: Levels) -> list[Levels]:
    """Return the nodes one level above."""
    return [(*levels[:j], level + 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level < top[j]]


def lowered(levels: Levels, floor: Levels) -> list[Levels]:
    """Return the nodes one level below, as far as the floor."""
    return [(*levels[:j], level - 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level > floor[j]]


def _rank(verdict: Verdict) -> tuple[float, int, Levels]:
    return verdict.cost, sum(verdict.levels), verdict.levels

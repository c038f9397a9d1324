"""How many requests a caller may send: a bucket for each, filled at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Buckets:
    """Buckets by key, at most so many; used by the event loop alone, so it needs no lock.

    A forgotten bucket is a full one: the oldest is forgotten, which helps nobody who still has one to empty.
    """

    def __init__(
        self, rate: float, burst: int, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Fill every bucket up to *burst*, by *rate* a second."""
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # level, when

    def take(self, key: Hashable) -> float:
        """Take one from a bucket and return 0, or return in how many seconds there will be one.

        >>> now = iter([0.0, 0.0, 0.0, 0.5])
        >>> buckets = Buckets(2, 2, clock=lambda: next(now))
        >>> [buckets.take("a") for _ in range(4)]
        [0.0, 0.0, 0.5, 0.0]
        """
        now = self._clock()
        level, since = self._buckets.pop(key, (float(self._burst), now))
        level = min(float(self._burst), level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._buckets[key] = (level if wait else level - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait

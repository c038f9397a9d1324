"""Progress for programs: with ``SHOAL_PROGRESS=lines`` every step is told as lines of JSON on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.progress import Step

_SECONDS = 0.1  # between two lines of one step


class _LineStep:
    def __init__(self, title: str, total: int | None, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._done = 0
        self._said = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount
        if time.monotonic() - self._said >= _SECONDS:
            self.say(ended=False)

    def say(self, *, ended: bool) -> None:
        self._said = time.monotonic()
        told = {"step": self._title, "done": self._done, "total": self._total, "unit": self._unit, "ended": ended}
        sys.stderr.write(json.dumps(told) + "\n")
        sys.stderr.flush()


class Lines:
    """Tells of each step when it begins, at most ten times a second, and when it ends."""

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Tell of one step until it is done."""
        told = _LineStep(title, total, unit)
        told.say(ended=False)
        yield told
        told.say(ended=True)

"""A worker that is lost on the way; drivers of their own processes, which lie beside this file, import it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


class LosingAWorker:
    """Ends a group of processes soon after a step has begun."""

    def __init__(self, group: int, title: str) -> None:
        self._group = group
        self._title = title

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Any]:
        if title == self._title:
            threading.Timer(0.5, os.killpg, [self._group, signal.SIGKILL]).start()
        yield self

    def advance(self, amount: int) -> None:
        pass

"""Progress bars for people: one line a step, on standard error, only if that is a terminal; for programs, lines."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from shoal.cli.console import err
from shoal.core.progress import Progress, Silent, Step

_SECONDS = 0.1  # between two lines of one step


class _RichStep:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: int) -> None:
        self._bars.advance(self._task, amount)


class _Compiling(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says that kernels are being compiled, which happens on the first start only."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._said = False

    def on_start(self, _: object) -> None:
        if not self._said:
            self._said = True
            self._bars.console.print("compiling (first start only) ...", style="dim")

    def on_end(self, _: object) -> None:
        pass


class Bars:
    """Shows a bar for each step."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Show one step until it is done."""
        task = self._bars.add_task(escape(title), total=total, unit=unit)
        yield _RichStep(self._bars, task)
        done = self._bars.tasks[task].completed
        self._bars.update(task, total=done, completed=done)


@contextmanager
def bars() -> Iterator[Progress]:
    """Give a progress that shows bars on a terminal and nothing elsewhere, or lines if SHOAL_PROGRESS asks for them."""
    if os.environ.get("SHOAL_PROGRESS") == "lines":
        yield Lines()
        return
    console = err()
    if not console.is_terminal:
        yield Silent()
        return
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=console, transient=True) as shown:
        listener = _Compiling(shown)
        event.register("numba:compile", listener)
        try:
            yield Bars(shown)
        finally:
            event.unregister("numba:compile", listener)


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

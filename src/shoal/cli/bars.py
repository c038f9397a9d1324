"""Progress on standard error: bars for people at a terminal, lines of JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from numba.core import event
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from shoal.cli.console import err
from shoal.core.progress import Progress, Step

_SECONDS = 0.1  # least time between two lines of one step
_PATIENCE = 1.0  # seconds of compilation before the user is told
_FIRST_RUN = (
    "The first run compiles parts of shoal, which takes up to a minute; later runs do not. `shoal warm` does it ahead."
)


class _Compiling(event.TimingListener):  # type: ignore[misc]  # numba has no types
    """Explain once that kernels are being compiled, if that takes long."""

    def __init__(self, bars: RichProgress) -> None:
        super().__init__()
        self._bars = bars
        self._said = False

    def on_end(self, ended: object) -> None:
        super().on_end(ended)
        if not self._said and self.done and self.duration > _PATIENCE:
            self._said = True
            self._bars.console.print(_FIRST_RUN, style="dim")


@dataclass(slots=True)
class _Counter:
    """Sum up the progress of a step and pass the sum to a function."""

    show: Callable[[int], None]
    done: int = 0

    def advance(self, amount: int) -> None:
        self.done += amount
        self.show(self.done)


class Bars:
    """Progress as one bar per step."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Show one step until it is done."""
        task = self._bars.add_task(escape(title), total=total, unit=unit)
        counter = _Counter(lambda done: self._bars.update(task, completed=done))
        yield counter
        self._bars.update(task, total=counter.done, completed=counter.done)


class Lines:
    """Progress as lines of JSON: at the start and the end of each step, and at most ten a second between them."""

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Report one step until it is done."""
        written = 0.0

        def write(done: int, *, ended: bool = False) -> None:
            nonlocal written
            if ended or time.monotonic() - written >= _SECONDS:
                written = time.monotonic()
                line = {"step": title, "done": done, "total": total, "unit": unit, "ended": ended}
                sys.stderr.write(json.dumps(line) + "\n")
                sys.stderr.flush()

        counter = _Counter(write)
        write(0)
        yield counter
        write(counter.done, ended=True)


@contextmanager
def show_bars() -> Iterator[Progress]:
    """Show bars, and yield the progress that moves them."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=err(), transient=True) as shown:
        listener = _Compiling(shown)
        event.register("numba:compile", listener)
        try:
            yield Bars(shown)
        finally:
            event.unregister("numba:compile", listener)

"""Progress bars in a notebook: one output that is written anew at most ten times a second, and goes in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from shoal.core.display import register
from shoal.core.progress import Progress, Silent, Step
from shoal.reports.notebook.page import output
from shoal.reports.plots.svg import element, escaped

PAUSE = 0.1  # seconds between two writings
_MOST = 6  # steps that are shown, the last ones, beside those that still run


@dataclass(slots=True, eq=False)
class _Bar:
    """One step: what is done of it, and of how much."""

    title: str
    total: int | None
    unit: str
    bars: Bars
    done: int = 0
    ended: bool = False

    def advance(self, amount: int) -> None:
        """Say that *amount* more is done."""
        self.done += amount
        self.bars.show()

    def html(self) -> str:
        """Return the step as one line of a table."""
        total = self.done if self.ended else self.total
        bar = element(
            "progress",
            "…",
            value=None if total is None else str(self.done),
            max=None if total is None else str(max(total, 1)),
            aria_label=self.title,
        )
        if self.ended:
            told = f"{self.done:,} {self.unit}, done" if self.done else "done"
        else:
            told = f"{self.done:,} {self.unit}" if total is None else f"{self.done:,} of {total:,} {self.unit}"
        return f"<tr><td>{escaped(self.title)}</td><td>{bar}</td><td>{escaped(told)}</td></tr>"


@dataclass(slots=True, eq=False)
class Bars:
    """Shows the last steps of a run in one output."""

    _steps: list[_Bar] = field(default_factory=list)
    _handle: Any = None
    _written: float = float("-inf")

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Show one step; it counts as done only if nothing goes wrong."""
        bar = _Bar(title, total, unit, self)
        self._steps.append(bar)
        self.show()
        yield bar
        bar.ended = True
        self.show()

    def show(self, *, at_once: bool = False) -> None:
        """Write the steps, unless they were written just now."""
        now = time.monotonic()
        if at_once or now - self._written >= PAUSE:
            self._written = now
            running = [bar for bar in self._steps[:-_MOST] if not bar.ended]
            rows = "".join(bar.html() for bar in (*running, *self._steps[-_MOST:]))
            self._write(output(f"<table>{rows}</table>") if rows else "")

    def clear(self) -> None:
        """Take the output away."""
        if self._handle is not None:
            self._write("")

    def _write(self, html: str) -> None:
        screen: Any = import_module("IPython.display")  # has no types
        if self._handle is None:
            self._handle = screen.display(screen.HTML(html), display_id=True)
        else:
            self._handle.update(screen.HTML(html))


_running: list[Bars] = []  # at most one: a run within a run shows nothing of its own


@register("progress")
@contextmanager
def bars() -> Iterator[Progress]:
    """Give bars that go when the run has ended; if it fails, they stay and tell where."""
    if _running:
        yield Silent()
        return
    shown = Bars()
    _running.append(shown)
    try:
        yield shown
    except BaseException:
        shown.show(at_once=True)
        raise
    else:
        shown.clear()
    finally:
        _running.clear()

"""Progress of long steps, shown where somebody looks and silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from shoal.core.display import show


class Step(Protocol):
    """One running step of a known or unknown total."""

    def advance(self, amount: int) -> None:
        """Say that *amount* more rows or classes are done."""


class Progress(Protocol):
    """Something that shows steps; methods and engines call nothing else."""

    def step(self, title: str, total: int | None = None, unit: str = "rows") -> AbstractContextManager[Step]:
        """Open a step as a context manager."""


class _Nothing:
    def advance(self, amount: int) -> None:
        pass


class Silent:
    """Shows nothing.

    >>> with Silent().step("counting", total=10) as step:
    ...     step.advance(10)
    """

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:  # noqa: ARG002
        """Open a step that nobody sees."""
        yield _Nothing()


def shown(progress: Progress | None) -> AbstractContextManager[Progress]:
    """Give the progress of one run: the one that was asked for, else bars in a notebook, and silence elsewhere.

    >>> with shown(None) as progress:
    ...     type(progress).__name__
    'Silent'
    """
    if progress is not None:
        return nullcontext(progress)
    if not in_notebook():
        return nullcontext(Silent())
    bars: AbstractContextManager[Progress] = show("progress")
    return bars


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; nothing is loaded to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and hasattr(shell, "kernel")

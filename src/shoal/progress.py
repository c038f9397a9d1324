"""Progress of long steps, shown where somebody looks and silent elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


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

"""Progress of long steps, shown where somebody looks and silent elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Step(Protocol):
    """One running step of a known or unknown total."""

    def advance(self, amount: int) -> None:
        """Say that *amount* more rows or classes are done."""


class Progress(Protocol):
    """Something that shows steps; methods and engines call nothing else."""

    def step(self, title: str, total: int | None = None, unit: str = "rows") -> _StepContext:
        """Open a step as a context manager."""


class _StepContext(Protocol):
    def __enter__(self) -> Step: ...

    def __exit__(self, *exc: object) -> None: ...


class _Nothing:
    def advance(self, amount: int) -> None:
        pass


class Silent:
    """Shows nothing.

    >>> with Silent().step("counting", total=10) as step:
    ...     step.advance(10)
    """

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Open a step that nobody sees."""
        yield _Nothing()

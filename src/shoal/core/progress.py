"""Progress of long steps, and what a package above provides to show things: visible where somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, Protocol, TypeVar


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


def show_progress(progress: Progress | None) -> AbstractContextManager[Progress]:
    """Give the progress of one run: the one that was asked for, else bars in a notebook, and silence elsewhere.

    >>> with show_progress(None) as progress:
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


PROVIDERS = ("shoal.reports.notebook", "shoal.reports.internal")  # modules that register how things are shown

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
_shown_by: dict[str, Callable[..., Any]] = {}


def register(kind: str) -> Callable[[AnyFunction], AnyFunction]:
    """Declare that a function shows what is called *kind*.

    >>> @register("greeting")
    ... def greet(name):
    ...     return f"Hello, {name}"
    >>> show("greeting", "Ada")
    'Hello, Ada'
    """

    def keep(function: AnyFunction) -> AnyFunction:
        _shown_by[kind] = function
        return function

    return keep


def show(kind: str, *content: Any) -> Any:
    """Show something by the function that is registered for its *kind*; providers are imported when first needed."""
    if kind not in _shown_by:
        for module in PROVIDERS:
            import_module(module)
    return _shown_by[kind](*content)

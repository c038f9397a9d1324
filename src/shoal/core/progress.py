"""Progress of long steps, and functions by which the packages above display objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, Protocol, TypeVar


class Step(Protocol):
    """A running step, whose total may be unknown."""

    def advance(self, amount: int) -> None:
        """Report that *amount* more rows or classes are finished."""


class Progress(Protocol):
    """A display of steps: the interface that methods and engines use."""

    def step(self, title: str, total: int | None = None, unit: str = "rows") -> AbstractContextManager[Step]:
        """Return a context manager for a step."""


class _Nothing:
    def advance(self, amount: int) -> None:
        pass


class Silent:
    """A progress without display.

    >>> with Silent().step("counting", total=10) as step:
    ...     step.advance(10)
    """

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:  # noqa: ARG002
        yield _Nothing()


def show_progress(progress: Progress | None) -> AbstractContextManager[Progress]:
    """Return *progress* or a default: bars in a notebook, and no display elsewhere.

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
    """Whether this process is the kernel of a notebook, without importing anything."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and hasattr(shell, "kernel")


PROVIDERS = ("shoal.reports.notebook", "shoal.reports.internal")  # modules that register display functions

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
_shown_by: dict[str, Callable[..., Any]] = {}


def register(kind: str) -> Callable[[AnyFunction], AnyFunction]:
    """Register a function as the display of objects of this *kind*.

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
    """Display *content* by the function registered for *kind*, after importing the providers if necessary."""
    if kind not in _shown_by:
        for module in PROVIDERS:
            import_module(module)
    return _shown_by[kind](*content)

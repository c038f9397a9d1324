"""How objects show themselves: what they call here, a package above their own provides."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

PROVIDERS = ("shoal.reports.notebook", "shoal.reports.recorded")  # modules that register how things are shown

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

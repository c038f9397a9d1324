"""Finding models, methods, taxonomy builders and measures by walking their packages.

Adding one of them is one new file: a class with a ``name`` in the right package is found here, and the
policy, the command's help, the JSON Schema and the contract tests all learn of it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Hashable
from functools import cache
from typing import TypeVar, cast

from shoal.core.errors import PolicyError, did_you_mean

T = TypeVar("T")


@cache
def _walk(package: str, base: Hashable) -> dict[str, type[object]]:
    found: dict[str, type[object]] = {}
    home = importlib.import_module(package)
    for module_info in pkgutil.iter_modules(home.__path__, prefix=f"{package}."):
        module = importlib.import_module(module_info.name)
        for _, member in inspect.getmembers(module, inspect.isclass):
            own = member.__module__ == module.__name__
            if own and issubclass(member, cast("type[object]", base)) and not inspect.isabstract(member):
                found[member.name] = member  # type: ignore[attr-defined]
    return dict(sorted(found.items()))


def discover(package: str, base: type[T]) -> dict[str, type[T]]:
    """Return every concrete subclass of *base* in *package*, by its ``name``, sorted."""
    return cast("dict[str, type[T]]", _walk(package, cast("Hashable", base)))


def find(package: str, base: type[T], name: str, *, what: str) -> type[T]:
    """Return the class of that name, or raise an error that suggests the nearest known one."""
    known = discover(package, base)
    if name not in known:
        hint = did_you_mean(name, known)
        raise PolicyError(f"unknown {what} {name!r}{hint or '; known: ' + ', '.join(known)}")
    return known[name]

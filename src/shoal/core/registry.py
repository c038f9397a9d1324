"""Find models, methods, techniques, attacks, taxonomy builders and measures by their names.

Adding one of them is one new file: a class with a ``name`` in the right package is found here, and the policy, the
command's help, the JSON Schema and the contract tests all use it. Other distributions add classes by entry points,
which have the names of the classes:

    [project.entry-points."shoal.models"]
    my-model = "my_package.models:MyModel"

``GROUPS`` has the groups. A release that the verifier cannot check is not published. It finds the formula of a model in
the group ``shoal.promises``, the check of a technique in ``shoal.declared`` and the check of a form in
``shoal.verified-forms``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import warnings
from collections.abc import Hashable
from functools import cache
from types import ModuleType
from typing import TypeVar, cast

from shoal.core.errors import PolicyError, UsageError, did_you_mean

T = TypeVar("T")

GROUPS = {  # package -> its group of entry points
    "shoal.models": "shoal.models",
    "shoal.methods": "shoal.methods",
    "shoal.release.forms": "shoal.forms",
    "shoal.columns": "shoal.techniques",
    "shoal.attacks": "shoal.attacks",
}


def discover(package: str, base: type[T]) -> dict[str, type[T]]:
    """Return the concrete subclasses of *base* in *package* and behind its entry points, by their sorted ``name``.

    Broken entry points are skipped with a warning.
    """
    return cast("dict[str, type[T]]", _discover(package, cast("Hashable", base)))


def find(package: str, base: type[T], name: str, *, what: str) -> type[T]:
    """Return the class of that name, or raise an error that suggests the nearest name.

    The module with the corresponding name is searched first, which avoids loading the others.
    """
    found = _find_in_module(package, cast("Hashable", base), name)
    if found is None and name in (outside := _entry_points(package)):
        found = _load(outside[name], base)
    if found is None:
        known = discover(package, base)
        if name not in known:
            hint = did_you_mean(name, known)
            raise PolicyError(f"unknown {what} {name!r}{hint or '; known: ' + ', '.join(known)}")
        found = known[name]
    return cast("type[T]", found)


@cache
def _find_in_module(package: str, base: Hashable, name: str) -> type[object] | None:
    """Return the class of that name in the module with the corresponding name, or None."""
    module = name.replace("-", "_")
    home = importlib.import_module(package)
    if not module.isidentifier() or all(info.name != module for info in pkgutil.iter_modules(home.__path__)):
        return None
    return _classes_in(importlib.import_module(f"{package}.{module}"), base).get(name)


@cache
def _discover(package: str, base: Hashable) -> dict[str, type[object]]:
    found: dict[str, type[object]] = {}
    home = importlib.import_module(package)
    for info in pkgutil.iter_modules(home.__path__, prefix=f"{package}."):
        found |= _classes_in(importlib.import_module(info.name), base)
    for name, point in _entry_points(package).items():
        try:
            if name in found:
                raise UsageError(f"{_describe(point)} has a name that shoal uses itself")
            found[name] = _load(point, cast("type[object]", base))
        except UsageError as error:
            warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=3)
    return dict(sorted(found.items()))


def _classes_in(module: ModuleType, base: Hashable) -> dict[str, type[object]]:
    return {
        member.name: member  # type: ignore[attr-defined]
        for _, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and _is_one(member, cast("type[object]", base))
    }


@cache
def _entry_points(package: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points by which other distributions extend a package, by name."""
    group = GROUPS.get(package)
    return {} if group is None else {point.name: point for point in importlib.metadata.entry_points(group=group)}


def _load(point: importlib.metadata.EntryPoint, base: type[object]) -> type[object]:
    """Return the class behind an entry point, or raise an error."""
    try:
        found = point.load()
    except Exception as error:  # another package's code may raise anything
        raise UsageError(f"{_describe(point)} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (inspect.isclass(found) and _is_one(found, base)):
        raise UsageError(f"{_describe(point)} is not a {base.__name__}")
    if getattr(found, "name", None) != point.name:
        raise UsageError(f"{_describe(point)} leads to a class whose name is not {point.name!r}")
    return found


def _is_one(kind: type[object], base: type[object]) -> bool:
    return issubclass(kind, base) and not inspect.isabstract(kind)


def _describe(point: importlib.metadata.EntryPoint) -> str:
    owner = "" if point.dist is None else f" of {point.dist.name}"
    return f"the entry point {point.name!r} ({point.value}) in {point.group}{owner}"

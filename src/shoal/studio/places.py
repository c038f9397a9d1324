"""Where one can go in the studio: the steps of the navigation, found by walking the pages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from shoal.studio.project import Project


def _always(_: Project) -> str | None:
    return None


def usable(project: Project) -> str | None:
    """Return None if the policy can be used, else what to do first."""
    return "fix the policy first" if project.problems() else None


@dataclass(frozen=True, slots=True)
class Place:
    """One step of the navigation: *ready* says why it cannot be entered yet, or None if it can."""

    title: str
    path: str  # below /projects/{project}, e.g. "/columns"
    order: int
    ready: Callable[[Project], str | None] = _always


@cache
def page_modules() -> tuple[ModuleType, ...]:
    """Return the modules of the pages, sorted by name."""
    home = importlib.import_module("shoal.studio.pages")
    found = sorted(each.name for each in pkgutil.iter_modules(home.__path__, prefix=f"{home.__name__}."))
    return tuple(importlib.import_module(name) for name in found)


@cache
def places() -> tuple[Place, ...]:
    """Return the steps in their order."""
    found = [module.place for module in page_modules() if hasattr(module, "place")]
    return tuple(sorted(found, key=lambda place: place.order))

"""The public names: sorted, loadable, documented, and the only ones."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import shoal

PUBLIC = shoal.__all__


def test_names_are_sorted_and_distinct() -> None:
    assert sorted(set(PUBLIC)) == PUBLIC


def test_names_are_those_that_can_be_loaded_and_those_that_types_know() -> None:
    assert set(shoal._HOMES) == set(PUBLIC)
    tree = ast.parse(Path(shoal.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == shoal._HOMES


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_loads_and_is_documented(name: str) -> None:
    thing = getattr(shoal, name)
    assert inspect.isclass(thing) or inspect.isfunction(thing)
    assert inspect.getdoc(thing)
    assert thing.__module__.startswith("shoal")
    assert name in dir(shoal)


def test_star_gives_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from shoal import *", space)
    assert set(PUBLIC) <= set(space)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'anonymise'"):
        _ = shoal.anonymise  # type: ignore[attr-defined]


def test_the_version_is_a_version() -> None:
    assert [int(part) for part in shoal.__version__.split(".")[:2]] >= [0, 1]


@pytest.mark.parametrize(
    "package", [m.name for m in pkgutil.iter_modules(shoal.__path__, "shoal.") if m.ispkg and m.name != "shoal.cli"]
)
def test_packages_list_what_they_have(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert sorted(names) == list(names)
    assert all(hasattr(module, name) for name in names)

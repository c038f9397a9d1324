"""Sorting in kernels: right, and the only sorting that kernels do."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal.core.kernels import places_ascending
from shoal.methods.mondrian import kernels as mondrian

DECORATORS = {"compiled", "inlined", "kernel", "njit"}


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 31, 33, 100, 1000])
@pytest.mark.parametrize("span", [1, 3, 10**6])
def test_places_are_those_of_a_stable_sort(n: int, span: int) -> None:
    keys = np.random.default_rng(n + span).integers(-span, span, n)
    before = keys.copy()
    assert places_ascending(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    assert keys.tolist() == before.tolist()


def test_no_kernel_sorts_with_numpy() -> None:
    """Two of them that come from Numba's cache on disk may be taken for one another, which ends the process."""
    root = Path(shoal.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            if not any(ast.unparse(each).split("(")[0] in DECORATORS for each in node.decorator_list):
                continue
            calls = {ast.unparse(call.func).rpartition(".")[2] for call in ast.walk(node) if isinstance(call, ast.Call)}
            if calls & {"sort", "argsort", "sorted", "unique", "median", "partition"}:
                found.add(f"{path.relative_to(root)}:{node.name}")
    assert found == set()


def test_mondrian_sorts_children_in_place() -> None:
    for n in (0, 1, 2, 3, 7, 100):
        numbers = np.random.default_rng(n).permutation(n).astype(np.int32)
        mondrian._sort.py_func(numbers)  # type: ignore[attr-defined]
        assert numbers.tolist() == list(range(n))

"""Small compiled loops over arrays that several checks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from shoal.core.arrays import CodeArray, KeyArray
from shoal.core.kernels import compiled

_SHIFT = np.uint64(32)
Function = TypeVar("Function", bound=Callable[..., Any])


def inlined(function: Function) -> Function:
    """Compile a function into the kernels that call it."""
    return cast("Function", numba.njit(inline="always")(function))


def uncompiled(function: Function) -> Function:
    """Return the function that a kernel was made from: slow, but it can count with Python's integers."""
    return cast("Function", getattr(function, "py_func", function))


@compiled
def paired(first: CodeArray, second: CodeArray) -> KeyArray:
    """Return (n,) first << 32 | second."""
    out = np.empty(first.shape[0], dtype=np.uint64)
    for i in range(first.shape[0]):
        out[i] = (np.uint64(first[i]) << _SHIFT) | np.uint64(second[i])
    return out

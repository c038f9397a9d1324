"""Compiling loops over arrays: the only place where this package meets the compiler's untyped names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function once, keep it on disk, and let other threads run meanwhile."""
    return cast("Function", numba.njit(cache=True, nogil=True)(function))


def inlined(function: Function) -> Function:
    """Compile a function into the kernels that call it."""
    return cast("Function", numba.njit(inline="always")(function))

"""The decorator of compiled kernels: cached on disk, free of the GIL, and with its types kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function over plain arrays at its first call on this machine; later starts load it from disk."""
    return cast("F", njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """Compile a small function into its callers: a call would copy every array of a tuple that it is given."""
    return cast("F", njit(cache=True, nogil=True, forceinline=True)(function))

"""Memory that is free and that a process still holds."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa


def release_memory() -> None:
    """Give memory that is free back to the system: what Arrow keeps of it, and what the C library does, if it can."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)

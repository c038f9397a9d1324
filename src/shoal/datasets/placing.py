"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """Give a path to write to; it becomes *target* at the end, or vanishes on any exception."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        with suppress(OSError):  # it was moved, or never came to be
            partial.unlink()

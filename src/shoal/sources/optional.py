"""Packages that only some sources need."""

from __future__ import annotations

import importlib
from typing import Any

from shoal.core.errors import UsageError


def optional(module: str, use: str, extra: str) -> Any:
    """Return a module that an extra installs; without it, say what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0].replace("_", "-")
        raise UsageError(f"{use} needs the package {package}; install shoal[{extra}]") from None

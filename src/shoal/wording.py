"""Phrases that several pages and commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write parameters as people do; those without a value are left out.

    >>> parameters_text({"l": 4.0, "attribute": None, "distance": "equal"})
    'l = 4, distance = equal'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in parameters.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

"""Phrases that several pages and commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write parameters as people do; those without a value are left out.

    >>> parameters_text({"l": 4.0, "attribute": None, "distance": "equal"})
    'l = 4, distance = equal'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in parameters.items() if value is not None)


def model_text(guarantee: Mapping[str, Any]) -> str:
    """Write the model of a guarantee, and whom it counts if that is not records.

    >>> model_text({"model": "k-anonymity", "counts": "unit"})
    'k-anonymity (people, by unit)'
    """
    counted = f" (people, by {guarantee['counts']})" if guarantee.get("counts") else ""
    return f"{guarantee['model']}{counted}"


def counted_text(count: int, one: str, several: str = "") -> str:
    """Write a number of things.

    >>> counted_text(1, "record"), counted_text(2000, "record"), counted_text(2, "class", "classes")
    ('1 record', '2,000 records', '2 classes')
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def size_text(n_bytes: int) -> str:
    """Write a number of bytes.

    >>> size_text(2 << 30), size_text(314572800)
    ('2 GiB', '300 MiB')
    """
    return f"{n_bytes / (1 << 30):.3g} GiB" if n_bytes >= 1 << 30 else f"{n_bytes / (1 << 20):.0f} MiB"


def listed(names: Sequence[str]) -> str:
    """Write names as people do.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def attack_text(entry: Mapping[str, Any]) -> str:
    """Return how an attack, as ``Trials`` or ``Refusal`` writes it, is called: with the column that it finds out.

    >>> attack_text({"name": "inference", "about": "income"}), attack_text({"name": "membership"})
    ('inference: income', 'membership')
    """
    return str(entry["name"]) if entry.get("about") is None else f"{entry['name']}: {entry['about']}"

"""Privacy models in plain words: what each promises, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.studio.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Explanation:
    """A model for people who have never heard of it."""

    name: str
    promise: str
    open: str  # what it does not protect against
    example: str  # what a usual choice means


_SIMPLEST = (
    "k-anonymity",
    "column-frequency",
    "k-map",
    "delta-presence",
    "distinct-l-diversity",
    "simple-l-diversity",
    "entropy-l-diversity",
    "recursive-cl-diversity",
    "tau-l-diversity",
    "t-closeness",
)  # then all others


def explanations() -> tuple[Explanation, ...]:
    """Return every model that a policy may name, those that are simplest to explain first."""
    known = discover("shoal.models", PrivacyModel)
    order = [*(name for name in _SIMPLEST if name in known), *(name for name in known if name not in _SIMPLEST)]
    return tuple(_explain(known[name]) for name in order)


def _explain(kind: type[PrivacyModel]) -> Explanation:
    explanation = kind.explanation or f"{kind.title[:1].upper()}{kind.title[1:]}."
    return Explanation(kind.name, explanation, kind.weaknesses, kind.example)


def start_of(kind: type[PrivacyModel | Method], fields: Iterable[Parameter]) -> dict[str, Any]:
    """Return parameters for a model or method that was just chosen: what must be given, with a usual value."""
    return {field.name: kind.usual.get(field.name, field.least or 1) for field in fields if field.required}

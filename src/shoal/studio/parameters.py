"""Form fields of models and methods, from where their parameters are declared, and models in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shoal.core.documents import load_with_lines
from shoal.core.errors import PolicyError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.policy.drafting import flow

Shape = Literal["whole", "number", "truth", "choice", "text", "words", "attribute", "population", "yaml"]
_LEAST, _MOST = ("ge", "gt"), ("le", "lt")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter as a field of a form."""

    name: str
    shape: Shape
    hint: str
    required: bool
    default: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    @property
    def example(self) -> str:
        """How a value that is no single number or word is written."""
        return {"words": "separated by commas", "yaml": "written as in YAML, e.g. [1, 2]"}.get(self.shape, "")


def list_parameters(kind: type[BaseModel]) -> tuple[Parameter, ...]:
    """Return the fields of a model or method, those that must be given first.

    >>> from shoal.models.k_anonymity import KAnonymity
    >>> [(field.name, field.shape, field.least, field.required) for field in list_parameters(KAnonymity)]
    [('k', 'whole', 1, True)]
    """
    found = [_parameter(name, field) for name, field in kind.model_fields.items()]
    return tuple(sorted(found, key=lambda field: not field.required))


def _parameter(name: str, field: FieldInfo) -> Parameter:
    required = field.is_required()
    default = "" if required or field.default is None else field.default
    shape, choices = _shape(name, field.annotation)
    return Parameter(
        name,
        shape,
        field.description or "",
        required,
        "" if default == () else _format(shape, default),
        choices,
        _limit(field, _LEAST),
        _limit(field, _MOST),
    )


def _shape(name: str, annotation: Any) -> tuple[Shape, tuple[str, ...]]:
    """Return how a parameter is typed in, by its type."""
    if name in ("attribute", "population"):
        return ("attribute" if name == "attribute" else "population"), ()
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] or [annotation]
    simple: dict[Any, Shape] = {bool: "truth", int: "whole", float: "number", str: "text"}
    if len(kinds) == 1 and kinds[0] in simple:
        return simple[kinds[0]], ()
    return ("words" if annotation == tuple[str, ...] else "yaml"), ()


def _limit(field: FieldInfo, names: tuple[str, ...]) -> float | None:
    found = (getattr(limit, name) for limit in field.metadata for name in names if hasattr(limit, name))
    return next(found, None)


def show_values(fields: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each field for parameters as a policy has them; a box that is not named is as by default."""
    boxes = {field.name: field.default for field in fields if field.shape == "truth"}
    return boxes | {field.name: _format(field.shape, given[field.name]) for field in fields if field.name in given}


def _format(shape: Shape, value: Any) -> str:
    if value is None or value == "":
        return ""
    if shape == "truth":
        return "true" if value else "false"
    if shape == "words" and isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if shape == "yaml":
        return flow(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def read_values(fields: tuple[Parameter, ...], form: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the parameters that a form gives; empty fields are left to their defaults.

    Limits are not judged here: the policy does that when it is loaded. What is not even of the right shape is kept as
    it was typed, so that the policy's message tells it.
    """
    found: dict[str, Any] = {}
    for field in fields:
        texts = [text for text in form.get(field.name, ()) if text.strip()]
        if field.shape == "truth":
            value: Any = "true" in texts
        elif not texts:
            continue
        elif field.shape == "attribute":
            value = texts[0] if len(texts) == 1 else texts
        else:
            value = _value(field, texts[-1].strip())
        if field.required or _format(field.shape, value) != field.default:
            found[field.name] = value
    return found


def _value(field: Parameter, text: str) -> Any:
    match field.shape:
        case "whole" | "number":
            return _number(text)
        case "words":
            return [word for part in text.split(",") if (word := part.strip())]
        case "yaml":
            try:
                return load_with_lines(text, field.name)[0]
            except PolicyError:
                raise PolicyError(f"{field.name}: this is no YAML; write a list like [1, 2]") from None
        case _:
            return text


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


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


def explain_models() -> tuple[Explanation, ...]:
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

"""Sweeps and methods as they are typed: which parameters take which values, and which methods are tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from shoal.core.errors import PolicyError, ShoalError, UsageError
from shoal.core.registry import find
from shoal.core.yaml_lines import load_with_lines
from shoal.methods.base import Method
from shoal.policy.reading import sentence

_FORM = "write it as k-anonymity.k=2,5,10, method.parameter=... or max_withheld=0,0.05"
AnySweep: TypeAlias = str | Sequence[str] | Mapping[str, Sequence[Any]]
AnyMethods: TypeAlias = str | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter of a privacy model, of a method or, without an owner, of the policy; and the values it takes."""

    owner: str | None
    parameter: str
    values: tuple[Any, ...]

    @property
    def path(self) -> str:
        """How it is named: ``k-anonymity.k``."""
        return self.parameter if self.owner is None else f"{self.owner}.{self.parameter}"

    def changed(self, document: Mapping[str, Any], value: Any) -> dict[str, Any] | None:
        """Return what the policy says anew, whole keys of its document; None if it has nothing of that name."""
        if self.owner is None:
            return {self.parameter: value}
        new = {self.parameter: value}
        method, options = method_of(document)
        if self.owner == method:
            return {"method": {method: {**options, **new}}}
        models = models_of(document)
        if self.owner not in [name for name, _ in models]:
            return None
        return {"privacy": [{name: {**given, **new} if name == self.owner else given} for name, given in models]}


def read_sweep(sweep: AnySweep | None) -> list[Axis]:
    """Read sweeps as they are typed, or as a mapping from names to values.

    >>> read_sweep("k-anonymity.k=2,5")
    [Axis(owner='k-anonymity', parameter='k', values=(2, 5))]
    """
    if sweep is None:
        return []
    if isinstance(sweep, Mapping):
        axes = [_axis(str(name), values) for name, values in sweep.items()]
    else:
        axes = [_typed(text) for text in ([sweep] if isinstance(sweep, str) else sweep)]
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"the sweep over {path} is given twice; give all of its values at once")
    return axes


def read_methods(methods: AnyMethods | None) -> list[dict[str, Any]]:
    """Read methods as they are typed, ``mondrian,incognito{measure: um}``, or as a list; check their parameters.

    >>> read_methods("mondrian, incognito{measure: um}")
    [{'mondrian': {}}, {'incognito': {'measure': 'um'}}]
    """
    if methods is None:
        return []
    given: list[Any] = [methods] if isinstance(methods, str | Mapping) else list(methods)
    found = []
    for each in given:
        found += list(_flow_methods(each)) if isinstance(each, str) else [_one_method(each)]
    if not found:
        raise UsageError("name a method at least")
    return [each for place, each in enumerate(found) if each not in found[:place]]


def method_of(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the method of a policy's document, and its parameters."""
    return _named(document.get("method", "mondrian"))


def models_of(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the models of a policy's document, and their parameters."""
    given = document["privacy"]
    return [_named(each) for each in ([{k: v} for k, v in given.items()] if isinstance(given, Mapping) else given)]


def _named(given: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    ((name, options),) = given.items()
    return str(name), options or {}


def parameters_named(kind: Any) -> list[str]:
    """Return the parameters that a model or a method declares, as policies write them."""
    return [entry.alias or name for name, entry in kind.model_fields.items()]


def _typed(text: str) -> Axis:
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"the sweep {text!r} names no parameter and its values; {_FORM}")
    return _axis(name.strip(), _flow(f"[{values}]", f"the sweep over {name.strip()}"))


def _axis(name: str, values: Any) -> Axis:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise UsageError(f"the sweep over {name} has no list of values; {_FORM}")
    owner, dot, parameter = name.rpartition(".")
    distinct = [value for place, value in enumerate(values) if not _among(value, values[:place])]
    return Axis(owner if dot else None, parameter, tuple(distinct))


def _among(value: Any, others: Sequence[Any]) -> bool:
    return any(type(value) is type(other) and value == other for other in others)


def _flow(text: str, where: str) -> Any:
    try:
        return load_with_lines(text, where)[0]
    except ShoalError as error:
        raise UsageError(f"{error}; {_FORM}") from None


def _flow_methods(text: str) -> Iterator[dict[str, Any]]:
    """Cut a text at the commas outside of brackets; each part is a name, maybe with parameters in braces."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    for part in filter(None, map(str.strip, parts)):
        name, brace, inner = part.partition("{")
        if not brace:
            yield _one_method({part: {}})
        elif not name:
            yield _one_method(_flow_mapping(part))
        else:
            yield _one_method({name.strip(): _flow_mapping(brace + inner)})


def _flow_mapping(text: str) -> Any:
    try:
        return load_with_lines(text, "methods")[0]
    except ShoalError as error:
        raise UsageError(f"{error}; write methods as mondrian,incognito{{measure: um}}") from None


def _one_method(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a method's name and its parameters."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise UsageError("a method is one name with its parameters; write mondrian,incognito{measure: um}")
    ((name, options),) = given.items()
    try:
        kind = find("shoal.methods", Method, str(name), what="method")
        kind.model_validate(options or {})
    except PolicyError as error:
        raise UsageError(str(error)) from None
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, (name, *problem["loc"])))
        raise UsageError(f"{place}: {sentence(dict(problem), parameters_named(kind))}") from None
    return {str(name): dict(options or {})}

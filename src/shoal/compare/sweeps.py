"""Sweeps over parameters and methods: how they are typed, and the policies, a row each, that come of them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from shoal.compare.result import Asked, Row
from shoal.core.documents import load_with_lines
from shoal.core.errors import PolicyError, ShoalError, UsageError, did_you_mean
from shoal.core.registry import find
from shoal.core.wording import parameters_text
from shoal.methods.base import Method
from shoal.policy.policy import Policy
from shoal.policy.reading import sentence

_FORM = "write it as k-anonymity.k=2,5,10, method.parameter=... or max_withheld=0,0.05"
_METHODS = "write methods as mondrian,incognito{measure: um}"
_NAMED = re.compile(r"([\w-]+)\s*\{")
MOST_ROWS = 100
OF_TABLE = ("max_withheld", "missing")  # what a policy says of the whole table and a sweep may change
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

    def change(self, document: Mapping[str, Any], value: Any) -> dict[str, object] | None:
        """Return what the policy says anew, whole keys of its document; None if it has nothing of that name."""
        if self.owner is None:
            return {self.parameter: value}
        new = {self.parameter: value}
        method, options = method_of(document)
        if self.owner == method:
            return {"method": {method: {**options, **new}}}
        given = document["privacy"]
        each = [{name: options} for name, options in given.items()] if isinstance(given, Mapping) else given
        models = list(map(_name_and_options, each))
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
        axes = [_make_axis(str(name), values) for name, values in sweep.items()]
    else:
        axes = [_read_axis(text) for text in ([sweep] if isinstance(sweep, str) else sweep)]
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"the sweep over {path} is given twice; give all of its values at once")
    return axes


def read_methods(methods: AnyMethods | None) -> list[dict[str, object]]:
    """Read methods as they are typed, ``mondrian,incognito{measure: um}``, or as a list; check their parameters.

    >>> read_methods("mondrian, incognito{measure: um}")
    [{'mondrian': {}}, {'incognito': {'measure': 'um'}}]
    """
    if methods is None:
        return []
    given: list[Any] = [methods] if isinstance(methods, str | Mapping) else list(methods)
    found = []
    for each in given:
        found += _split_methods(each) if isinstance(each, str) else [_check_method(each)]
    if not found:
        raise UsageError("name a method at least")
    return [each for place, each in enumerate(found) if each not in found[:place]]


def method_of(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the method of a policy's document, and its parameters."""
    return _name_and_options(document.get("method", "mondrian"))


def _name_and_options(given: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    ((name, options),) = given.items()
    return str(name), options or {}


def parameters_named(kind: Any) -> list[str]:
    """Return the parameters that a model or a method declares, as policies write them."""
    return [entry.alias or name for name, entry in kind.model_fields.items()]


def _read_axis(text: str) -> Axis:
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"the sweep {text!r} names no parameter and its values; {_FORM}")
    return _make_axis(name.strip(), _read_yaml(f"[{values}]", f"the sweep over {name.strip()}", _FORM))


def _make_axis(name: str, values: Any) -> Axis:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise UsageError(f"the sweep over {name} has no list of values; {_FORM}")
    owner, dot, parameter = name.rpartition(".")
    distinct = {(type(value), repr(value)): value for value in values}  # 1 is not True
    return Axis(owner if dot else None, parameter, tuple(distinct.values()))


def _read_yaml(text: str, where: str, hint: str) -> Any:
    try:
        return load_with_lines(text, where)[0]
    except ShoalError as error:
        raise UsageError(f"{error}; {hint}") from None


def _split_methods(text: str) -> list[dict[str, object]]:
    """Read names with commas, maybe with parameters in braces: a list of YAML, once a colon is before the brace."""
    written = _NAMED.sub(r"\1: {", text)
    given = _read_yaml(f"[{written}]", "methods", _METHODS)
    return [_check_method({each: {}} if isinstance(each, str) else each) for each in given]


def _check_method(given: Mapping[str, Any]) -> dict[str, object]:
    """Check a method's name and its parameters."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise UsageError(f"a method is one name with its parameters; {_METHODS}")
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


def list_rows(
    names: Sequence[str], policies: Sequence[Policy], axes: Sequence[Axis], methods: Sequence[Mapping[str, Any]]
) -> list[Asked]:
    """Return a row for every policy, method and combination of values; parameters are checked here, none is run.

    A sweep changes the policies that have what it names. A policy that cannot have a method is a row with the reason.
    """
    _check_names(axes, policies, methods)
    n_rows = math.prod([len(policies), max(1, len(methods)), *(len(axis.values) for axis in axes)])
    if n_rows > MOST_ROWS:
        raise UsageError(
            f"that would be up to {n_rows:,} releases; at most {MOST_ROWS} are compared at once: take fewer values"
        )
    alone = len(policies) == 1 and bool(axes or methods)
    asked: list[Asked] = []
    for name, policy in zip(names, policies, strict=True):
        asked += _of_policy(name, alone, policy, axes, methods)
    return _name_uniquely(asked)


def _of_policy(
    name: str, alone: bool, policy: Policy, axes: Sequence[Axis], methods: Sequence[Mapping[str, Any]]
) -> Iterator[Asked]:
    """Yield the rows of one policy: of its own method, or of each that is named."""
    if not methods:
        first = method_of(policy.document)[0] if alone else name
        yield from _of_method(Row(first, "", "", policy=name), policy, axes)
    for given in methods:
        ((method, options),) = given.items()
        written = " ".join([method, *(f"{key}={_text(value)}" for key, value in options.items())])
        row = Row(
            written if alone else f"{name}, {written}",
            f"method {method}",
            written,
            policy=name,
            changes={"method": dict(given)},
            settings={"method": method},
        )
        try:
            Policy.load({**policy.document, **row.changes}, policy.folder)
        except PolicyError as error:
            yield Asked(replace(row, reason=_plain(error)))
        else:
            yield from _of_method(row, policy, axes)


def _of_method(start: Row, policy: Policy, axes: Sequence[Axis]) -> Iterator[Asked]:
    """Yield a row for every combination of values that applies to a policy, each once."""
    found: list[Mapping[str, Any]] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        changes, settings = dict(start.changes), dict(start.settings)
        for axis, value in zip(axes, values, strict=True):
            new = axis.change({**policy.document, **changes}, value)
            if new is not None:
                changes |= new
                settings[axis.path] = value
        if settings in found:
            continue
        found.append(settings)
        swept = _settings_text(settings, axes)
        try:
            loaded = Policy.load({**policy.document, **changes}, policy.folder) if changes else policy
        except PolicyError as error:
            raise PolicyError(f"{swept}: {_plain(error)}") from None
        row = replace(
            start,
            name=f"{start.name}, {swept}" if swept else start.name,
            title=f"method {loaded.method.name}",
            parameters=parameters_of(loaded),
            changes=changes,
            settings=settings,
        )
        yield Asked(row, loaded)


def parameters_of(policy: Policy) -> str:
    """Write the method and the models of a policy with what it says of them."""
    parts = []
    for name, part in ((policy.method.name, policy.method), *((model.name, model) for model in policy.privacy)):
        given = part.model_dump(mode="json", exclude_unset=True)
        written = parameters_text({key: value for key, value in given.items() if value != []})
        parts.append(" ".join(filter(None, [name, written])))
    return "; ".join([*parts, *([f"max_withheld = {policy.max_withheld:g}"] if policy.max_withheld else [])])


def _check_names(axes: Sequence[Axis], policies: Sequence[Policy], methods: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a sweep over what no row has, before anything is loaded."""
    kinds: dict[str, object] = {}
    for policy in policies:
        kinds |= {model.name: type(model) for model in policy.privacy}
        if not methods:
            kinds[policy.method.name] = type(policy.method)
    kinds |= {name: find("shoal.methods", Method, name, what="method") for each in methods for name in each}
    known = [f"{name}.{alias}" for name, kind in kinds.items() for alias in parameters_named(kind)]
    for axis in axes:
        if axis.path in known or (axis.owner is None and axis.parameter in OF_TABLE):
            continue
        if axis.owner is not None and axis.owner not in kinds:
            hint = did_you_mean(axis.owner, kinds) or f"; there are {', '.join(kinds)}"
            raise UsageError(f"cannot sweep over {axis.path}: no policy or method here has {axis.owner!r}{hint}")
        ending = [path for path in known if path.endswith(f".{axis.parameter}")] if axis.owner is None else []
        hint = f"; did you mean {ending[0]!r}?" if ending else did_you_mean(axis.path, [*known, *OF_TABLE])
        raise UsageError(f"cannot sweep over {axis.path}{hint or '; there are ' + ', '.join([*known, *OF_TABLE])}")


def _settings_text(settings: Mapping[str, Any], axes: Sequence[Axis]) -> str:
    """Write ``k=5``, or the whole name where another parameter ends alike."""
    ends = [axis.parameter for axis in axes]
    names = {axis.path: axis.parameter if ends.count(axis.parameter) == 1 else axis.path for axis in axes}
    return ", ".join(f"{names[path]}={_text(value)}" for path, value in settings.items() if path in names)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "").replace("'", "")


def _plain(error: PolicyError) -> str:
    return str(error).removeprefix("policy, ")


def _name_uniquely(asked: Sequence[Asked]) -> list[Asked]:
    """Add a number to a name that another row has already."""
    found: dict[str, Asked] = {}
    for row, policy in asked:
        count, name = 1, row.name
        while name in found:
            count, name = count + 1, f"{row.name} ({count + 1})"
        found[name] = Asked(replace(row, name=name), policy)
    return list(found.values())


def policy_names(given: Sequence[object]) -> list[str]:
    """Name policies by their files, with folders only where that takes, and by number if they have none."""
    files = [Path(policy) if isinstance(policy, str | Path) else None for policy in given]
    names = [None if file is None else file.name for file in files]
    return [
        f"policy {number}" if file is None else file.name if names.count(file.name) == 1 else str(file)
        for number, file in enumerate(files, start=1)
    ]

"""Sweeps over parameters and methods: reading them, and listing the resulting policies, one per row."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from shoal.compare.result import Candidate, Row
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
OF_TABLE = ("max_withheld", "missing")  # keys of the whole policy that a sweep may change
AnySweep: TypeAlias = str | Sequence[str] | Mapping[str, Sequence[Any]]
AnyMethods: TypeAlias = str | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter of a privacy model, of a method or (without an owner) of the policy, and the values to try."""

    owner: str | None
    parameter: str
    values: tuple[Any, ...]

    @property
    def path(self) -> str:
        return self.parameter if self.owner is None else f"{self.owner}.{self.parameter}"

    def change(self, document: Mapping[str, Any], value: Any) -> dict[str, object] | None:
        """Return the entries of the policy's document that this value replaces; None if the document lacks the
        parameter.
        """
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
    """Read sweeps from text, or from a mapping of names to values.

    >>> read_sweep("k-anonymity.k=2,5")
    [Axis(owner='k-anonymity', parameter='k', values=(2, 5))]
    """
    if sweep is None:
        return []
    if isinstance(sweep, Mapping):
        axes = [_make_axis(str(name), values) for name, values in sweep.items()]
    else:
        axes = []
        for text in [sweep] if isinstance(sweep, str) else sweep:
            name, equals, values = map(str.strip, text.partition("="))
            if not equals or not name:
                raise UsageError(f"the sweep {text!r} names no parameter and its values; {_FORM}")
            axes.append(_make_axis(name, _read_yaml(f"[{values}]", f"the sweep over {name}", _FORM)))
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"the sweep over {path} is given twice; list all of its values in one sweep")
    return axes


def read_methods(methods: AnyMethods | None) -> list[dict[str, object]]:
    """Read methods from text, ``mondrian,incognito{measure: um}``, or from a list; check their parameters.

    >>> read_methods("mondrian, incognito{measure: um}")
    [{'mondrian': {}}, {'incognito': {'measure': 'um'}}]
    """
    if methods is None:
        return []
    given: list[Any] = [methods] if isinstance(methods, str | Mapping) else list(methods)
    found = []
    for each in given:
        if isinstance(each, str):  # with a colon before each brace it is a list in YAML
            written = _NAMED.sub(r"\1: {", each)
            listed = _read_yaml(f"[{written}]", "methods", _METHODS)
            found += [_check_method({one: {}} if isinstance(one, str) else one) for one in listed]
        else:
            found.append(_check_method(each))
    if not found:
        raise UsageError("name at least one method")
    return [each for place, each in enumerate(found) if each not in found[:place]]


def method_of(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return _name_and_options(document.get("method", "mondrian"))


def _name_and_options(given: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    ((name, options),) = given.items()
    return str(name), options or {}


def parameters_named(kind: Any) -> list[str]:
    """Return the parameters that a model or a method declares, by the names that policies use."""
    return [entry.alias or name for name, entry in kind.model_fields.items()]


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


def _check_method(given: Mapping[str, Any]) -> dict[str, object]:
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
) -> list[Candidate]:
    """Return a row for every policy, method and combination of values, after checking all parameters.

    A sweep changes only the policies that have its parameter. If a policy cannot have a method, its row has the reason.
    """
    _check_names(axes, policies, methods)
    n_rows = math.prod([len(policies), max(1, len(methods)), *(len(axis.values) for axis in axes)])
    if n_rows > MOST_ROWS:
        raise UsageError(
            f"that makes up to {n_rows:,} releases, but at most {MOST_ROWS} can be compared; use fewer values"
        )
    alone = len(policies) == 1 and bool(axes or methods)
    found: dict[str, Candidate] = {}
    for name, policy in zip(names, policies, strict=True):
        for row, loaded in _list_methods(name, alone, policy, axes, methods):
            count, unique = 1, row.name
            while unique in found:
                count, unique = count + 1, f"{row.name} ({count + 1})"
            found[unique] = Candidate(replace(row, name=unique), loaded)
    return list(found.values())


def _list_methods(
    name: str, alone: bool, policy: Policy, axes: Sequence[Axis], methods: Sequence[Mapping[str, Any]]
) -> Iterator[Candidate]:
    """Yield the rows of one policy, with its own method or with each of *methods*."""
    if not methods:
        first = method_of(policy.document)[0] if alone else name
        yield from _list_values(Row(first, "", "", policy=name), policy, axes)
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
            yield Candidate(replace(row, reason=_plain(error)))
        else:
            yield from _list_values(row, policy, axes)


def _list_values(start: Row, policy: Policy, axes: Sequence[Axis]) -> Iterator[Candidate]:
    """Yield a row for every distinct combination of values that applies to a policy."""
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
        yield Candidate(row, loaded)


def parameters_of(policy: Policy) -> str:
    parts = []
    for name, part in ((policy.method.name, policy.method), *((model.name, model) for model in policy.privacy)):
        given = part.model_dump(mode="json", exclude_unset=True)
        written = parameters_text({key: value for key, value in given.items() if value != []})
        parts.append(" ".join(filter(None, [name, written])))
    return "; ".join([*parts, *([f"max_withheld = {policy.max_withheld:g}"] if policy.max_withheld else [])])


def _check_names(axes: Sequence[Axis], policies: Sequence[Policy], methods: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a sweep over a parameter that no row has, before anything is loaded."""
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
    """Write settings as ``k=5``, with the full name if two parameters end alike."""
    ends = [axis.parameter for axis in axes]
    names = {axis.path: axis.parameter if ends.count(axis.parameter) == 1 else axis.path for axis in axes}
    return ", ".join(f"{names[path]}={_text(value)}" for path, value in settings.items() if path in names)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "").replace("'", "")


def _plain(error: PolicyError) -> str:
    return str(error).removeprefix("policy, ")


def policy_names(given: Sequence[object]) -> list[str]:
    """Name policies by their files, with folders if names repeat, and by number if they have no file."""
    files = [Path(policy) if isinstance(policy, str | Path) else None for policy in given]
    names = [None if file is None else file.name for file in files]
    return [
        f"policy {number}" if file is None else file.name if names.count(file.name) == 1 else str(file)
        for number, file in enumerate(files, start=1)
    ]

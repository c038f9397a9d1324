"""Policies that differ from a given one in a parameter or in the method: a row of a comparison each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.compare.axes import Axis, method_of, parameters_named
from shoal.compare.result import Row
from shoal.compare.trying import Asked
from shoal.core.errors import PolicyError, UsageError, did_you_mean
from shoal.core.registry import find
from shoal.core.wording import parameters_text
from shoal.methods.base import Method
from shoal.policy.policy import Policy

MOST_ROWS = 100
OF_TABLE = ("max_withheld", "missing")  # what a policy says of the whole table and a sweep may change


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy's changes, whole keys of its document, and what of them is told: parameter by parameter."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def asked_rows(
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
    return _uniquely_named(asked)


def _of_policy(
    name: str, alone: bool, policy: Policy, axes: Sequence[Axis], methods: Sequence[Mapping[str, Any]]
) -> Iterator[Asked]:
    """Yield the rows of one policy: of its own method, or of each that is named."""
    if not methods:
        first = method_of(policy.document)[0] if alone else name
        yield from _of_method(name, first, policy, Variant(), axes)
    for given in methods:
        ((method, options),) = given.items()
        told = " ".join([method, *(f"{key}={_text(value)}" for key, value in options.items())])
        first = told if alone else f"{name}, {told}"
        start = Variant({"method": dict(given)}, {"method": method})
        try:
            Policy.load({**policy.document, **start.changes}, policy.folder)
        except PolicyError as error:
            row = Row(first, f"method {method}", told, policy=name, changes=start.changes, settings=start.settings)
            yield Asked(row.without(_plain(error)))
            continue
        yield from _of_method(name, first, policy, start, axes)


def _of_method(name: str, first: str, policy: Policy, start: Variant, axes: Sequence[Axis]) -> Iterator[Asked]:
    for variant in _variants(policy.document, start, axes):
        swept = _settings_text(variant.settings, axes)
        try:
            changed = {**policy.document, **variant.changes}
            loaded = Policy.load(changed, policy.folder) if variant.changes else policy
        except PolicyError as error:
            raise PolicyError(f"{swept}: {_plain(error)}") from None
        row = Row(
            f"{first}, {swept}" if swept else first,
            f"method {loaded.method.name}",
            parameters_of(loaded),
            policy=name,
            changes=variant.changes,
            settings=variant.settings,
        )
        yield Asked(row, loaded)


def _variants(document: Mapping[str, Any], start: Variant, axes: Sequence[Axis]) -> list[Variant]:
    """Return every combination of values that applies to a policy, each once."""
    found: list[Variant] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        changes, settings = dict(start.changes), dict(start.settings)
        for axis, value in zip(axes, values, strict=True):
            new = axis.changed({**document, **changes}, value)
            if new is not None:
                changes |= new
                settings[axis.path] = value
        variant = Variant(changes, settings)
        if variant not in found:
            found.append(variant)
    return found


def parameters_of(policy: Policy) -> str:
    """Write the method and the models of a policy with what it says of them."""
    told = [" ".join(filter(None, [policy.method.name, parameters_text(_given(policy.method))]))]
    told += [" ".join(filter(None, [model.name, parameters_text(_given(model))])) for model in policy.privacy]
    if policy.max_withheld:
        told.append(f"max_withheld = {policy.max_withheld:g}")
    return "; ".join(told)


def _given(part: Any) -> dict[str, Any]:
    return {key: value for key, value in part.model_dump(mode="json", exclude_unset=True).items() if value != []}


def _check_names(axes: Sequence[Axis], policies: Sequence[Policy], methods: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a sweep over what no row has, before anything is loaded."""
    kinds: dict[str, Any] = {}
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
    told = {axis.path: axis.parameter if ends.count(axis.parameter) == 1 else axis.path for axis in axes}
    return ", ".join(f"{told[path]}={_text(value)}" for path, value in settings.items() if path in told)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "").replace("'", "")


def _plain(error: PolicyError) -> str:
    return str(error).removeprefix("policy, ")


def _uniquely_named(asked: Sequence[Asked]) -> list[Asked]:
    """Add a number to a name that another row has already."""
    found: list[Asked] = []
    for each in asked:
        count, name = 1, each.row.name
        while name in {other.row.name for other in found}:
            count, name = count + 1, f"{each.row.name} ({count + 1})"
        found.append(Asked(each.row.named(name), each.policy))
    return found


def policy_names(given: Sequence[object]) -> list[str]:
    """Name policies by their files, with folders only where that takes, and by number if they have none."""
    files = [Path(policy).name for policy in given if isinstance(policy, str | Path)]
    names = []
    for number, policy in enumerate(given, start=1):
        name = f"policy {number}"
        if isinstance(policy, str | Path):
            name = Path(policy).name if files.count(Path(policy).name) == 1 else str(policy)
        names.append(name)
    return names

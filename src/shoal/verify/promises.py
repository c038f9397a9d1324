"""The models a manifest may promise, and which parameters of them make sense.

Declared here a second time on purpose: the verifier shares no code with the models it checks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee of the manifest; ``obstacle`` says why it cannot be checked at all."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    subjects: tuple[tuple[str, ...], ...] = ()  # sensitive attributes; several in one = their joint values
    obstacle: str | None = None
    counts: str | None = None  # the people that it is about: a unit or a household; None: records

    def fraction(self, name: str) -> Fraction:
        """Return a parameter as the decimal number that is written in the manifest."""
        return Fraction(str(self.parameters[name]))

    def whole(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self.parameters[name])


Rule = Callable[[Any], bool]
_LARGEST = sys.float_info.max


def _number(raw: Any) -> bool:
    return not isinstance(raw, bool) and isinstance(raw, int | float) and -_LARGEST <= raw <= _LARGEST


def _whole_from(least: int) -> Rule:
    def holds(raw: Any) -> bool:
        return not isinstance(raw, bool) and isinstance(raw, int) and raw >= least

    return holds


def _between(low: float, high: float, *, above: bool = False) -> Rule:
    def holds(raw: Any) -> bool:
        return _number(raw) and (low < raw if above else low <= raw) and raw <= high

    return holds


def _name(raw: Any) -> bool:
    return isinstance(raw, str) and bool(raw)


def _psi(raw: Any) -> bool:
    if raw is None:
        return True
    numbers = isinstance(raw, list | tuple) and len(raw) >= 2 and all(_number(item) for item in raw)
    return numbers and list(raw) == sorted(raw) and raw[0] > 0 and raw[-1] == 1


def _names(raw: Any) -> bool:
    return isinstance(raw, list | tuple) and all(isinstance(item, str) for item in raw)


def _text_or_nothing(raw: Any) -> bool:
    return raw is None or _name(raw)


def _weights(raw: Any) -> bool:
    if raw is None:
        return True
    return isinstance(raw, Mapping) and all(_number(item) and item >= 0 for item in raw.values())


_K = _whole_from(1)
_POSITIVE = _between(0, math.inf, above=True)
_UNIT = _between(0, 1)


def _truth(raw: Any) -> bool:
    return isinstance(raw, bool)


def _distance(raw: Any) -> bool:
    return raw in ("equal", "ordered", "hierarchical")


# model -> parameter -> (what is legal, default; ... = must be given)
_VALUE_MODELS: dict[str, dict[str, tuple[Rule, Any]]] = {
    "distinct-l-diversity": {"l": (_K, ...)},
    "simple-l-diversity": {"l": (_between(1, math.inf), ...)},
    "entropy-l-diversity": {"l": (_between(1, math.inf), ...)},
    "recursive-cl-diversity": {"c": (_POSITIVE, ...), "l": (_K, ...)},
    "tau-l-diversity": {
        "tau": (_between(0, 1, above=True), ...),
        "l": (_whole_from(2), ...),
        "psi": (_psi, None),
        "weights": (_weights, None),
    },
    "t-closeness": {"t": (_between(0, math.inf), ...), "distance": (_distance, "equal")},
    "alpha-k-anonymity": {"alpha": (_between(0, 1, above=True), ...), "k": (_K, ...)},
    "beta-likeness": {"beta": (_POSITIVE, ...), "enhanced": (_truth, False)},
    "delta-disclosure": {"delta": (_POSITIVE, ...)},
    "confidence-bounding": {
        "most": (_between(0, 1, above=True), ...),
        "harmless": (_names, ()),
        "separator": (_text_or_nothing, None),
    },
}
_OTHER_MODELS: dict[str, dict[str, tuple[Rule, Any]]] = {
    "k-anonymity": {"k": (_K, ...)},
    "column-frequency": {"k": (_K, ...)},
    "k-map": {"k": (_K, ...), "population": (_name, ...)},
    "delta-presence": {"min": (_UNIT, 0), "max": (_UNIT, ...), "population": (_name, ...)},
}
# of releases by an agency's plan, and of these only
AGREED = ("l-delta-diversity", "k-delta-anonymity", "entropy-l-delta-diversity")
PARAMETER = dict(zip(AGREED, ("l", "k", "l"), strict=True))
_AGREED_MODELS: dict[str, dict[str, tuple[Rule, Any]]] = {
    AGREED[0]: {"l": (_K, ...), "delta": (_POSITIVE, ...)},
    AGREED[1]: {"k": (_K, ...), "delta": (_POSITIVE, ...)},
    AGREED[2]: {"l": (_between(1, math.inf), ...), "delta": (_POSITIVE, ...)},
}


def read_promise(
    model: str,
    parameters: Mapping[str, Any],
    claimed: float | None,
    sensitive: Sequence[str],
    *,
    agreed: bool = False,
) -> Promise:
    """Return the promise with defaults filled in; whatever makes it uncheckable is its obstacle.

    A release by an agency's plan has promises of its own, which no other release can make.
    """
    rules = _AGREED_MODELS.get(model) if agreed else _VALUE_MODELS.get(model) or _OTHER_MODELS.get(model)

    def refused(why: str) -> Promise:
        return Promise(model, dict(parameters), claimed, obstacle=why)

    if rules is None:
        return refused("cannot check: this verifier does not know the model")
    full: dict[str, Any] = {}
    for name, (legal, default) in rules.items():
        value = parameters.get(name, default)
        if value is ...:
            return refused(f"cannot check: the parameter {name!r} is not given")
        if not legal(value):
            return refused(f"cannot check: the parameter {name!r} is not legal")
        full[name] = value
    about_values = model in _VALUE_MODELS
    known = set(rules) | ({"attribute"} if about_values else set())
    if set(parameters) - known:
        return refused("cannot check: it has parameters that this verifier does not know")
    if model == "delta-presence" and full["min"] > full["max"]:
        return refused("cannot check: 'min' is greater than 'max'")
    if model == "tau-l-diversity" and full["psi"] is not None and len(full["psi"]) != full["l"]:
        return refused("cannot check: 'psi' does not have l numbers")
    if not about_values:
        return Promise(model, full, claimed)
    named = parameters.get("attribute")
    full["attribute"] = named
    subjects = _subjects(named, sensitive)
    if not subjects:
        return refused("cannot check: 'attribute' names no sensitive attribute of the release")
    return Promise(model, full, claimed, subjects)


def _subjects(named: Any, sensitive: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    if named is None:
        return tuple((name,) for name in sensitive)
    members = [named] if isinstance(named, str) else named
    if not isinstance(members, list | tuple) or not members or len(set(map(str, members))) != len(members):
        return ()
    return (tuple(members),) if all(member in sensitive for member in members) else ()

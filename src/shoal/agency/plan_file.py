"""The file that an agency sends to data owners: no counts of people, only classes and numbers.

``digest`` is the SHA-256 of the rest, as JSON with sorted keys and no blanks. It finds mistakes and careless edits; it
is no signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from shoal.agency.ordering import packed
from shoal.agency.planning import Plan
from shoal.arrays import CodeArray, IntArray
from shoal.errors import InputError, UsageError
from shoal.release import write_text

FORMAT = 1
KIND = "shoal-agency-plan"
_NUMBERS = ("l", "delta", "p", "eta", "n", "n_tight", "m", "classes")
_KEYS = {"format", "kind", "quasi", "sensitive", "order", "arrangement", "points", "runs", "digest", *_NUMBERS}


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPlan:
    """A plan as an owner reads it."""

    quasi: tuple[str, ...]
    quasi_values: tuple[tuple[str, ...], ...]
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    number: CodeArray  # (n_points,) class of each point, from 0
    sensitive: str
    sensitive_values: tuple[str, ...]
    l: int
    delta: float
    p: float
    eta: float
    n: int
    n_tight: int
    m: float
    classes: int
    order: str
    arrangement: str
    digest: str


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what is written, with its digest."""
    known = plan.distribution
    document: dict[str, Any] = {
        "format": FORMAT,
        "kind": KIND,
        "quasi": [
            {"name": name, "values": list(values)} for name, values in zip(known.quasi, known.quasi_values, strict=True)
        ],
        "sensitive": {"name": known.sensitive, "values": list(known.sensitive_values)},
        "order": known.order,
        "arrangement": plan.arrangement,
        "l": plan.l,
        "delta": rounded_down(plan.delta),
        "p": rounded_down(plan.p),
        "eta": float(plan.eta),
        "n": plan.n,
        "n_tight": plan.n_tight,
        "m": float(plan.m),
        "classes": plan.classes.n_classes,
        "points": [column.tolist() for column in known.points],
        "runs": _runs(plan.classes.number),
    }
    return {**document, "digest": digest(document)}


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction, or the float that a decimal is written as.

    >>> rounded_down(Fraction("0.1")), rounded_down(Fraction(1, 3)) <= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    return near if Fraction(str(near)) == value or Fraction(near) <= value else float(np.nextafter(near, 0.0))


def digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a plan without its digest."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def write_plan(plan: Plan, path: Path) -> str:
    """Write a plan to a new file and return its digest."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; choose another file or remove it first")
    document = plan_document(plan)
    entries = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")
    return str(document["digest"])


def read_plan(path: Path) -> AgreedPlan:
    """Read a plan; one that was altered, or that contradicts itself, is refused."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or 'input or output error'}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path.name} is no JSON; fetch the plan again") from None
    return parse_plan(document, path.name)


def parse_plan(document: Any, name: str) -> AgreedPlan:
    """Check a plan that was read from anywhere."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"{name} is no plan of an agency")
    if document.get("format") != FORMAT:
        raise InputError(f"{name} has another format than {FORMAT}, which this version of shoal reads")
    try:
        right = digest(document) == document.get("digest")
    except (ValueError, TypeError, RecursionError):
        right = False
    if not right:
        raise InputError(f"{name} was altered: its digest is not that of its content; fetch the plan again")
    if set(document) != _KEYS:
        raise InputError(f"{name} has not the keys of a plan: {', '.join(sorted(set(document) ^ _KEYS))}")
    try:
        return _parsed(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f": {error}" if type(error) is _ContradictionError else ""
        raise InputError(f"{name} contradicts itself{reason}; fetch the plan again") from None


class _ContradictionError(ValueError):
    """What does not fit, in words that hold nothing of the file."""


def _parsed(document: dict[str, Any]) -> AgreedPlan:
    values = tuple(_texts(entry["values"]) for entry in document["quasi"])
    names = _texts([entry["name"] for entry in document["quasi"]])
    sensitive = _texts(document["sensitive"]["values"])
    points = tuple(_whole(column) for column in document["points"])
    runs = _whole(document["runs"])
    _demand(len(points) == len(names) > 0, "a list of points for every quasi attribute")
    _demand(runs.ndim == 2 and runs.shape[1] == 2 and bool((runs[:, 1] > 0).all()), "runs of classes")
    n_points = len(points[0])
    _demand(all(column.ndim == 1 and len(column) == n_points for column in points), "points of one length")
    inside = all(column.min() >= 0 and column.max() < len(known) for column, known in zip(points, values, strict=True))
    _demand(inside, "points among the values")
    key = packed(points, [len(known) for known in values])
    _demand(len(np.unique(key)) == n_points, "every point once")
    _demand(int(runs[:, 1].sum()) == n_points, "a class for every point")
    n_classes = document["classes"]
    _demand(np.array_equal(np.unique(runs[:, 0]), np.arange(1, n_classes + 1)), "classes from 1 on")
    l, n, n_tight = (document[key] for key in ("l", "n", "n_tight"))
    _demand(all(type(number) is int for number in (l, n, n_tight, n_classes)), "whole numbers")
    delta, p, eta, m = (float(document[key]) for key in ("delta", "p", "eta", "m"))
    _demand(0 < delta < 1 and 0 <= eta < p <= 1, "0 < delta < 1 and eta < p <= 1")
    _demand(1 <= l <= len(sensitive) and 1 <= n_tight <= n and n_classes <= m * (1 + 1e-9), "l, n, n_tight and m")
    return AgreedPlan(
        quasi=names,
        quasi_values=values,
        points=tuple(column.astype(np.int32) for column in points),
        number=(np.repeat(runs[:, 0], runs[:, 1]) - 1).astype(np.int32),
        sensitive=str(document["sensitive"]["name"]),
        sensitive_values=sensitive,
        l=l,
        delta=delta,
        p=p,
        eta=eta,
        n=n,
        n_tight=n_tight,
        m=m,
        classes=n_classes,
        order=str(document["order"]),
        arrangement=str(document["arrangement"]),
        digest=str(document["digest"]),
    )


def _runs(number: CodeArray) -> list[list[int]]:
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(np.diff(number)) + 1))
    lengths = np.diff(np.append(first, len(number)))
    return [list(pair) for pair in zip((number[first] + 1).tolist(), lengths.tolist(), strict=True)]


def _texts(values: Any) -> tuple[str, ...]:
    _demand(isinstance(values, list) and all(type(value) is str for value in values), "lists of texts")
    _demand(len(set(values)) == len(values), "every value once")
    return tuple(values)


def _whole(values: Any) -> IntArray:
    array = np.array(values)
    _demand(array.dtype.kind == "i" and array.size > 0, "lists of whole numbers")
    return array.astype(np.int64)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise _ContradictionError(f"a plan has {what}")

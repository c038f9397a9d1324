"""The file that an agency sends to data owners: no counts of people, only classes and numbers.

``digest`` is the SHA-256 of the rest, as JSON with sorted keys and no blanks. It finds mistakes and careless edits; it
is no signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from shoal.agency.ordering import packed
from shoal.agency.planning import Plan
from shoal.agency.promise import L_DIVERSITY, Promise, parse_promise
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UnreachableError, UsageError
from shoal.core.strict_json import read_json
from shoal.release.release import write_text

FORMAT = 2
KIND = "shoal-agency-plan"
_MANY = 2**53  # more records than any table has
_NUMBERS = ("delta", "p", "eta", "n", "n_tight", "records", "m", "classes")
_LISTS = ("quasi", "points", "runs", "values")
_KEYS = {"format", "kind", "sensitive", "order", "arrangement", "promise", "digest", *_NUMBERS, *_LISTS}


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPlan:
    """A plan as an owner reads it."""

    quasi: tuple[str, ...]
    quasi_values: tuple[tuple[str, ...], ...]
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    number: CodeArray  # (n_points,) class of each point, from 0
    sensitive: str
    sensitive_values: tuple[str, ...]
    promise: Promise
    values: CodeArray  # (n_classes, l) into sensitive_values, ascending: what every release shows; else (n_classes, 0)
    delta: float
    p: float
    eta: float
    n: int
    n_tight: int
    records: int  # that an owner must have
    m: float
    classes: int
    order: str
    arrangement: str
    digest: str

    def located(self, codes: Sequence[IntArray]) -> CodeArray:
        """Return (n_rows,) the class, from 0, of rows given as codes into the quasi values; -1 outside the domain.

        A code that is no place in the values of its attribute stands for a value that is not known.
        """
        sizes = [len(values) for values in self.quasi_values]
        known = np.logical_and.reduce([(c >= 0) & (c < size) for c, size in zip(codes, sizes, strict=True)])
        inside = np.flatnonzero(known)
        n_points = len(self.number)
        key = packed([np.append(points, c[inside]) for points, c in zip(self.points, codes, strict=True)], sizes)
        domain, asked = key[:n_points], key[n_points:]
        order = np.argsort(domain, kind="stable")
        place = np.minimum(np.searchsorted(domain, asked, sorter=order), n_points - 1)
        found = order[place]
        result = np.full(len(known), -1, dtype=np.int32)
        result[inside] = np.where(domain[found] == asked, self.number[found], -1)
        return result


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what is written, with its digest; a plan that no owner could ever follow is refused."""
    if plan.n >= _MANY:
        raise UnreachableError(f"the plan would ask for {plan.n:.3g} records, more than any table has; take a larger p")
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
        "promise": plan.promise.document(),
        "delta": rounded_up(plan.delta),
        "p": rounded_down(plan.p),
        "eta": float(plan.eta),
        "n": plan.n,
        "n_tight": plan.n_tight,
        "records": plan.records,
        "m": float(plan.m),
        "classes": plan.classes.n_classes,
        "points": [column.tolist() for column in known.points],
        "runs": _runs(plan.classes.number),
        "values": plan.classes.values.tolist() if plan.classes.values.size else [],
    }
    return {**document, "digest": digest(document)}


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction, or the float that a decimal is written as.

    >>> rounded_down(Fraction("0.1")), rounded_down(Fraction(1, 3)) <= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    return near if Fraction(str(near)) == value or Fraction(near) <= value else float(np.nextafter(near, 0.0))


def rounded_up(value: Fraction) -> float:
    """Return the smallest float that is not below a fraction, or the float that a decimal is written as.

    >>> rounded_up(Fraction("0.1")), rounded_up(Fraction(1, 3)) >= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    return near if Fraction(str(near)) == value or Fraction(near) >= value else float(np.nextafter(near, 1.0))


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
    return plan_of(plan_bytes(path), path.name)


def plan_bytes(path: Path) -> bytes:
    """Return the content of a plan file, whatever it is."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or 'input or output error'}") from None


def plan_of(content: bytes, name: str) -> AgreedPlan:
    """Read a plan from the content of its file; a key that comes twice makes it no plan."""
    try:
        document = read_json(content)
    except ValueError:
        raise InputError(f"{name} is no JSON; fetch the plan again") from None
    return parse_plan(document, name)


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
    _demand(len(runs) <= n_points and bool((runs[:, 1] <= n_points).all()), "a class for every point")
    _demand(int(runs[:, 1].sum()) == n_points, "a class for every point")
    n_classes, numbers = document["classes"], np.unique(runs[:, 0])
    _demand(len(numbers) == n_classes == numbers[-1] and numbers[0] == 1, "classes from 1 on")
    n, n_tight, records = (document[key] for key in ("n", "n_tight", "records"))
    _demand(all(type(number) is int for number in (n, n_tight, records, n_classes)), "whole numbers")
    delta, p, eta, m = (_decimal(document[key]) for key in ("delta", "p", "eta", "m"))
    _demand(0 < delta < 1 and 0 <= eta < p <= 1, "0 < delta < 1 and eta < p <= 1")
    _demand(1 <= n_tight <= n and records in (n, n_tight), "n_tight <= n, and one of these for the records")
    promise = parse_promise(document["promise"])
    _demand(max(n, promise.least) <= _MANY, "numbers of records that can be counted")
    if promise.model == L_DIVERSITY:
        _demand(n_classes <= m * (1 + 1e-9), "no more classes than m")
    else:
        _demand(n_tight == n and m == n_classes, "one number of records, and m classes")
    (name,) = _texts([document["sensitive"]["name"]])
    _demand(name not in names, "a sensitive attribute besides the quasi ones")
    return AgreedPlan(
        quasi=names,
        quasi_values=values,
        points=tuple(column.astype(np.int32) for column in points),
        number=(np.repeat(runs[:, 0], runs[:, 1]) - 1).astype(np.int32),
        sensitive=name,
        sensitive_values=sensitive,
        promise=promise,
        values=_promised(document["values"], promise, n_classes, len(sensitive)),
        delta=delta,
        p=p,
        eta=eta,
        n=n,
        n_tight=n_tight,
        records=records,
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


def _promised(lists: Any, promise: Promise, n_classes: int, n_values: int) -> CodeArray:
    """Return (n_classes, l) the values that each class must show; no values unless the promise is about them."""
    if promise.model != L_DIVERSITY:
        _demand(lists == [], "values of classes for l-diversity only")
        return np.empty((n_classes, 0), dtype=np.int32)
    values = _whole(lists)
    _demand(values.shape == (n_classes, promise.least), "l values for every class")
    _demand(values.min() >= 0 and values.max() < n_values, "values of classes among the sensitive values")
    _demand(bool((np.diff(values, axis=1) > 0).all()), "values of classes in ascending order")
    return values.astype(np.int32)


def _texts(values: Any) -> tuple[str, ...]:
    _demand(isinstance(values, list) and all(type(value) is str for value in values), "lists of texts")
    _demand(len(set(values)) == len(values), "every value once")
    "".join(values).encode()  # half a character, which only JSON can write, is a ValueError
    return tuple(values)


def _whole(values: Any) -> IntArray:
    array = np.array(values)
    _demand(array.dtype.kind == "i" and array.size > 0, "lists of whole numbers")
    return array.astype(np.int64)


def _decimal(value: Any) -> float:
    _demand(type(value) in (int, float), "numbers")
    return float(value)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise _ContradictionError(f"a plan has {what}")

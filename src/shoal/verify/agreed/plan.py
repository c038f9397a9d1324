"""Reading the plan of a release as a stranger would: nothing in it is believed before it fits together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.verify.fields import (
    ManifestError,
    check_keys,
    digest_of,
    mapping,
    number,
    parse_json,
    sequence,
    text_of,
    texts_of,
)
from shoal.verify.files import AgreedFile
from shoal.verify.promises import AGREED, PARAMETER
from shoal.verify.tally import Combinations

CLASS = "class"
_KEYS = (
    "format",
    "kind",
    "quasi",
    "sensitive",
    "order",
    "arrangement",
    "promise",
    "delta",
    "p",
    "eta",
    "n",
    "n_tight",
    "records",
    "m",
    "classes",
    "points",
    "runs",
    "values",
    "digest",
)
_ROUNDING = Fraction(1, 10**9)  # m is written in floating point


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A plan that fits together."""

    quasi: tuple[str, ...]
    quasi_values: tuple[pa.Array, ...]
    sensitive: str
    sensitive_values: pa.Array
    model: str
    least: Fraction
    delta: Fraction
    records: int
    n_classes: int
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    class_of: CodeArray  # (n_points,) from 0
    shown: CodeArray  # (n_classes, l) values that every class must show; (n_classes, 0) where none are named
    numbers: Combinations  # the n-th point has the number n; one code more than values stands for unknown ones


def read_plan(path: Path, declared: AgreedFile) -> Plan:
    """Return the plan beside the data, or raise a ManifestError: it is the declared one, unaltered, and sound."""
    demand(path.is_file(), "it cannot be read (no plain file)")  # of a pipe or a device the end may never come
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ManifestError(f"it cannot be read ({type(fault).__name__})") from None
    demand(hashlib.sha256(content).hexdigest() == declared.sha256, "its SHA-256 is not the declared one")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ManifestError("it is not UTF-8") from None
    plan = mapping(parse_json(text), "it")
    check_keys(plan, "it", _KEYS, ())
    digest = digest_of(plan["digest"], "its digest")
    demand(_digest(plan) == digest, "it was altered: its digest is not that of its content")
    demand(digest == declared.digest, "its digest is not the one that the manifest names")
    found = _parsed(plan)
    demand(found.n_classes == declared.classes, "it has another number of classes than the manifest says")
    return found


def _digest(plan: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the digest, with sorted keys and without blanks."""
    rest = {key: plan[key] for key in sorted(plan) if key != "digest"}
    try:
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ManifestError("it is nested too deeply") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _parsed(plan: Mapping[str, Any]) -> Plan:
    demand(plan["kind"] == "shoal-agency-plan", "it is no plan of an agency")
    demand(plan["format"] == 2 and type(plan["format"]) is int, "its format is not 2, the only one this verifier knows")
    for key in ("order", "arrangement"):
        text_of(plan[key], f"its {key}")
    entries = [_attribute(entry, "an entry of its quasi") for entry in sequence(plan["quasi"], "its quasi")]
    sensitive, sensitive_values = _attribute(plan["sensitive"], "its sensitive")
    names = [*(name for name, _ in entries), sensitive]
    demand(len(entries) > 0 and len(set(names)) == len(names), "it names an attribute twice, or no quasi one")
    demand(CLASS not in names, f"it has an attribute called {CLASS!r}")
    sizes = [len(values) for _, values in entries]
    points, numbers = _points(plan["points"], sizes)
    (n_classes,) = some_whole([plan["classes"]], "its classes", least=1).tolist()
    model, least = _promise(plan["promise"], len(sensitive_values))
    return Plan(
        quasi=tuple(name for name, _ in entries),
        quasi_values=tuple(values for _, values in entries),
        sensitive=sensitive,
        sensitive_values=sensitive_values,
        model=model,
        least=least,
        delta=_delta(plan),
        records=_records(plan, model, n_classes),
        n_classes=n_classes,
        points=points,
        class_of=_classes(plan["runs"], len(points[0]), n_classes),
        shown=_shown(plan["values"], n_classes, int(least) if model == AGREED[0] else 0, len(sensitive_values)),
        numbers=numbers,
    )


def _attribute(raw: object, where: str) -> tuple[str, pa.Array]:
    entry = mapping(raw, where)
    check_keys(entry, where, ("name", "values"), ())
    name, values = text_of(entry["name"], f"{where}.name"), texts_of(entry["values"], f"{where}.values")
    demand(bool(name) and bool(values) and len(set(values)) == len(values), f"{where} has no name, or a value twice")
    return name, pa.array(values, pa.string())


def _points(raw: object, sizes: Sequence[int]) -> tuple[tuple[CodeArray, ...], Combinations]:
    columns = sequence(raw, "its points")
    demand(len(columns) == len(sizes), "it has not a list of points for every quasi attribute")
    points = tuple(
        some_whole(column, "its points", least=0, below=size).astype(np.int32)
        for column, size in zip(columns, sizes, strict=True)
    )
    n_points = len(points[0])
    demand(all(len(column) == n_points for column in points), "its points are not of one length")
    numbers = Combinations([size + 1 for size in sizes])
    numbers.ids(points)
    demand(numbers.count == n_points, "it has a point twice")
    return points, numbers


def _classes(raw: object, n_points: int, n_classes: int) -> CodeArray:
    """Return (n_points,) the class of each point, from 0."""
    runs = several_whole(raw, 2, "its runs", least=1, below=2**31)
    number, length = runs[:, 0], runs[:, 1].astype(np.int64)
    demand(int(length.sum()) == n_points, "its runs are not as long as its points are many")
    demand(n_classes <= n_points and int(number.max()) <= n_classes, "its runs have numbers of other classes")
    demand(len(np.unique(number)) == n_classes, "it has classes without a point")
    return (np.repeat(number, length) - 1).astype(np.int32)


def _promise(raw: object, n_values: int) -> tuple[str, Fraction]:
    promise = mapping(raw, "its promise")
    model = text_of(promise.get("model"), "its promise's model")
    demand(model in AGREED, "it promises what this verifier does not know")
    check_keys(promise, "its promise", ("model", PARAMETER[model]), ())
    least = promise[PARAMETER[model]]
    demand(model == AGREED[2] or type(least) is int, "it promises a number that is not whole")
    found = decimal(least, "its promise")
    most = 2**53 if model == AGREED[1] else n_values
    demand(1 <= found <= most, "it promises less than 1, or more than there are")
    return model, found


def _delta(plan: Mapping[str, Any]) -> Fraction:
    delta, p, eta = (decimal(plan[key], f"its {key}") for key in ("delta", "p", "eta"))
    demand(0 < delta < 1 and 0 <= eta < p <= 1, "its delta, p and eta are no probabilities that fit together")
    return delta


def _records(plan: Mapping[str, Any], model: str, n_classes: int) -> int:
    n, n_tight, records = some_whole([plan[key] for key in ("n", "n_tight", "records")], "its n", least=1, below=2**53)
    demand(n_tight <= n and records in (n, n_tight), "its n, n_tight and records do not fit together")
    m = decimal(plan["m"], "its m")
    demand(n_classes <= m * (1 + _ROUNDING), "it has more classes than its m")
    demand(model == AGREED[0] or (n == n_tight and m == n_classes), "its n or m are not those of its promise")
    return int(records)


def _shown(raw: object, n_classes: int, l: int, n_values: int) -> CodeArray:
    if not l:
        demand(raw == [], "it names values of classes and does not promise them")
        return np.empty((n_classes, 0), dtype=np.int32)
    values = several_whole(raw, l, "its values", least=0, below=n_values)
    demand(len(values) == n_classes, "it has not a list of values for every class")
    demand(bool((np.diff(values, axis=1) > 0).all()), "it names a value of a class twice, or not in order")
    return values.astype(np.int32)


def demand(holds: bool, otherwise: str) -> None:
    """Raise a ManifestError with this sentence unless something holds."""
    if not holds:
        raise ManifestError(otherwise)


def decimal(raw: object, where: str) -> Fraction:
    """Return a finite number as the decimal that is written.

    >>> decimal(0.01, "delta")
    Fraction(1, 100)
    """
    found = number(raw, where)
    demand(abs(found) < float("inf"), f"{where} is not finite")
    return Fraction(str(raw))


def some_whole(raw: object, where: str, *, least: int, below: int = 2**31) -> IntArray:
    """Return a list of whole numbers as an array; it is not empty.

    >>> some_whole([3, 1], "points", least=0, below=4).tolist()
    [3, 1]
    """
    return _bounded(sequence(raw, where), where, least, below)


def several_whole(raw: object, width: int, where: str, *, least: int, below: int) -> IntArray:
    """Return (n, width) numbers of a list of lists of this length."""
    lists = sequence(raw, where)
    demand(all(isinstance(each, list | tuple) and len(each) == width for each in lists), f"{where} has other lists")
    return _bounded(list(chain.from_iterable(lists)), where, least, below).reshape(-1, width)


def _bounded(numbers: Sequence[object], where: str, least: int, below: int) -> IntArray:
    if set(map(type, numbers)) != {int}:  # a truth value would count as a number
        raise ManifestError(f"{where} has not just whole numbers")
    try:
        found = np.array(numbers, dtype=np.int64)
    except OverflowError:
        raise ManifestError(f"{where} has numbers that are too large") from None
    demand(least <= int(found.min()) and int(found.max()) < below, f"{where} has numbers out of bounds")
    return found

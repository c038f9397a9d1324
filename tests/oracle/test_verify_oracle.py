"""The verifier against slow exact re-implementations of every model, on plain and on generalized sensitive values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.verify.verifier import verify_table

VALUES = ("a", "b", "c", "d")
TREE = {"*": {"G": {"a": {}, "H": {"b": {}, "c": {}}}, "d": {}}}
WAYS = [("G",), ("G", "H"), ("G", "H"), (), ()]  # inner nodes above each value, below the root; missing comes last
HEIGHTS = {"*": 3, "G": 2, "H": 1}
Classes = list[list[int]]  # counts of VALUES in each class
Amounts = Sequence[Any]  # whole numbers or fractions, of VALUES and perhaps of missing values


def manifest_of(attributes: dict[str, Any], promises: Sequence[dict[str, Any]], rows: int) -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "sweep",
        "method_parameters": {},
        "guarantees": list(promises),
        "parts": [list(attributes)],
        "rows": rows,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": attributes,
    }


def release(classes: Classes, promise: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """One quasi attribute whose label is the number of the class, one sensitive attribute."""
    quasi = [str(c) for c, counts in enumerate(classes) for _ in range(sum(counts))]
    sensitive = [VALUES[v] for counts in classes for v, count in enumerate(counts) for _ in range(count)]
    attributes = {
        "q": {
            "role": "quasi",
            "kind": "category",
            "labels": {q: {"values": [q]} for q in sorted(set(quasi))},
        },
        "s": {"role": "sensitive", "kind": "category", "order": list(VALUES), "taxonomy": TREE},
    }
    return pa.table({"q": quasi, "s": sensitive}), manifest_of(attributes, [promise], len(quasi))


def cheapest(supply: list[Fraction], demand: list[Fraction], cost: list[list[Fraction]]) -> Fraction:
    """Return the least cost of moving supplies to demands: shortest augmenting paths by Bellman and Ford."""
    n = len(supply)
    supply, demand = list(supply), list(demand)
    moved = [[Fraction(0)] * n for _ in range(n)]
    total = Fraction(0)
    while any(supply):
        distance: list[Any] = [Fraction(0) if s else math.inf for s in supply] + [math.inf] * n
        before = [-1] * (2 * n)
        for _ in range(2 * n):
            for i, j in product(range(n), range(n)):
                if distance[i] + cost[i][j] < distance[n + j]:
                    distance[n + j], before[n + j] = distance[i] + cost[i][j], i
                if moved[i][j] and distance[n + j] - cost[i][j] < distance[i]:
                    distance[i], before[i] = distance[n + j] - cost[i][j], n + j
        end = min((n + j for j in range(n) if demand[j]), key=distance.__getitem__)
        path = [end]
        while before[path[-1]] >= 0:
            path.append(before[path[-1]])
        steps = list(zip(path[1:], path, strict=False))
        amount = min(supply[path[-1]], demand[end - n], *(moved[v][u - n] for u, v in steps if u >= n), 10**9)
        for u, v in steps:
            if u < n:
                moved[u][v - n] += amount
            else:
                moved[v][u - n] -= amount
        supply[path[-1]] -= amount
        demand[end - n] -= amount
        total += amount * distance[end]
    return total


def ground(distance: str, present: list[int]) -> list[list[Fraction]]:
    def between(i: int, j: int) -> Fraction:
        if i == j:
            return Fraction(0)
        if distance == "equal":
            return Fraction(1)
        if distance == "ordered":
            return Fraction(abs(i - j), max(1, len(present) - 1))
        first, second = WAYS[present[i]], WAYS[present[j]]
        common = [a for a, b in zip(first, second, strict=False) if a == b]
        return Fraction(HEIGHTS[common[-1] if common else "*"], HEIGHTS["*"])

    return [[between(i, j) for j in range(len(present))] for i in range(len(present))]


def reached(model: str, parameters: dict[str, Any], counts: Amounts, whole: Amounts) -> Any:
    """Return what one class reaches, as a fraction or, where a logarithm is involved, a float."""
    n, total = sum(counts), sum(whole)
    ordered = sorted((c for c in counts if c), reverse=True)
    shares = [(Fraction(c, n), Fraction(w, total)) for c, w in zip(counts, whole, strict=True) if w]
    if model == "k-anonymity":
        return Fraction(n)
    if model == "distinct-l-diversity":
        return Fraction(len(ordered))
    if model == "simple-l-diversity":
        return Fraction(n, ordered[0])
    if model == "entropy-l-diversity":
        return math.exp(-sum(float(p) * math.log(p) for p, _ in shares if p))
    if model == "recursive-cl-diversity":
        tail = sum(ordered[parameters["l"] - 1 :])
        return Fraction(ordered[0], tail) if tail else math.inf
    if model == "tau-l-diversity":
        l = parameters["l"]
        found = [Fraction(0)]
        for k in range(1, l):
            x = Fraction(k - 1, l - 1)
            found.append((Fraction(sum(ordered[:k]), n) - x) / (1 - x))
        return max(found)
    if model == "t-closeness":
        present = [v for v, w in enumerate(whole) if w]
        return cheapest([p for p, _ in shares], [q for _, q in shares], ground(parameters["distance"], present))
    if model == "alpha-k-anonymity":
        return Fraction(ordered[0], n)
    if model == "beta-likeness":
        return max([Fraction(0), *((p - q) / q for p, q in shares)])
    assert model == "delta-disclosure"
    return max(abs(math.log(p / q)) if p else math.inf for p, q in shares)


MODELS = [
    ("k-anonymity", "k", {}),
    ("distinct-l-diversity", "l", {}),
    ("simple-l-diversity", "l", {}),
    ("entropy-l-diversity", "l", {}),
    ("recursive-cl-diversity", "c", {"l": 1}),
    ("recursive-cl-diversity", "c", {"l": 2}),
    ("recursive-cl-diversity", "c", {"l": 3}),
    ("tau-l-diversity", "tau", {"l": 2}),
    ("tau-l-diversity", "tau", {"l": 3}),
    ("t-closeness", "t", {"distance": "equal"}),
    ("t-closeness", "t", {"distance": "ordered"}),
    ("t-closeness", "t", {"distance": "hierarchical"}),
    ("alpha-k-anonymity", "alpha", {"k": 2}),
    ("beta-likeness", "beta", {}),
    ("beta-likeness", "beta", {"enhanced": True}),
    ("delta-disclosure", "delta", {}),
]
AT_LEAST = {"k-anonymity", "distinct-l-diversity", "simple-l-diversity", "entropy-l-diversity"}
WHOLE_NUMBERS = {"k-anonymity", "distinct-l-diversity"}
STRICT = {"recursive-cl-diversity", "delta-disclosure"}


def diverse(counts: Amounts, limit: Fraction) -> bool:
    """Return whether n**n >= l**n * product of c**c, with counts blown up to whole numbers."""
    factor = math.lcm(*(Fraction(count).denominator for count in counts))
    whole = [int(count * factor) for count in counts]
    n = sum(whole)
    return Fraction(n) ** n >= limit**n * math.prod(c**c for c in whole)


def holds(model: str, parameters: dict[str, Any], main: str, classes: Sequence[Amounts], whole: Amounts) -> bool:
    limit = Fraction(str(parameters[main]))
    for counts in classes:
        value = reached(model, parameters, counts, whole)
        if model == "entropy-l-diversity":
            fine = diverse(counts, limit)
        elif model in AT_LEAST:
            fine = value >= limit
        elif model in STRICT:
            fine = value < limit or (model.startswith("recursive") and parameters["l"] == 1)
        else:
            fine = value <= limit
        if model == "alpha-k-anonymity":
            fine = fine and sum(counts) >= parameters["k"]
        if parameters.get("enhanced"):
            n, total = sum(counts), sum(whole)
            for c, w in zip(counts, whole, strict=True):
                gain = Fraction(c * total, n * w) - 1 if w else Fraction(0)
                fine = fine and (gain <= 0 or float(gain) <= -math.log(Fraction(w, total)))
        if not fine:
            return False
    return True


def limit_near(around: Any, nudge: int, model: str, main: str) -> float:
    """Return a decimal at, just below or just above what is reached; logarithms leave a gap for rounding."""
    if model in WHOLE_NUMBERS:
        return max(1, int(around) + nudge)
    step = 10**-6 if isinstance(around, float) else 10**-9
    limit = round(float(around) + nudge * step, 12)
    if isinstance(around, float) and nudge == 0:
        limit = round(limit, 3)
    limit = max(limit, 1.0) if model in AT_LEAST else max(limit, 1e-9)
    return min(limit, 1.0) if main in ("tau", "alpha") else limit


histogram = st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any)


@given(classes=st.lists(histogram, min_size=1, max_size=4), nudge=st.sampled_from([-1, 0, 1]), data=st.data())
@pytest.mark.parametrize(("model", "main", "rest"), MODELS)
def test_models(model: str, main: str, rest: dict[str, Any], classes: Classes, nudge: int, data: st.DataObject):
    whole = [sum(column) for column in zip(*classes, strict=True)]
    values = [reached(model, rest, counts, whole) for counts in classes]
    worst = min(values) if model in AT_LEAST else max(values)
    around = data.draw(st.sampled_from([value for value in values if value != math.inf] or [Fraction(1)]))
    parameters = {main: limit_near(around, nudge, model, main), **rest}
    claimed = None if worst == math.inf else float(worst)
    promise = {"model": model, "parameters": parameters, "achieved": claimed}
    verification = verify_table(*release(classes, promise))
    answer = verification.guarantees[0]
    expected = holds(model, parameters, main, classes, whole)
    assert answer.achieved == pytest.approx(float(worst), rel=1e-12, abs=1e-12)
    assert answer.ok == expected, (answer, classes)
    assert verification.verified == expected


@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [3, 3, 3, 3], [5, 5, 5, 0]])
def test_uniform_classes_have_exactly_the_entropy_of_their_number_of_values(counts: list[int]):
    l = sum(1 for c in counts if c)
    promise = {"model": "entropy-l-diversity", "parameters": {"l": l}, "achieved": float(l)}
    assert verify_table(*release([counts], promise)).verified
    promise["parameters"] = {"l": l + 1e-12}
    assert not verify_table(*release([counts], promise)).verified


def test_tables_of_the_t_closeness_paper():
    """Li, Li and Venkatasubramanian, Table 3: salaries of 3K to 11K in three classes of three."""
    salaries = {"A": (3, 4, 5), "B": (6, 8, 11), "C": (7, 9, 10)}
    table = pa.table({"q": [q for q, s in salaries.items() for _ in s], "s": [v for s in salaries.values() for v in s]})
    attributes = {
        "q": {"role": "quasi", "kind": "category", "labels": {q: {"values": [q]} for q in salaries}},
        "s": {"role": "sensitive", "kind": "number"},
    }
    promise = {"model": "t-closeness", "parameters": {"t": 0.375, "distance": "ordered"}, "achieved": 0.375}
    assert verify_table(table, manifest_of(attributes, [promise], 9)).verified
    promise["parameters"]["t"] = 0.374999999
    assert not verify_table(table, manifest_of(attributes, [promise], 9)).verified


# Generalized values ----------------------------------------------------------------------------------------

LABELS: dict[str, dict[str, Any]] = {
    **{value: {"values": [value]} for value in VALUES},
    "H": {"values": ["b", "c"]},
    "G": {"values": ["c", "a", "b"]},
    "{b, d}": {"values": ["b", "d"]},
    "{a, missing}": {"values": ["a"], "missing": True},
    "*": {"values": ["a", "b", "c", "d"], "missing": True},
}
PUBLISHED = (*LABELS, None)
WEIGHTED = [("tau-l-diversity", "tau", {"l": 3, "weights": {"a": 0.3, "b": 0.7, "d": 1.9, "e": 5}})]


def spread(counts: list[int], weights: dict[str, float] | None) -> list[Fraction]:
    """Return how many records of each of the VALUES, and missing ones, these counts of PUBLISHED values stand for."""
    out = [Fraction(0)] * 5
    for published, count in zip(PUBLISHED, counts, strict=True):
        cover = {"missing": True} if published is None else LABELS[published]
        under = [VALUES.index(value) for value in cover.get("values", ())] + [4] * ("missing" in cover)
        likely = [Fraction(str((weights or {}).get(v, 0 if weights else 1))) for v in VALUES] + [Fraction(1)]
        if len(under) == 1:
            likely[under[0]] = Fraction(1)
        for value in under:
            out[value] += count * likely[value] / sum(likely[v] for v in under)
    return out


def generalized(classes: Classes, promise: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """As release(), but of PUBLISHED values."""
    quasi = [str(c) for c, counts in enumerate(classes) for _ in range(sum(counts))]
    sensitive = [PUBLISHED[v] for counts in classes for v, count in enumerate(counts) for _ in range(count)]
    labels = {label: cover for label, cover in LABELS.items() if label in sensitive}
    attributes = {
        "q": {"role": "quasi", "kind": "category", "labels": {q: {"values": [q]} for q in set(quasi)}},
        "s": {"role": "sensitive", "kind": "category", "order": list(VALUES), "taxonomy": TREE, "labels": labels},
    }
    table = pa.table({"q": quasi, "s": pa.array(sensitive, type=pa.string())})
    return table, manifest_of(attributes, [promise], len(quasi))


mixture = st.lists(st.integers(0, 3), min_size=len(PUBLISHED), max_size=len(PUBLISHED)).filter(any)


@given(
    classes=st.lists(mixture, min_size=1, max_size=3),
    nudge=st.sampled_from([-1, 0, 1]),
    wide=st.booleans(),
    data=st.data(),
)
@pytest.mark.parametrize(
    ("model", "main", "rest"), [case for case in MODELS if case[0] == "tau-l-diversity"] + WEIGHTED
)
def test_models_on_induced_frequencies(
    model: str, main: str, rest: dict[str, Any], classes: Classes, nudge: int, wide: bool, data: st.DataObject
):
    induced = [spread(counts, rest.get("weights")) for counts in classes]
    whole = [sum(column) for column in zip(*induced, strict=True)]
    values = [reached(model, rest, counts, whole) for counts in induced]
    worst = min(values) if model in AT_LEAST else max(values)
    around = data.draw(st.sampled_from([value for value in values if value != math.inf] or [Fraction(1)]))
    parameters = {main: limit_near(around, nudge, model, main), **rest}
    claimed = None if worst == math.inf else float(worst)
    promise = {"model": model, "parameters": parameters, "achieved": claimed}
    with pytest.MonkeyPatch.context() as patch:
        if wide:  # as if 64 bits held nothing: Python's integers count instead
            for module in ("exact", "guarantees"):
                patch.setattr(import_module(f"shoal.verify.{module}"), "WIDEST", 1)
        verification = verify_table(*generalized(classes, promise))
    answer = verification.guarantees[0]
    expected = holds(model, parameters, main, induced, whole)
    assert answer.achieved == pytest.approx(float(worst), rel=1e-12, abs=1e-12)
    assert answer.ok == expected, (answer, classes)
    assert verification.verified == expected
    if expected:
        promise["achieved"] = float(worst) + 1e-6
        assert not verify_table(*generalized(classes, promise)).verified

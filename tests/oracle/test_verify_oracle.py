"""The verifier against slow exact re-implementations: every model, and the matching with the source."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sources import open_source
from shoal.verify import verify_table

VALUES = ("a", "b", "c", "d")
TREE = {"*": {"G": {"a": {}, "H": {"b": {}, "c": {}}}, "d": {}}}
WAYS = {"a": ("G",), "b": ("G", "H"), "c": ("G", "H"), "d": ()}  # inner nodes above each leaf, below the root
HEIGHTS = {"*": 3, "G": 2, "H": 1}
Classes = list[list[int]]  # counts of VALUES in each class


def manifest_of(attributes: dict[str, Any], promises: Sequence[dict[str, Any]], rows: int) -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "none",
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
        first, second = WAYS[VALUES[present[i]]], WAYS[VALUES[present[j]]]
        common = [a for a, b in zip(first, second, strict=False) if a == b]
        return Fraction(HEIGHTS[common[-1] if common else "*"], HEIGHTS["*"])

    return [[between(i, j) for j in range(len(present))] for i in range(len(present))]


def reached(model: str, parameters: dict[str, Any], counts: list[int], whole: list[int]) -> Any:
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


def holds(model: str, parameters: dict[str, Any], main: str, classes: Classes, whole: list[int]) -> bool:
    limit = Fraction(str(parameters[main]))
    for counts in classes:
        value = reached(model, parameters, counts, whole)
        if model == "entropy-l-diversity":
            fine = Fraction(sum(counts)) ** sum(counts) >= limit ** sum(counts) * math.prod(c**c for c in counts)
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
                fine = fine and (gain <= 0 or float(gain) <= -math.log(w / total))
        if not fine:
            return False
    return True


histogram = st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any)


@settings(max_examples=60, deadline=None)
@given(classes=st.lists(histogram, min_size=1, max_size=4), nudge=st.sampled_from([-1, 0, 1]), data=st.data())
@pytest.mark.parametrize(("model", "main", "rest"), MODELS)
def test_models(model: str, main: str, rest: dict[str, Any], classes: Classes, nudge: int, data: st.DataObject):
    whole = [sum(column) for column in zip(*classes, strict=True)]
    values = [reached(model, rest, counts, whole) for counts in classes]
    worst = min(values) if model in AT_LEAST else max(values)
    around = data.draw(st.sampled_from([value for value in values if value != math.inf] or [Fraction(1)]))
    if model in WHOLE_NUMBERS:
        limit: float = max(1, int(around) + nudge)
    else:
        # Decimals at, just below and just above what is reached; logarithms leave a gap for rounding.
        step = 10**-6 if isinstance(around, float) else 10**-9
        limit = round(float(around) + nudge * step, 12)
        if isinstance(around, float) and nudge == 0:
            limit = round(limit, 3)
        limit = max(limit, 1.0) if model in AT_LEAST else max(limit, 1e-9)
        if main in ("tau", "alpha"):
            limit = min(limit, 1.0)
    parameters = {main: limit, **rest}
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


# Matching --------------------------------------------------------------------------------------------------

NUMBER_LABELS: dict[str, dict[str, Any]] = {
    "low": {"from": None, "below": 3},
    "mid": {"from": 1, "below": 5},
    "high": {"from": 3, "below": None, "missing": True},
    "two": {"from": 2, "below": 3},
    "none": {"missing": True},
    "*": {"any": True},
}
TEXT_LABELS: dict[str, dict[str, Any]] = {
    "x": {"values": ["x"]},
    "x or z": {"values": ["x", "z"]},
    "z or y": {"values": ["z", "y"]},
    "y or missing": {"values": ["y"], "missing": True},
    "*": {"any": True},
}


def covers(cover: dict[str, Any], value: object) -> bool:
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return value in cover["values"]
    if "from" not in cover:
        return False
    low, high = cover["from"], cover["below"]
    return (low is None or value >= low) and (high is None or value < high)


def fits(published: tuple[Any, ...], original: tuple[Any, ...]) -> bool:
    return (
        covers(NUMBER_LABELS[published[0]], original[0])
        and covers(TEXT_LABELS[published[1]], original[1])
        and published[2:] == original[2:]
    )


def largest_matching(published: list[tuple[Any, ...]], original: list[tuple[Any, ...]]) -> int:
    partner: dict[int, int] = {}

    def augment(row: int, tried: set[int]) -> bool:
        for j, candidate in enumerate(original):
            if j not in tried and fits(published[row], candidate):
                tried.add(j)
                if j not in partner or augment(partner[j], tried):
                    partner[j] = row
                    return True
        return False

    return sum(augment(row, set()) for row in range(len(published)))


person = st.tuples(
    st.sampled_from([None, 0, 1, 2, 3, 4, 7]),
    st.sampled_from([None, "x", "y", "z", "w"]),
    st.sampled_from(["flu", "hiv"]),
    st.sampled_from([None, 1.5, 2.5]),
)


@settings(max_examples=250, deadline=None)
@given(original=st.lists(person, min_size=1, max_size=14), data=st.data(), noise=st.sampled_from([0, 0, 1, 3]))
def test_matching_of_overlapping_classes(original: list[tuple[Any, ...]], data: st.DataObject, noise: int):
    published = []
    for row in original:
        numbers = [label for label, cover in NUMBER_LABELS.items() if covers(cover, row[0])]
        texts = [label for label, cover in TEXT_LABELS.items() if covers(cover, row[1])]
        published.append((data.draw(st.sampled_from(numbers)), data.draw(st.sampled_from(texts)), *row[2:]))
    for _ in range(noise):
        place = data.draw(st.integers(0, len(published) - 1))
        labels = data.draw(st.tuples(st.sampled_from(sorted(NUMBER_LABELS)), st.sampled_from(sorted(TEXT_LABELS))))
        published[place] = (*labels, *published[place][2:])
    names = ("a", "b", "s", "i")
    kinds = [pa.string(), pa.string(), pa.string(), pa.float64()]
    table = pa.table(
        {
            name: pa.array(col, type=kind)
            for name, kind, col in zip(names, kinds, zip(*published, strict=True), strict=True)
        }
    )
    kinds[0] = pa.int16()
    source = pa.table(
        {
            name: pa.array(col, type=kind)
            for name, kind, col in zip(names, kinds, zip(*original, strict=True), strict=True)
        }
    )
    used_a, used_b = set(table["a"].to_pylist()), set(table["b"].to_pylist())
    attributes = {
        "a": {
            "role": "quasi",
            "kind": "number",
            "labels": {k: v for k, v in NUMBER_LABELS.items() if k in used_a},
        },
        "b": {
            "role": "quasi",
            "kind": "category",
            "labels": {k: v for k, v in TEXT_LABELS.items() if k in used_b},
        },
        "s": {"role": "sensitive", "kind": "category"},
        "i": {"role": "insensitive", "kind": "number"},
    }
    least = min(Counter(row[:2] for row in published).values())
    promise = {"model": "k-anonymity", "parameters": {"k": 1}, "achieved": float(least)}
    verification = verify_table(table, manifest_of(attributes, [promise], len(published)), source=open_source(source))
    truth = next(check for check in verification.checks if check.name == "truth")
    false_rows = len(published) - largest_matching(published, original)
    assert truth.ok == (false_rows == 0)
    assert verification.verified == truth.ok
    if false_rows:
        assert int(re.match(r"\d+", truth.detail)[0]) == false_rows


@pytest.mark.parametrize("spoil", [False, True])
def test_many_overlapping_classes(spoil: bool):
    """Two thousand overlapping boxes over 20,000 rows; a false release is found among them."""
    rng = np.random.default_rng(5)
    n = 20_000
    original = rng.integers(0, 60, size=(n, 3))
    sensitive = rng.integers(0, 14, size=n).astype(str)
    low = original - rng.integers(0, 4, size=(n, 3)) // 2 * 3
    width = rng.choice([6, 12], size=(n, 3))
    low, width = low // 6 * 6, np.maximum(width, 6)
    width = np.where(low + width > original, width, 12)
    told = np.where((np.arange(n) == 17) & spoil, "99", sensitive)
    columns: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for a, name in enumerate("abc"):
        labels = [f"{lo}+{w}" for lo, w in zip(low[:, a].tolist(), width[:, a].tolist(), strict=True)]
        columns[name] = labels
        covers_of = {text: text.split("+") for text in set(labels)}
        attributes[name] = {
            "role": "quasi",
            "kind": "number",
            "labels": {t: {"from": int(lo), "below": int(lo) + int(w)} for t, (lo, w) in covers_of.items()},
        }
    attributes["s"] = {"role": "sensitive", "kind": "category"}
    order = rng.permutation(n)
    table = pa.table({**columns, "s": told}).take(pa.array(order))
    source = pa.table({**{name: original[:, a] for a, name in enumerate("abc")}, "s": sensitive})
    least = min(Counter(zip(*columns.values(), strict=True)).values())
    promise = {"model": "k-anonymity", "parameters": {"k": 1}, "achieved": float(least)}
    verification = verify_table(table, manifest_of(attributes, [promise], n), source=open_source(source))
    assert verification.verified is not spoil
    if spoil:
        assert [c.detail for c in verification.checks if not c.ok] == [
            "1 published rows cover no source row of their own"
        ]

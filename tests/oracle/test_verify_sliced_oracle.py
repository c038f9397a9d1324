"""The verifier of sliced releases against brute force with exact fractions, on small random tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

VALUES = ("a", "b", "c", "d")
TREE = {"*": {"G": {"a": {}, "H": {"b": {}, "c": {}}}, "d": {}}}
LABEL = {"p": "low", "q": "low", "r": "high"}
COVERS = {"low": {"values": ["p", "q"]}, "high": {"values": ["r"]}}
QUASI = ("q1", "q2", "q3")
PLANS: list[tuple[list[list[str]], list[str]]] = [  # parts, and attributes that are published as labels
    ([["q1", "q2"], ["q3", "s", "u"]], []),
    ([["q1", "q2", "q3", "x"], ["s", "u"]], []),
    ([["q1"], ["q2", "x"], ["q3", "s"], ["u"]], []),
    ([["q1"], ["q2"], ["q3", "u", "s"]], ["q1"]),
    ([["q1", "q2"], ["q3", "u", "s"]], ["q1", "q2", "q3"]),
    ([["q1", "q2"], ["q2", "q3", "s"], ["u"]], []),
    ([["q1", "q2"], ["q2", "q3"], ["q3", "s", "u"]], []),
    ([["q1", "s"], ["q2", "q3", "s"]], []),
    ([["q1", "q2", "s"], ["q2", "q3", "s"]], []),
    ([["q1", "q2"], ["q2", "s"], ["s"], ["q3", "s"]], []),
]


@dataclass
class Sliced:
    """A random table, its buckets, and what is published of it."""

    source: list[dict[str, Any]]
    bucket: list[int]  # of each record, from 1 on
    parts: list[list[str]]
    labelled: list[str]

    def shown(self, name: str, value: Any) -> Any:
        return LABEL[value] if name in self.labelled else value

    def overlapping(self) -> bool:
        return sum(map(len, self.parts)) > len({name for part in self.parts for name in part})

    def table(self) -> pa.Table:
        """Publish: each part of each bucket in another order."""
        order = sorted(range(len(self.bucket)), key=lambda i: self.bucket[i])
        columns: dict[str, list[Any]] = {"bucket": [self.bucket[i] for i in order]}
        for number, part in enumerate(self.parts):
            permuted = []
            for b in range(1, max(self.bucket) + 1):
                members = [i for i in order if self.bucket[i] == b]
                turn = number % len(members)
                permuted += members[turn:] + members[:turn]
            for name in part:
                n = sum(name in other for other in self.parts[: number + 1])
                column = name if n == 1 else f"{name} ({n})"
                columns[column] = [self.shown(name, self.source[i][name]) for i in permuted]
        return pa.table(columns)

    def manifest(self, promises: Sequence[dict[str, Any]]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for name in dict.fromkeys(name for part in self.parts for name in part):
            if name in QUASI:
                entries[name] = {"role": "quasi", "kind": "category"}
                if name in self.labelled:
                    used = {self.shown(name, record[name]) for record in self.source}
                    entries[name]["labels"] = {label: COVERS[label] for label in COVERS if label in used}
            elif name == "x":
                entries[name] = {"role": "insensitive", "kind": "number"}
            else:
                entries[name] = {"role": "sensitive", "kind": "category", "order": list(VALUES), "taxonomy": TREE}
        return {
            "format": 1,
            "shoal_version": "0",
            "method": "slicing",
            "form": "slices",
            "method_parameters": {"overlapping": True} if self.overlapping() else {},
            "guarantees": list(promises),
            "parts": self.parts,
            "buckets": max(self.bucket),
            "rows": len(self.source),
            "withheld": 0,
            "missing": {"policy": "category", "tokens": [""], "dropped": 0},
            "attributes": entries,
        }

    # What an adversary believes, by the definitions ---------------------------------------------------------

    def key(self, record: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
        return tuple(self.shown(name, record[name]) for name in names if name in QUASI)

    def joined_belief(self, t: dict[str, Any]) -> dict[tuple[Any, ...], Fraction]:
        """What is believed of s if several parts have it: the weight of (t, s) as if s were known."""
        weights: dict[tuple[Any, ...], Fraction] = {}
        for s in {record["s"] for record in self.source}:
            known = {**t, "s": s}
            for b in range(1, max(self.bucket) + 1):
                members = [record for record, own in zip(self.source, self.bucket, strict=True) if own == b]
                chance = Fraction(1)
                met: set[str] = set()
                for part in self.parts:
                    shared = [name for name in part if name in met]
                    fits = sum(all(record[name] == known[name] for name in part) for record in members)
                    among = sum(all(record[name] == known[name] for name in shared) for record in members)
                    chance *= Fraction(fits, among) if fits else Fraction(0)
                    met |= set(part)
                if chance:
                    weights[s,] = weights.get((s,), Fraction(0)) + chance
        return {value: weight / sum(weights.values()) for value, weight in weights.items()}

    def belief(self, t: dict[str, Any], subject: Sequence[str]) -> dict[tuple[Any, ...], Fraction]:
        if sum("s" in part for part in self.parts) > 1:
            return self.joined_belief(t)
        holder = next(part for part in self.parts if set(subject) <= set(part))
        chances: dict[int, Fraction] = {}
        believed: dict[int, Counter[tuple[Any, ...]]] = {}
        for b in range(1, max(self.bucket) + 1):
            members = [record for record, own in zip(self.source, self.bucket, strict=True) if own == b]
            chance = Fraction(1)
            met: set[str] = set()
            for part in self.parts:
                quasi = [name for name in part if name in QUASI]
                # Parts come in an order in which what a part shares with all before it is shared with one of them.
                shared = [name for name in quasi if name in met]
                fits = sum(self.key(record, quasi) == self.key(t, quasi) for record in members)
                among = sum(self.key(record, shared) == self.key(t, shared) for record in members)
                chance *= Fraction(fits, among) if fits else Fraction(0)
                met |= set(quasi)
            if chance:
                chances[b] = chance
                same = [record for record in members if self.key(record, holder) == self.key(t, holder)]
                believed[b] = Counter(tuple(record[name] for name in subject) for record in same)
        total = sum(chances.values())
        out: dict[tuple[Any, ...], Fraction] = {}
        for b, chance in chances.items():
            for value, count in believed[b].items():
                share = chance / total * Fraction(count, sum(believed[b].values()))
                out[value] = out.get(value, Fraction(0)) + share
        return out

    def whole(self, subject: Sequence[str]) -> dict[tuple[Any, ...], Fraction]:
        counts = Counter(tuple(record[name] for name in subject) for record in self.source)
        return {value: Fraction(count, len(self.source)) for value, count in counts.items()}


records = st.lists(
    st.fixed_dictionaries(
        {
            "q1": st.sampled_from("pqr"),
            "q2": st.sampled_from("pqr"),
            "q3": st.sampled_from("pr"),
            "s": st.sampled_from((*VALUES, None)),
            "u": st.sampled_from("ab"),
            "x": st.integers(0, 1),
        }
    ),
    min_size=3,
    max_size=14,
)


@st.composite
def sliced_tables(draw: st.DrawFn) -> Sliced:
    source = draw(records)
    raw = draw(st.lists(st.integers(1, 4), min_size=len(source), max_size=len(source)))
    numbers = {old: new for new, old in enumerate(sorted(set(raw)), start=1)}
    parts, labelled = draw(st.sampled_from(PLANS))
    for name in ("x", "u"):
        if not any(name in part for part in parts):
            for record in source:
                del record[name]
    return Sliced(source, [numbers[b] for b in raw], parts, labelled)


def rank(value: Any) -> int:
    return VALUES.index(value) if value is not None else len(VALUES)


def earth_moved(p: dict[Any, Fraction], q: dict[Any, Fraction], distance: str) -> Fraction:
    values = sorted({value for (value,) in q}, key=rank)
    gap = [p.get((value,), Fraction(0)) - q[value,] for value in values]
    if distance == "equal":
        return sum(map(abs, gap), Fraction(0)) / 2
    if distance == "ordered":
        moved = sum((abs(sum(gap[: i + 1])) for i in range(len(gap))), Fraction(0))
        return moved / max(1, len(values) - 1)
    above: dict[Any, tuple[str, ...]] = {"a": ("G",), "b": ("G", "H"), "c": ("G", "H"), "d": (), None: ()}
    flow = Fraction(0)
    # Over a tree each node lets pass what its leaves cannot settle; the cost is by heights 1, 2, 3 of H, G, root.
    heights = {"*": 3, "G": 2, "H": 1}

    def settle(node: str) -> Fraction:
        nonlocal flow
        own = [gap[i] for i, value in enumerate(values) if (above[value] or ("*",))[-1] == node]
        children = {"*": ["G"], "G": ["H"], "H": []}[node]
        extras = own + [settle(child) for child in children]
        plus, minus = sum((e for e in extras if e > 0), Fraction(0)), -sum((e for e in extras if e < 0), Fraction(0))
        flow += heights[node] * min(plus, minus)
        return plus - minus

    settle("*")
    return flow / 3


def reached(model: str, parameters: dict[str, Any], p: dict[Any, Fraction], q: dict[Any, Fraction]) -> float:
    """Return what a distribution reaches of a model, by its definition."""
    shares = sorted(p.values(), reverse=True)
    if model == "distinct-l-diversity":
        return len(shares)
    if model == "simple-l-diversity":
        return float(1 / shares[0])
    if model == "entropy-l-diversity":
        return math.exp(-sum(float(share) * math.log(share) for share in shares))
    if model == "recursive-cl-diversity":
        tail = sum(shares[parameters["l"] - 1 :])
        return float(shares[0] / tail) if tail else math.inf
    if model == "tau-l-diversity":
        l = parameters["l"]
        tops = [sum(shares[: k + 1]) for k in range(l - 1)]
        return float(max([Fraction(0), *(1 - (1 - top) / (1 - Fraction(k, l - 1)) for k, top in enumerate(tops))]))
    if model == "t-closeness":
        return float(earth_moved(p, q, parameters["distance"]))
    if model == "beta-likeness":
        return float(max(max((p[v] - q[v]) / q[v], Fraction(0)) for v in p))
    if model == "delta-disclosure":
        return max(abs(math.log(p[v] / q[v])) for v in p) if len(p) == len(q) else math.inf
    raise AssertionError(model)


MODELS: list[tuple[str, dict[str, Any], str]] = [  # with the parameter that sets the limit
    ("distinct-l-diversity", {}, "l"),
    ("simple-l-diversity", {}, "l"),
    ("entropy-l-diversity", {}, "l"),
    ("recursive-cl-diversity", {"l": 2}, "c"),
    ("tau-l-diversity", {"l": 3}, "tau"),
    ("t-closeness", {"distance": "equal"}, "t"),
    ("t-closeness", {"distance": "ordered"}, "t"),
    ("t-closeness", {"distance": "hierarchical"}, "t"),
    ("beta-likeness", {"enhanced": False}, "beta"),
    ("delta-disclosure", {}, "delta"),
]
AT_LEAST = ("distinct-l-diversity", "simple-l-diversity", "entropy-l-diversity")


def limit_beside(model: str, worst: float, *, met: bool) -> float:
    """Return a limit that is clearly met, or clearly missed, by what is reached."""
    if model == "distinct-l-diversity":
        return int(worst) if met else int(worst) + 1
    if model in AT_LEAST:
        return max(1.0, float(f"{worst * (0.999 if met else 1.001):.6g}"))
    return float(f"{worst * (1.001 if met else 0.999) + (1e-5 if met else 0.0):.6g}")


@pytest.mark.parametrize(("model", "parameters", "limited"), MODELS)
@settings(max_examples=20)
@given(sliced=sliced_tables(), met=st.booleans())
def test_every_model_on_beliefs(model, parameters, limited, sliced, met):
    whole = sliced.whole(["s"])
    figures = [reached(model, parameters, sliced.belief(t, ["s"]), whole) for t in sliced.source]
    worst = min(figures) if model in AT_LEAST else max(figures)
    if not math.isfinite(worst):
        return
    limit = limit_beside(model, worst, met=met)
    if (not met and limit <= 0) or (limited == "tau" and limit > 1):
        return
    promise = {"model": model, "parameters": {**parameters, limited: limit, "attribute": "s"}, "achieved": worst}
    found = verify_table(
        sliced.table(),
        sliced.manifest([promise]),
        source=open_source(pa.Table.from_pylist(sliced.source)),
        witness=np.array(sliced.bucket),
    )
    assert [check for check in found.checks if not check.ok] == []
    assert found.guarantees[0].achieved == pytest.approx(worst, rel=1e-9, abs=1e-9)
    assert (found.verdict != "failed") is met, found.guarantees[0].detail


@settings(max_examples=40)
@given(sliced=sliced_tables())
def test_several_sensitive_attributes_and_joint_values(sliced):
    if "u" not in sliced.source[0]:
        return
    together = any({"s", "u"} <= set(part) for part in sliced.parts)
    apart = min(1 / max(sliced.belief(t, [name]).values()) for t in sliced.source for name in ("s", "u"))
    promises = [{"model": "simple-l-diversity", "parameters": {"l": 1}, "achieved": float(apart)}]
    promises.append({"model": "simple-l-diversity", "parameters": {"l": 1, "attribute": ["s", "u"]}, "achieved": 1.0})
    if together:
        joint = min(1 / max(sliced.belief(t, ["s", "u"]).values()) for t in sliced.source)
        promises[1]["achieved"] = float(joint)
    source = open_source(pa.Table.from_pylist(sliced.source))
    found = verify_table(sliced.table(), sliced.manifest(promises), source=source, witness=np.array(sliced.bucket))
    assert found.guarantees[0].ok
    assert found.guarantees[1].ok is together


def combinations_of(sliced: Sliced) -> list[dict[str, Any]]:
    """Return all tuples of quasi values that some bucket could form."""
    formed: dict[tuple[Any, ...], dict[str, Any]] = {}
    domains = [sorted({record[name] for record in sliced.source}) for name in QUASI]
    for q1 in domains[0]:
        for q2 in domains[1]:
            for q3 in domains[2]:
                t = {"q1": q1, "q2": q2, "q3": q3}
                if sliced.belief(t, ["s"]):
                    formed.setdefault(tuple(sliced.key(t, part) for part in sliced.parts), t)
    return list(formed.values())


@settings(max_examples=40)
@given(sliced=sliced_tables(), l=st.sampled_from([1.5, 2, 3]))
def test_without_a_source_all_tuples_that_could_be_formed_are_judged(sliced, l):
    figures = [1 / max(sliced.belief(t, ["s"]).values()) for t in combinations_of(sliced)]
    worst = float(min(figures))
    actual = float(min(1 / max(sliced.belief(t, ["s"]).values()) for t in sliced.source))
    promise = {"model": "simple-l-diversity", "parameters": {"l": l, "attribute": "s"}, "achieved": actual}
    found = verify_table(sliced.table(), sliced.manifest([promise])).guarantees[0]
    assert found.achieved == pytest.approx(worst)
    near = sum(abs(float(figure) - l) < 1e-6 for figure in figures)
    if not near:
        assert found.ok is (worst >= l)
    if worst < l and not near:
        failing = sum(figure < l for figure in figures)
        assert found.detail.startswith(f"{failing} of {len(figures)} different tuples that the buckets could form fail")


@settings(max_examples=40)
@given(sliced=sliced_tables())
def test_k_anonymity_counts_buckets_and_values_within_parts(sliced):
    counts: list[Counter[Any]] = [Counter(sliced.bucket)]
    known = [part for part in sliced.parts if any(name in QUASI for name in part)]
    counts += [Counter(sliced.key(record, part) for record in sliced.source) for part in known]
    k = min(min(count.values()) for count in counts)
    for asked in (k, k + 1):
        promise = {"model": "column-frequency", "parameters": {"k": asked}, "achieved": float(k)}
        assert verify_table(sliced.table(), sliced.manifest([promise])).verified is (asked == k)

"""Releases of the sweep on small tables of any shape: true, and as good as promised by counting in fractions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate, product
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal
from shoal.core.errors import UnreachableError

QUASI = ("place", "age")
ILLNESSES = ["angina", "flu", "gout", "mumps", "scurvy"]
WEIGHTS = {"angina": 1, "flu": 2, "gout": 0.5, "mumps": 1, "scurvy": 3}
ROW = st.tuples(
    st.sampled_from(["a", "b", "c", "d", None]),
    st.one_of(st.none(), st.integers(0, 19)),
    st.sampled_from([*ILLNESSES, "flu", "flu", "angina", None]),
    st.sampled_from(["cook", "clerk", "smith"]),
)
ROWS = st.lists(ROW, min_size=6, max_size=40).filter(
    lambda rows: all(any(row[column] is not None for row in rows) for column in range(4))
)
MODELS: list[dict[str, Any]] = [
    {"k-anonymity": {"k": 3}},
    {"tau-l-diversity": {"tau": 0.5, "l": 3, "attribute": "illness"}},
    {"tau-l-diversity": {"tau": 0.75, "l": 3, "psi": [0.75, 0.9, 1], "attribute": "illness"}},
    {"tau-l-diversity": {"tau": 0.7, "l": 2, "weights": WEIGHTS, "attribute": "illness"}},
    {"tau-l-diversity": {"tau": 0.7, "l": 2, "attribute": "job"}},
    {"simple-l-diversity": {"l": 2, "attribute": "illness"}},
    {"distinct-l-diversity": {"l": 2}},
    {"distinct-l-diversity": {"l": 3, "attribute": ["illness", "job"]}},
    {"entropy-l-diversity": {"l": 1.8, "attribute": "illness"}},
    {"recursive-cl-diversity": {"c": 2, "l": 2, "attribute": "illness"}},
    {"t-closeness": {"t": 0.45, "attribute": "illness"}},
    {"alpha-k-anonymity": {"alpha": 0.6, "k": 2, "attribute": "illness"}},
    {"beta-likeness": {"beta": 2, "enhanced": False, "attribute": "illness"}},
    {"delta-disclosure": {"delta": 2, "attribute": "job"}},
]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    place, age, illness, job = zip(*rows, strict=True)
    return pa.table(
        {
            "place": pa.array(place, pa.string()),
            "age": pa.array(age, pa.int64()),
            "illness": pa.array(illness, pa.string()),
            "job": job,
            "row": list(range(len(rows))),
        }
    )


def policy_of(privacy: list[dict[str, Any]], improve: bool, **options: Any) -> dict[str, Any]:
    body = {"any": {"inner": {"heart": ["angina"], "joints": ["gout", "scurvy"]}, "germs": ["flu", "mumps"]}}
    return {
        "attributes": {
            "place": {"role": "quasi", "taxonomy": {"tree": {"*": {"abc": {"ab": ["a", "b"], "c": None}, "d": None}}}},
            "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 19, "widths": [1, 5, 10]}}},
            "illness": {"role": "sensitive", "taxonomy": {"tree": body}},
            "job": {"role": "sensitive", "taxonomy": {"groups": {"hot": ["cook", "smith"], "cold": ["clerk"]}}},
            "row": {"role": "insensitive"},
        },
        "privacy": privacy,
        "method": {"sweep": {"improve": improve}},
        **options,
    }


def leaves(text: Any, labels: Mapping[str, Any] | None) -> list[Any]:
    if labels is None or text is None:
        return [text]
    return labels[text].get("values", []) + ([None] if labels[text].get("missing") else [])


def induced(
    records: list[dict[str, Any]], names: list[str], labels: Mapping[str, Any], weights: Mapping[str, float] | None
) -> dict[Any, Fraction]:
    """Definition 2 on published rows."""
    frequency: Counter[Any] = Counter()
    for record in records:
        under = list(product(*(leaves(record[name], labels.get(name)) for name in names)))
        weight = [Fraction(str(weights[leaf[0]])) if weights and leaf[0] is not None else Fraction(1) for leaf in under]
        for leaf, amount in zip(under, weight if len(under) > 1 else [Fraction(1)], strict=True):
            if amount:
                frequency[leaf] += amount / (sum(weight) if len(under) > 1 else 1) / len(records)
    return dict(frequency)


def holds(name: str, asked: dict[str, Any], p: dict[Any, Fraction], q: dict[Any, Fraction], size: int) -> bool:
    top = sorted(p.values(), reverse=True)
    exact = {key: Fraction(str(value)) for key, value in asked.items() if type(value) in (int, float)}
    match name:
        case "tau-l-diversity":
            l = asked["l"]
            line = [exact["tau"] + (1 - exact["tau"]) * Fraction(k, l - 1) for k in range(l)]
            curve = [Fraction(str(point)) for point in asked.get("psi", ())] or line
            return all(share <= limit for share, limit in zip(accumulate(top), curve, strict=False))
        case "simple-l-diversity":
            return top[0] * exact["l"] <= 1
        case "distinct-l-diversity":
            return len(p) >= asked["l"]
        case "entropy-l-diversity":
            return math.exp(-sum(float(x) * math.log(x) for x in top)) >= asked["l"] - 1e-9
        case "recursive-cl-diversity":
            return top[0] < exact["c"] * sum(top[asked["l"] - 1 :])
        case "t-closeness":
            return sum(abs(p.get(v, Fraction(0)) - q[v]) for v in q) / 2 <= exact["t"]
        case "alpha-k-anonymity":
            return size >= asked["k"] and top[0] <= exact["alpha"]
        case "beta-likeness":
            return all(share <= q[v] * (1 + exact["beta"]) for v, share in p.items())
        case "delta-disclosure":
            return all(v in p and abs(math.log(p[v] / q[v])) < asked["delta"] + 1e-9 for v in q)
    raise AssertionError(name)


def check(release: Any, table: pa.Table, privacy: list[dict[str, Any]]) -> None:
    data = release.data.to_pylist()
    attributes = release.manifest["attributes"]
    labels = {name: entry["labels"] for name, entry in attributes.items() if "labels" in entry}
    source = {record["row"]: record for record in table.to_pylist()}
    rows = [record["row"] for record in data]
    assert len(set(rows)) == len(rows) == release.manifest["rows"]
    assert len(rows) + release.manifest["withheld"] + release.manifest["missing"]["dropped"] == table.num_rows
    classes = defaultdict(list)
    for record in data:
        classes[record["place"], record["age"]].append(record)
        for name in ("illness", "job"):
            assert source[record["row"]][name] in leaves(record[name], labels.get(name))
    for model in privacy:
        ((name, asked),) = model.items()
        if name == "k-anonymity":
            assert min(map(len, classes.values())) >= asked["k"]
            continue
        named = asked.get("attribute")
        for names in [named] if isinstance(named, list) else [[named]] if named else [["illness"], ["job"]]:
            weights = asked.get("weights")
            whole = induced(data, names, labels, weights)
            for records in classes.values():
                assert holds(name, asked, induced(records, names, labels, weights), whole, len(records)), name
    assert release.verification.verified  # with the source
    for name in ("illness", "job"):
        asked = [model["tau-l-diversity"] for model in privacy if "tau-l-diversity" in model]
        taus = [Fraction(str(one["tau"])) for one in asked if one["attribute"] == name]
        check_labels(data, source, name, labels.get(name, {}), taus)


def check_labels(
    data: list[dict[str, Any]], source: dict[int, dict[str, Any]], name: str, labels: Mapping[str, Any], taus: list[Any]
) -> None:
    """Under no label of a class has a value more than tau, or than in all records that are published."""
    groups: dict[tuple[Any, ...], Counter[Any]] = defaultdict(Counter)
    for record in data:
        if labels.get(record[name], {"values": [record[name]]}) != {"values": [record[name]]}:
            groups[record["place"], record["age"], record[name]][source[record["row"]][name]] += 1
    base = Counter(source[record["row"]][name] for record in data)
    for group in groups.values():
        for value, n in group.items():
            assert n <= max(min(taus), Fraction(base[value], len(data))) * group.total()


@settings(suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    chosen=st.sets(st.integers(0, len(MODELS) - 1), min_size=1, max_size=3),
    improve=st.booleans(),
    missing=st.sampled_from(["category", "drop"]),
    withheld=st.sampled_from([0, 0.2]),
    seed=st.integers(0, 5),
)
def test_a_release_of_the_sweep_keeps_its_word(
    rows: list[tuple[Any, ...]], chosen: set[int], improve: bool, missing: str, withheld: float, seed: int
) -> None:
    if missing == "drop" and not any(None not in row for row in rows):
        return
    privacy = [MODELS[number] for number in sorted(chosen)]
    document = policy_of(privacy, improve, missing=missing, max_withheld=withheld)
    table = table_of(rows)
    try:
        release = shoal.anonymize(table, document, seed=seed)
    except UnreachableError:
        return
    check(release, table, privacy)
    again = shoal.anonymize(table, document, seed=seed)
    assert again.data.equals(release.data)
    assert again.manifest == release.manifest


@settings(suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    chosen=st.sets(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 11]), min_size=1, max_size=2),
    seed=st.integers(0, 5),
)
def test_improving_never_lowers_um(rows: list[tuple[Any, ...]], chosen: set[int], seed: int) -> None:
    privacy = [MODELS[number] for number in sorted(chosen)]
    try:
        plain = shoal.anonymize(table_of(rows), policy_of(privacy, improve=False), seed=seed)
    except UnreachableError:
        return
    better = shoal.anonymize(table_of(rows), policy_of(privacy, improve=True), seed=seed)  # never refuses then
    assert better.utility["um"] >= plain.utility["um"] - 1e-12

"""Slicing of small tables of any shape: a clear refusal, or a release of which every tuple keeps the promise."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

QUASI = ("a", "b", "c")
VALUES = {
    "a": st.one_of(st.none(), st.integers(0, 5)),
    "b": st.sampled_from(["x", "y", None]),
    "c": st.sampled_from(["u", "v"]),
    "s": st.one_of(st.sampled_from("pqrt"), st.sampled_from("pqrt"), st.none()),
}


def tables(least: int, most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows of which every column has a value somewhere."""
    some = {"a": 3, "b": "x", "c": "u", "s": "p"}
    rows = st.lists(st.fixed_dictionaries(VALUES), min_size=least - 1, max_size=most - 1)
    return rows.map(lambda others: [*others, some])


MODELS = st.one_of(
    st.builds(lambda l: ("simple-l-diversity", {"l": l}), st.sampled_from([1, 1.25, 1.5, 2, 3])),
    st.builds(lambda l: ("distinct-l-diversity", {"l": l}), st.integers(1, 3)),
    st.builds(lambda c: ("recursive-cl-diversity", {"c": c, "l": 2}), st.sampled_from([1, 2, 3.5])),
    st.builds(lambda t: ("t-closeness", {"t": t}), st.sampled_from([0.2, 0.25, 0.5, 0.75])),
)
SHARED = [[["a", "b"], ["b", "c", "s"]], [["a", "c"], ["c", "s"], ["c", "b"]], [["a", "s"], ["b", "c", "s"]]]
Parts = list[list[str]]


@st.composite
def parts_by_hand(draw: st.DrawFn) -> Parts:
    """Any partition of the four attributes into two parts or more."""
    where = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    assume(len(set(where)) > 1)
    return [[name for name, place in zip("abcs", where, strict=True) if place == part] for part in sorted(set(where))]


OPTIONS = st.one_of(
    st.just({}),
    st.builds(lambda n: {"grouping": "random", "bucket_size": n}, st.integers(2, 9)),
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.string(), "s": pa.string(), "row": pa.string()})
    return pa.Table.from_pylist([row | {"row": f"r{i}"} for i, row in enumerate(rows)], schema)


def policy(model: tuple[str, dict[str, Any]], method: dict[str, Any], **options: Any) -> dict[str, Any]:
    roles = {name: {"role": "quasi"} for name in QUASI}
    return {
        "attributes": {**roles, "s": {"role": "sensitive"}, "row": {"role": "insensitive"}},
        "privacy": [{model[0]: model[1]}],
        "method": {"slicing": method},
        **options,
    }


def covers(cover: dict[str, Any], value: Any) -> bool:
    if cover.get("any") or value is None:
        return bool(cover.get("any") or cover.get("missing"))
    if "values" in cover:
        return value in cover["values"]
    low, below = cover.get("from"), cover.get("below")
    return "from" in cover and (low is None or low <= value) and (below is None or value < below)


def columns_of(parts: Parts) -> list[dict[str, str]]:
    """The column of each attribute in each part."""
    times: Counter[str] = Counter()
    out = []
    for part in parts:
        times.update(part)
        out.append({name: name if times[name] == 1 else f"{name} ({times[name]})" for name in part})
    return out


def beliefs(release: Any, data: pa.Table, source: pa.Table) -> list[dict[Any, Fraction]]:
    """p(t,.) of every published record, by counting the rows of every bucket that fit it."""
    buckets: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in data.to_pylist():
        buckets[row["bucket"]].append(row)
    attributes, columns = release.manifest["attributes"], columns_of(release.manifest["parts"])
    stated = set(data["row"].to_pylist())

    def fits(record: dict[str, Any], published: Any, name: str) -> bool:
        labels = attributes[name].get("labels")
        return record[name] == published if labels is None else covers(labels[published], record[name])

    # (bucket, part): its values with counts
    contents = [
        [
            Counter(tuple((name, row[column]) for name, column in part.items() if name != "row") for row in rows)
            for part in columns
        ]
        for rows in buckets.values()
    ]
    out = []
    people = [record for record in source.to_pylist() if record["row"] in stated]
    for quasi in {tuple((name, record[name]) for name in QUASI) for record in people}:
        weight: dict[Any, Fraction] = defaultdict(Fraction)
        for parts in contents:
            for value in {entry for entries in parts for one in entries for name, entry in one if name == "s"}:
                wanted = dict(quasi) | {"s": value}
                expected, seen = Fraction(1, parts[0].total()), set()
                for entries, part in zip(parts, columns, strict=True):
                    for power, asked in ((1, set(part)), (-1, set(part) & seen)):
                        if power > 0 or seen:
                            count = sum(
                                times
                                for one, times in entries.items()
                                if all(fits(wanted, entry, name) for name, entry in one if name in asked)
                            )
                            expected *= Fraction(count) ** power if count else 0
                    if not expected:
                        break
                    seen |= set(part)
                weight[value] += expected
        total = sum(weight.values())
        out.append({value: share / total for value, share in weight.items() if share})
    return out


def figure(model: str, p: dict[Any, Fraction], q: dict[Any, Fraction]) -> Any:
    falling = sorted(p.values(), reverse=True)
    if model == "simple-l-diversity":
        return 1 / falling[0]
    if model == "distinct-l-diversity":
        return len(falling)
    if model == "recursive-cl-diversity":
        return falling[0] / sum(falling[1:]) if falling[1:] else Fraction(10**9)
    return sum(abs(p.get(value, Fraction(0)) - share) for value, share in q.items()) / 2


def check(release: Any, source: pa.Table, model: tuple[str, dict[str, Any]]) -> None:
    data = release.data
    numbers = data["bucket"].to_pylist()
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, release.manifest["buckets"] + 1))
    whole = Counter(data["s"].to_pylist())
    q = {value: Fraction(count, data.num_rows) for value, count in whole.items()}
    figures = [figure(model[0], p, q) for p in beliefs(release, data, source)]
    name, given_ = model
    wanted = Fraction(str(next(iter(given_.values()))))
    achieved = release.guarantees[0]["achieved"]
    assert release.verification.guarantees[0].achieved == pytest.approx(achieved, rel=1e-9, abs=1e-9)
    if name in ("simple-l-diversity", "distinct-l-diversity"):
        assert min(figures) >= wanted
        assert achieved == pytest.approx(float(min(figures)), rel=1e-9)
    else:
        assert max(figures) < wanted if name == "recursive-cl-diversity" else max(figures) <= wanted
        assert achieved == pytest.approx(float(max(figures)), rel=1e-9, abs=1e-9)


def published_buckets(release: Any, source: pa.Table) -> Any:
    bucket_of = dict(zip(release.data["row"].to_pylist(), release.data["bucket"].to_pylist(), strict=True))
    return np.array([bucket_of.get(row, 0) for row in source["row"].to_pylist()], dtype=np.int64)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(
    rows=tables(2, 36),
    parts=parts_by_hand(),
    model=MODELS,
    options=OPTIONS,
    missing=st.sampled_from(["category", "drop"]),
    withheld=st.sampled_from([0, 0.3]),
    seed=st.integers(0, 3),
)
def test_a_release_keeps_its_word_or_is_refused(
    rows: list[dict[str, Any]],
    parts: Parts,
    model: tuple[str, dict[str, Any]],
    options: dict[str, Any],
    missing: str,
    withheld: float,
    seed: int,
) -> None:
    source = table(rows)
    complete = source if missing == "category" else source.drop_null()
    asked = policy(model, {"parts": parts, **options}, missing=missing, max_withheld=withheld)
    try:
        release = shoal.anonymize(source, asked, seed=seed)
    except UnreachableError:
        return
    assert release.manifest["rows"] + release.manifest["withheld"] == complete.num_rows
    check(release, source, model)


@given(
    rows=tables(20, 50),
    parts=st.sampled_from(SHARED),
    model=MODELS,
    options=st.sampled_from([{}, {"bucket_size": 5}, {"grouping": "random", "bucket_size": 6}]),
)
def test_overlapping_parts_keep_their_word_or_are_refused(
    rows: list[dict[str, Any]], parts: Parts, model: tuple[str, dict[str, Any]], options: dict[str, Any]
) -> None:
    source = table(rows)
    try:
        release = shoal.anonymize(source, policy(model, {"parts": parts, "overlapping": True, **options}), seed=1)
    except UnreachableError:
        return
    check(release, source, model)


@settings(max_examples=25)
@given(
    rows=tables(12, 36),
    options=st.sampled_from([{}, {"grouping": "random", "bucket_size": 4}]),
    order=st.randoms(use_true_random=False),
)
def test_orders_within_buckets_change_no_verdict(
    rows: list[dict[str, Any]], options: dict[str, Any], order: Any
) -> None:
    source = table(rows)
    model = ("distinct-l-diversity", {"l": 2})
    parts = [["a"], ["b", "c"], ["s"]]
    try:
        release = shoal.anonymize(source, policy(model, {"parts": parts, **options}), seed=2)
    except (UnreachableError, PolicyError):
        return
    data, numbers = release.data, release.data["bucket"].to_pylist()
    columns: dict[str, Any] = {"bucket": data["bucket"]}
    for part in columns_of(release.manifest["parts"]):
        places = sorted(range(len(numbers)), key=lambda place: (numbers[place], order.random()))
        columns |= {column: data[column].take(places) for column in part.values()}
    mixed = pa.table(columns).select(data.column_names)
    again = verify_table(
        mixed, release.manifest, source=open_source(source), witness=published_buckets(release, source)
    )
    assert again.verified, again.failures
    assert [one.achieved for one in again.guarantees] == [one.achieved for one in release.verification.guarantees]

"""Publishing a slicing: buckets at random numbers, parts permuted by themselves, carried values with their part."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.errors import InputError, PolicyError, UsageError
from shoal.core.kernels import same_rows
from shoal.core.progress import Silent
from shoal.core.randomness import Chance
from shoal.engines.local import LocalEngine
from shoal.plan.plan import WITHHELD
from shoal.plan.slices import Part, Pieces, SlicedPlan
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.release.forms.slices import Slices
from shoal.release.publication import Publication
from shoal.release.sliced.table import SlicedTable, two_tables
from shoal.sources.frames import plain
from shoal.sources.opening import open_source

N = 400
ROLES = {
    "patient": "identifier",
    "age": "quasi",
    "sex": "quasi",
    "zip": "quasi",
    "illness": "sensitive",
    "cost": "insensitive",
    "ward": "insensitive",
}


def people(n: int = N, **more: Any) -> pa.Table:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "patient": [f"patient-{i:04}" for i in range(n)],
        "age": pa.array(rng.integers(20, 30, n), mask=rng.random(n) < 0.1),
        "sex": rng.choice(["f", "m"], n),
        "zip": [f"4{v}" for v in rng.integers(0, 4, n)],
        "illness": rng.choice(["ague", "catarrh", "dropsy"], n),
        "cost": np.arange(n) / 4,
        "ward": [f"ward {i}" for i in range(n)],
    }
    return pa.table({**columns, **more})


def policy(roles: dict[str, str], taxonomies: dict[str, Any], **more: Any) -> Policy:
    attributes = {name: {"role": role, "taxonomy": taxonomies.get(name)} for name, role in roles.items()}
    return Policy.load({"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}], **more})


def prepared(
    table: pa.Table,
    parts: Sequence[Sequence[str]],
    *,
    roles: dict[str, str] | None = None,
    n_buckets: int = 9,
    withheld: int = 0,
    regions: bool = False,
    taxonomies: dict[str, Any] | None = None,
    **more: Any,
) -> Publication:
    """Slice a table by hand: the given parts, and buckets that take every record in turn."""
    loaded = policy(roles or ROLES, taxonomies or {}, **more)
    source = open_source(table)
    counted = LocalEngine().count(source, (*loaded.names("sensitive"), *loaded.names("quasi")), Silent())
    encoding = encode(counted, loaded)
    problem = encoding.problem
    counts = problem.cells.counts
    cell = np.repeat(np.arange(len(counts)), counts)
    bucket = (np.random.default_rng(1).permutation(len(cell)) % n_buckets).astype(np.int32)
    bucket[:withheld] = WITHHELD
    pieces = Pieces(cell, bucket, np.ones(len(cell), dtype=np.int64))
    made = tuple(_part(problem, part, regions=regions) for part in parts)
    plan = SlicedPlan.of_pieces(made, counts, pieces, n_buckets)
    return Slices.prepare(loaded, source, counted, encoding, plan)


def _part(problem: Any, names: Sequence[str], *, regions: bool) -> Part:
    quasi = tuple(j for name in names for j, a in enumerate(problem.quasi) if a.name == name)
    sensitive = tuple(j for name in names for j, a in enumerate(problem.sensitive) if a.name == name)
    carried = tuple(name for name in names if name in problem.carried)
    if not quasi:
        return Part(quasi, sensitive, carried, np.zeros(problem.cells.n_cells, dtype=np.int32), 1)
    if not regions:
        first, values = same_rows([problem.value_codes[j] for j in quasi])
        return Part(quasi, sensitive, carried, values, len(first))
    leaves = [problem.quasi[j].taxonomy.n_leaves for j in quasi]  # two regions: halves of the first attribute
    half = max(leaves[0] // 2, 1)
    values = (np.asarray(problem.quasi_codes[quasi[0]]) >= half).astype(np.int32)
    lo = np.array([[0] * len(quasi), [half, *[0] * (len(quasi) - 1)]], dtype=np.int32)
    hi = np.array([[half, *leaves[1:]], leaves], dtype=np.int32)
    return Part(quasi, sensitive, carried, values, 2, lo, hi)


def rows_of(publication: Publication, seed: int | None = None) -> tuple[pa.Table, Any]:
    rows = publication.rows(LocalEngine(), Chance.of(seed), None, Silent())
    return plain(pa.Table.from_batches(rows.batches)), rows.buckets


def contents(table: pa.Table, columns: Sequence[str]) -> Counter[Any]:
    return Counter(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


PARTS = [["age", "sex", "cost"], ["zip", "illness", "ward"]]


def test_the_file_has_buckets_first_and_then_the_parts() -> None:
    table, _ = rows_of(prepared(people(), PARTS))
    assert table.column_names == ["bucket", "age", "sex", "cost", "zip", "illness", "ward"]
    assert table.schema.field("bucket").type == pa.int32()
    assert table.schema.field("age").type == people().schema.field("age").type
    numbers = table.column("bucket").to_pylist()
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, 10))


def test_every_part_of_every_bucket_has_just_the_records_that_were_dealt_to_it() -> None:
    source = people()
    table, buckets = rows_of(prepared(source, PARTS))
    assert buckets.dtype == np.int32
    located = source.append_column("bucket", pa.array(buckets))
    for part in PARTS:
        assert contents(table, ["bucket", *part]) == contents(located, ["bucket", *part])


def test_withheld_and_dropped_rows_have_no_bucket() -> None:
    source = people()
    publication = prepared(source, PARTS, withheld=30, missing="drop")
    table, buckets = rows_of(publication)
    dropped = publication.encoding.n_dropped
    assert dropped == source["age"].null_count > 0
    assert (buckets == 0).sum() == 30 + dropped
    assert table.num_rows == publication.n_rows == N - 30 - dropped
    assert (buckets[np.asarray(source["age"].is_null())] == 0).all()
    located = source.append_column("bucket", pa.array(buckets)).filter(pa.array(buckets > 0))
    for part in PARTS:
        assert contents(table, ["bucket", *part]) == contents(located, ["bucket", *part])


def test_a_seed_makes_the_rows_repeatable_and_nothing_else_does() -> None:
    publication = prepared(people(), PARTS)
    assert rows_of(publication, 4)[0].equals(rows_of(publication, 4)[0])
    assert not rows_of(publication, 4)[0].equals(rows_of(publication, 5)[0])
    assert not rows_of(publication)[0].equals(rows_of(publication)[0])


def test_without_a_seed_orders_are_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of ours instead of the system's decide on everything that is published of bucket numbers and orders."""
    publication = prepared(people(), PARTS, n_buckets=1)
    rows_of(publication)  # compiles what is not: numba names its files by random bytes
    asked: list[int] = []

    def highest(n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return b"\xff" * n_bytes  # everything stays where it is

    monkeypatch.setattr(os, "urandom", highest)
    source = people()
    table, _ = rows_of(publication)
    assert asked == [8, 8 * N, 8 * N]  # numbers of buckets, and an order for each part; no cell is split
    assert table["cost"].to_pylist() == source["cost"].to_pylist()
    assert table["ward"].to_pylist() == source["ward"].to_pylist()


def test_regions_are_published_by_their_labels() -> None:
    source = people()
    publication = prepared(source, [["age", "cost"], ["zip", "illness"], ["sex"]], regions=True)
    table, buckets = rows_of(publication)
    entry = publication.entries["age"]
    assert entry["role"] == "quasi"
    assert set(table["age"].to_pylist()) == set(entry["labels"])
    numbers = {label: [n for n in range(20, 30) if _covers(cover, n)] for label, cover in entry["labels"].items()}
    of_cost = dict(zip(source["cost"].to_pylist(), source["age"].to_pylist(), strict=True))
    for label, cost in zip(table["age"].to_pylist(), table["cost"].to_pylist(), strict=True):
        age = of_cost[cost]
        assert entry["labels"][label].get("missing") if age is None else age in numbers[label]
    located = source.append_column("bucket", pa.array(buckets))
    assert contents(table, ["bucket", "cost"]) == contents(located, ["bucket", "cost"])


def _covers(cover: dict[str, Any], number: int) -> bool:
    low, below = cover.get("from"), cover.get("below")
    return "from" in cover and (low is None or number >= low) and (below is None or number < below)


def test_an_attribute_in_several_parts_has_several_columns() -> None:
    source = people()
    parts = [["age", "sex"], ["sex", "zip"], ["sex", "illness"]]
    publication = prepared(source, parts)
    table, buckets = rows_of(publication)
    assert table.column_names == ["bucket", "age", "sex", "sex (2)", "zip", "sex (3)", "illness"]
    located = source.append_column("bucket", pa.array(buckets))
    assert contents(table, ["bucket", "sex (3)", "illness"]) == contents(located, ["bucket", "sex", "illness"])


def test_an_attribute_that_is_generalized_in_one_part_only_is_refused() -> None:
    exact = prepared(people(), [["age", "sex"], ["sex", "zip"], ["illness"]])
    general = prepared(people(), [["age", "sex"], ["sex", "zip"], ["illness"]], regions=True)
    assert isinstance(exact.plan, SlicedPlan)
    assert isinstance(general.plan, SlicedPlan)
    parts = (exact.plan.parts[0], *general.plan.parts[1:])
    plan = replace(general.plan, parts=parts)
    with pytest.raises(PolicyError, match="generalize all parts"):
        Slices.prepare(exact.policy, exact.source, exact.counted, exact.encoding, plan)


@pytest.mark.parametrize("role", ["quasi", "sensitive", "insensitive"])
def test_an_attribute_called_bucket_is_refused(role: str) -> None:
    table = people(bucket=["a", "b"] * (N // 2))
    with pytest.raises(PolicyError, match="rename the attribute 'bucket'"):
        prepared(table, [["age", "sex"], ["zip", "illness", "bucket"]], roles={**ROLES, "bucket": role})


def test_a_column_called_as_the_copy_of_another_is_refused() -> None:
    table = people(**{"sex (2)": ["a", "b"] * (N // 2)})
    roles = {**ROLES, "sex (2)": "insensitive"}
    parts = [["age", "sex", "sex (2)"], ["sex", "illness"]]
    with pytest.raises(PolicyError, match=r"rename the attribute 'sex \(2\)'"):
        prepared(table, parts, roles=roles)


def test_a_source_that_changes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    publication = prepared(people(), PARTS)
    shorter = open_source(people().slice(1))
    monkeypatch.setattr(type(publication), "source", shorter)
    with pytest.raises(InputError, match="changed while it was being read"):
        rows_of(publication)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([["age", "illness"], ["cost", "sex"]], "renamed"),
        ([["age", "illness"], ["sex", "ward"]], "2 of 2 parts have some"),
        ([["age"], ["sex"]], "0 of 2 parts have some"),
    ],
)
def test_what_two_tables_cannot_tell_is_refused(parts: list[list[str]], problem: str) -> None:
    names = [name for part in parts for name in part]
    if problem == "renamed":
        parts, problem = [["age"], ["count"]], "rename the attribute 'count'"
        names = ["age", "count"]
    columns = {name: [1, 2] for name in names}
    table = pa.table({"bucket": [1, 1], **columns})
    with pytest.raises(UsageError, match=problem):
        two_tables(SlicedTable.of(table, parts), ["illness", "ward", "count"])

"""Answers from sliced tables against all linkings of small ones, in exact fractions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.release.sliced.estimating import estimate_query
from shoal.release.sliced.query import Estimate, Query
from shoal.release.sliced.table import SlicedTable, name_columns, sample_linking

Row = dict[str, object]
ENTRIES = releases.state({"attributes": {name: {"role": "quasi", "kind": "number"} for name in "abcd"}}).attributes


def release(
    rows: Sequence[Row], buckets: Sequence[int], parts: list[list[str]], rng: np.random.Generator
) -> SlicedTable:
    """Slice records by hand: every part of a bucket is permuted by itself."""
    order = sorted(range(len(rows)), key=buckets.__getitem__)
    columns: dict[str, list[object]] = {"bucket": [buckets[i] for i in order]}
    for part, names in zip(parts, name_columns(parts), strict=True):
        mixed = sorted(rng.permutation(len(rows)).tolist(), key=buckets.__getitem__)
        columns |= {column: [rows[i][name] for i in mixed] for name, column in zip(part, names, strict=True)}
    return SlicedTable.of(pa.table(columns), parts)


def linkings(rows: Sequence[Row], buckets: Sequence[int], parts: list[list[str]]) -> Iterator[list[Row]]:
    """All linkings that agree in shared attributes, each as often as there are permutations that give it."""
    several = [list(itertools.permutations(range(len(rows)))) for _ in parts[1:]]
    for chosen in itertools.product(*several):
        linked: list[Row] | None = []
        for i, places in enumerate(zip(*chosen, strict=True)):
            row: Row = {name: rows[i][name] for name in parts[0]}
            for part, j in zip(parts[1:], places, strict=True):
                mine = {name: rows[j][name] for name in part}
                if buckets[i] != buckets[j] or any(row.get(name, mine[name]) != mine[name] for name in part):
                    linked = None
                    break
                row |= mine
            if linked is None:
                break
            linked.append(row)
        if linked is not None:
            yield linked


def true_answers(rows: Sequence[Row], query: Query) -> Counter[tuple[object, ...]]:
    """The answer on plain records, group by group."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        meets = all(
            wanted[0] <= row[name] < wanted[1] if isinstance(wanted, tuple) else row[name] == wanted
            for name, wanted in query.where.items()
        )
        if meets:
            found[tuple(row[name] for name in query.by)] += row[query.sum] if query.sum else 1
    return found


def moments(answers: Sequence[int]) -> tuple[Fraction, Fraction]:
    mean = Fraction(sum(answers), len(answers))
    return mean, Fraction(sum(answer * answer for answer in answers), len(answers)) - mean**2


def random_case(rng: np.random.Generator, n_rows: int) -> tuple[list[Row], list[int]]:
    rows = [{name: int(rng.integers(0, 3)) for name in "abcd"} for _ in range(n_rows)]
    return rows, [1 if i < n_rows // 2 + 1 else 2 for i in range(n_rows)]


QUERIES = [
    Query(),
    Query(where={"a": 1}),
    Query(where={"a": (1, 3), "b": 0}),
    Query(where={"a": 0, "b": (0, 2), "c": (1, None)}),
    Query(sum="b"),
    Query(where={"a": (0, 2)}, sum="b"),
    Query(where={"a": 2, "c": (0, 2)}, sum="c"),
]
DISJOINT = [[["a"], ["b"], ["c", "d"]], [["a", "d"], ["b", "c"]], [["a"], ["b"], ["c"]]]
PAIRS = [[["a", "d"], ["d", "b", "c"]]]
CHAINS = [[["a", "d"], ["d", "b"], ["b", "c"]], [["a", "d"], ["d", "b"], ["d", "c"]]]


def bounds(query: Query) -> Query:
    """The oracle compares plainly: no open ends."""
    where = {
        name: (c[0], 99 if c[1] is None else c[1]) if isinstance(c, tuple) else c for name, c in query.where.items()
    }
    return Query(where, query.sum, query.by)


@pytest.mark.parametrize("parts", [*DISJOINT, *PAIRS])
def test_expectation_and_deviation_are_those_over_all_linkings(parts: list[list[str]]) -> None:
    rng = np.random.default_rng(11)
    for n_rows in (4, 5, 5):
        rows, buckets = random_case(rng, n_rows)
        table = release(rows, buckets, parts, rng)
        tables = list(linkings(rows, buckets, parts))
        for query in QUERIES:
            mean, variance = moments([true_answers(linked, bounds(query))[()] for linked in tables])
            answer = estimate_query(table, ENTRIES, query)
            assert isinstance(answer, Estimate)
            assert answer.value == pytest.approx(float(mean), abs=1e-12)
            assert answer.error == pytest.approx(math.sqrt(variance), abs=1e-9)


@pytest.mark.parametrize("parts", [*DISJOINT, *PAIRS])
@pytest.mark.parametrize("by", [("a",), ("b",), ("a", "b"), ("b", "c", "a")])
def test_groups_are_those_of_all_linkings(parts: list[list[str]], by: tuple[str, ...]) -> None:
    rng = np.random.default_rng(13)
    rows, buckets = random_case(rng, 5)
    table = release(rows, buckets, parts, rng)
    query = Query(where={"c": (0, 2)}, by=by)
    tables = [true_answers(linked, query) for linked in linkings(rows, buckets, parts)]
    groups = sorted(set().union(*tables))
    answer = estimate_query(table, ENTRIES, query)
    assert isinstance(answer, pa.Table)
    assert answer.column_names == [*by, "value", "error"]
    assert list(zip(*(answer.column(name).to_pylist() for name in by), strict=True)) == groups
    for row, group in zip(answer.to_pylist(), groups, strict=True):
        mean, variance = moments([counted[group] for counted in tables])
        assert row["value"] == pytest.approx(float(mean), abs=1e-12)
        assert row["error"] == pytest.approx(math.sqrt(variance), abs=1e-9)


@pytest.mark.parametrize("parts", [*DISJOINT[:2], *PAIRS, *CHAINS])
def test_sampled_tables_are_linkings_and_every_linking_is_as_likely(parts: list[list[str]]) -> None:
    """Chi squared of 3,000 draws over the distinct tables; a false alarm once in a million runs of another seed."""
    rng = np.random.default_rng(14)
    rows, buckets = random_case(rng, 4)
    table = release(rows, buckets, parts, rng)
    names = table.names

    def key(linked: Sequence[Row]) -> tuple[tuple[object, ...], ...]:
        return tuple(sorted(tuple(row[name] for name in names) for row in linked))

    expected = Counter(key(linked) for linked in linkings(rows, buckets, parts))
    draws = Counter(key(sample_linking(table, rng).to_pylist()) for _ in range(3000))
    assert set(draws) <= set(expected)
    total = sum(expected.values())
    wanted = {k: 3000 * count / total for k, count in expected.items()}
    chi = sum((draws[k] - wanted[k]) ** 2 / wanted[k] for k in wanted)
    freedom = max(len(expected) - 1, 1)
    assert chi < freedom + 5 * math.sqrt(2 * freedom) + 15

"""Whatever boxes and points there are, matching finds as many false rows as brute force, in one pass or in several."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.sources.opening import open_source
from shoal.verify.passes import Means
from shoal.verify.reading import MemoryRows
from shoal.verify.verifier import verify_table

WIDTH = 6
SPANS = [(low, high) for low in range(WIDTH) for high in range(low + 1, WIDTH + 1)]
LABELS = {f"{low}-{high}": {"from": low, "below": high} for low, high in SPANS}
ROW = st.tuples(st.sampled_from(SPANS), st.sampled_from(SPANS), st.sampled_from("ab"), st.integers(0, 1))
POINT = st.tuples(st.integers(0, WIDTH - 1), st.integers(0, WIDTH - 1), st.sampled_from("ab"), st.integers(0, 1))


def manifest(rows: list[Any], source: list[Any]) -> dict[str, Any]:
    used = [{f"{low}-{high}" for low, high in (row[place] for row in rows)} for place in (0, 1)]
    quasi = [
        {"role": "quasi", "kind": "number", "labels": {name: LABELS[name] for name in sorted(names)}} for names in used
    ]
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1.0}],
        "parts": [["x", "y", "s", "c"]],
        "rows": len(rows),
        "withheld": max(0, len(source) - len(rows)),
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            "x": quasi[0],
            "y": quasi[1],
            "s": {"role": "sensitive", "kind": "category"},
            "c": {"role": "insensitive", "kind": "number"},
        },
    }


def largest_matching(rows: list[Any], source: list[Any]) -> int:
    """Return how many rows can have a point of their own, by augmenting paths."""
    taken: dict[int, int] = {}

    def serves(row: Any, point: Any) -> bool:
        inside = all(low <= value < high for (low, high), value in zip(row[:2], point[:2], strict=True))
        return inside and row[2:] == point[2:]

    def helped(row: int, tried: set[int]) -> bool:
        for place, point in enumerate(source):
            if place not in tried and serves(rows[row], point):
                tried.add(place)
                if place not in taken or helped(taken[place], tried):
                    taken[place] = row
                    return True
        return False

    return sum(helped(row, set()) for row in range(len(rows)))


@given(st.lists(ROW, min_size=1, max_size=40), st.lists(POINT, min_size=1, max_size=40), st.sampled_from([400, 900]))
def test_passes_find_what_one_pass_finds(rows: list[Any], source: list[Any], limit: int) -> None:
    published = {
        "x": [f"{low}-{high}" for (low, high), *_ in rows],
        "y": [f"{low}-{high}" for _, (low, high), *_ in rows],
        "s": [row[2] for row in rows],
        "c": [row[3] for row in rows],
    }
    original = open_source(pa.table({name: [point[p] for point in source] for p, name in enumerate("xysc")}))
    stated = manifest(rows, source)
    table = MemoryRows(pa.table(published))
    expected = verify_table(table, stated, means=Means(), source=original)
    false_rows = len(rows) - largest_matching(rows, source)
    truth = next(check for check in expected.checks if check.name == "truth")
    assert truth.ok == (false_rows == 0)
    assert truth.ok or truth.detail.startswith(f"{false_rows} published rows")
    assert verify_table(table, stated, means=Means(limit, 2), source=original) == expected


def test_the_manifest_is_one_that_is_read() -> None:
    rows = [((0, 3), (0, 6), "a", 0)]
    answer = verify_table(
        MemoryRows(pa.table({"x": ["0-3"], "y": ["0-6"], "s": ["a"], "c": [0]})),
        manifest(rows, [(1, 1, "a", 0)]),
        source=open_source(pa.table({"x": [1], "y": [1], "s": ["a"], "c": [0]})),
    )
    assert answer.verdict == "incomplete", answer.failures  # there is no witness


@pytest.mark.parametrize("n_false", [0, 1, 30])
def test_boxes_side_by_side_in_however_little_memory(n_false: int) -> None:
    rows = [((x, x + 1), (y, y + 1), "ab"[n % 2], n % 2) for x in range(WIDTH) for y in range(WIDTH) for n in range(8)]
    source = [(x, y, s, c) for (x, _), (y, _), s, c in rows]
    source = [(x, y, "b" if n < n_false else s, 1 - c if n < n_false else c) for n, (x, y, s, c) in enumerate(source)]
    stated = manifest(rows, source)
    stated["guarantees"][0]["achieved"] = 8.0
    table = MemoryRows(
        pa.table(
            {
                "x": [f"{low}-{high}" for (low, high), *_ in rows],
                "y": [f"{low}-{high}" for _, (low, high), *_ in rows],
                "s": [row[2] for row in rows],
                "c": [row[3] for row in rows],
            }
        )
    )
    original = open_source(pa.table({name: [point[p] for point in source] for p, name in enumerate("xysc")}))
    expected = verify_table(table, stated, means=Means(), source=original)
    assert expected.verdict == ("failed" if n_false else "incomplete"), expected.failures  # there is no witness
    assert verify_table(table, stated, means=Means(2500, 2), source=original) == expected

"""Generalized sensitive values: every type of source, exactness however fine the shares, free parts of a manifest."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from shoal.sources.opening import open_source
from shoal.verify import decoding, reading
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)
PRIMES = [p for p in range(3, 200) if all(p % q for q in range(2, p))]
# Source columns, and how a text file spells their values.
SOURCES: dict[str, tuple[pa.Array, list[str | None]]] = {
    "integer": (pa.array([7, -3, 7, 12, None], pa.int16()), ["7", "-3", "7", "12", None]),
    "unsigned": (pa.array([2**64 - 1, 3, 3, 4, 5], pa.uint64()), ["18446744073709551615", "3", "3", "4", "5"]),
    "float": (pa.array([0.1, 2.0, 1e20, math.nan, None]), ["0.1", "2", "1e+20", None, None]),
    "narrow float": (pa.array([0.1, 2.5, 2.5, None, 3.0], pa.float32()), ["0.1", "2.5", "2.5", None, "3"]),
    "zeros": (pa.array([1.5, -0.0, 0.0, 1.5, 0.0]), ["1.5", "0", "0", "1.5", "0"]),
    "date": (pa.array([DAY, None, DAY, datetime.date(1999, 1, 1), DAY]),
             ["2024-02-29", None, "2024-02-29", "1999-01-01", "2024-02-29"]),
    "moment": (pa.array([MOMENT, MOMENT, None, MOMENT.replace(hour=1), None], pa.timestamp("s")),
               ["2024-02-29 12:30:00", "2024-02-29 12:30:00", None, "2024-02-29 01:30:00", None]),
    "time": (pa.array([datetime.time(7, 5)] * 3 + [datetime.time(8), None], pa.time32("s")),
             ["07:05:00", "07:05:00", "07:05:00", "08:00:00", None]),
    "truth": (pa.array([True, False, True, None, None]), ["true", "false", "true", None, None]),
    "decimal": (pa.array([Decimal("1.50"), Decimal("2.00"), None, None, Decimal("1.50")]),
                ["1.50", "2.00", None, None, "1.50"]),
    "text": (pa.array(["a", "", "?", "\u00e9, b", None]), ["a", None, None, "\u00e9, b", None]),
    "dictionary": (pa.array(["a", "b", "?", "a", None]).dictionary_encode(), ["a", "b", None, "a", None]),
}  # fmt: skip


def manifest(labels: dict[str, Any], promise: tuple[str, dict[str, Any], float], rows: int, **more: Any) -> Any:
    stated = {
        "format": 1,
        "shoal_version": "0",
        "method": "sweep",
        "method_parameters": {},
        "guarantees": [dict(zip(("model", "parameters", "achieved"), promise, strict=True))],
        "parts": [["q", "s"]],
        "rows": rows,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": ["", "?"], "dropped": 0},
        "attributes": {
            "q": {"role": "quasi", "kind": "category", "labels": {"x": {"values": ["x"]}}},
            "s": {"role": "sensitive", "kind": "category", "labels": labels},
        },
    }
    return stated | more


def failed(verification: Verification) -> set[str]:
    return {check.name for check in verification.checks if not check.ok} | {
        promise.model for promise in verification.guarantees if not promise.ok
    }


@pytest.mark.parametrize("kind", SOURCES)
def test_labels_cover_source_values_of_every_type(kind):
    values, kept = SOURCES[kind]
    source = open_source(pa.table({"q": ["x"] * 5, "s": values}))
    occurring = list(dict.fromkeys(text for text in kept if text is not None))
    cover: dict[str, Any] = {"values": occurring} | ({"missing": True} if None in kept else {})
    # The first record is generalized, the others keep their values, missing ones too.
    labels = {"any": cover} | {text: {"values": [text]} for text in kept[1:] if text is not None}
    table = pa.table({"q": ["x"] * 5, "s": ["any", *kept[1:]]})
    stated = manifest(labels, ("k-anonymity", {"k": 5}, 5.0), 5)
    assert failed(verify_table(table, stated, source=source)) == set()
    cover["values"] = [*occurring, "phantom"]
    assert failed(verify_table(table, stated, source=source)) == {"values"}
    cover["values"] = [text for text in occurring if text != kept[0]]
    assert "truth" in failed(verify_table(table, stated, source=source))


def test_two_spellings_of_one_number_are_not_two_values():
    source = open_source(pa.table({"q": ["x"] * 3, "s": [0.0, -0.0, 1.5]}))
    table = pa.table({"q": ["x"] * 3, "s": ["any", "any", "any"]})
    stated = manifest({"any": {"values": ["0", "-0", "1.5"]}}, ("k-anonymity", {"k": 3}, 3.0), 3)
    assert failed(verify_table(table, stated, source=source)) == {"values"}


def fine_labels(widths: list[int]) -> tuple[dict[str, Any], list[Fraction]]:
    """Labels over the first so many values each, and what one record under each of them comes to."""
    covers = {f"first {width}": {"values": [str(value) for value in range(width)]} for width in widths}
    return covers, [sum((Fraction(1, w) for w in widths if w > v), Fraction(0)) for v in range(max(widths))]


def test_shares_finer_than_64_bits_are_compared_exactly():
    labels, amounts = fine_labels(PRIMES)
    assert math.lcm(*PRIMES) > 2**200
    table = pa.table({"q": ["x"] * len(PRIMES), "s": list(labels)})
    largest = amounts[0] / len(PRIMES)
    limit = math.ceil(largest * 10**13)
    stated = manifest(labels, ("tau-l-diversity", {"tau": limit / 10**13, "l": 2}, float(largest)), len(PRIMES))
    assert failed(verify_table(table, stated)) == set()
    stated["guarantees"][0]["parameters"]["tau"] = (limit - 1) / 10**13
    assert failed(verify_table(table, stated)) == {"tau-l-diversity"}


def test_a_curve_of_endless_length_is_not_computed():
    stated = manifest({"a": {"values": ["a"]}}, ("tau-l-diversity", {"tau": 0.5, "l": 10**15}, 1.0), 2)
    assert failed(verify_table(pa.table({"q": ["x", "x"], "s": ["a", "a"]}), stated)) == {"tau-l-diversity"}


def test_shares_that_are_too_fine_are_not_verified():
    labels, _ = fine_labels([p for p in range(3, 1000) if all(p % q for q in range(2, p))])
    table = pa.table({"q": ["x"] * len(labels), "s": list(labels)})
    verification = verify_table(table, manifest(labels, ("tau-l-diversity", {"tau": 1, "l": 2}, 1.0), len(labels)))
    assert verification.guarantees[0].detail.startswith("cannot check: its induced frequencies are too fine")
    assert verification.verdict == "failed"


@pytest.mark.parametrize(
    ("more", "fine"),
    [
        ({"utility": {"um": 0.5, "ncp": 1, "loss": 0, "attribute-loss": {"q": 0.1, "s": 0}}}, True),
        ({"utility": {"um": 0.5, "ncp": 1}}, False),
        ({"utility": {"um": 0.5, "ncp": 1, "loss": 0, "attribute-loss": {"q": 0}, "class-size": 3}}, False),
        ({"utility": {"attribute-loss": {"age": {"min": 0.1}}}}, False),
        ({"utility": {"attribute-loss": {"age": "0.1"}}}, False),
        ({"utility": {"um": math.nan}}, False),
        ({"utility": {"um": {"age": math.inf}}}, False),
        ({"utility": {"um": True}}, False),
        ({"utility": {"um": None}}, False),
        ({"utility": [0.5]}, False),
        ({"levels": {"q": 0}}, False),  # of another method
        ({"levels": {}}, False),
        ({"levels": {"q": -1}}, False),
        ({"levels": {"q": 1.0}}, False),
        ({"levels": {"q": True}}, False),
        ({"levels": {"s": 1}}, False),
        ({"levels": {"zip": 1}}, False),
        ({"levels": [0]}, False),
    ],
)
def test_figures_of_utility_and_levels(more, fine):
    labels = {"1": {"values": ["1"]}, "2": {"values": ["2"]}}
    stated = manifest(labels, ("k-anonymity", {"k": 2}, 2.0), 2, **more)
    verification = verify_table(pa.table({"q": ["x"] * 2, "s": ["1", "2"]}), stated)
    assert failed(verification) == (set() if fine else {"manifest"})


def test_rows_are_counted_alike_however_often_they_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["1-2", "1", None, "1-2", "3-4", "1-2", "1", "1-2"]
    table = pa.table({"q": ["a", "b", "a", "b", "b", "a", "a", None], "s": values})
    labels = pa.array(["1-2", "3-4"])
    monkeypatch.setattr(reading, "BATCH", 1)
    for pending, rows in product((1, 2, 100), (table, table.set_column(1, "s", table["s"].dictionary_encode()))):
        monkeypatch.setattr(decoding, "_PENDING", pending)
        counted, kept = decoding._count_rows(reading.MemoryRows(rows), ["q", "s"], labels)
        found = {(row["q"], row["s"]): row["records"] for row in counted.to_pylist()}
        assert found == {("a", "1-2"): 2, ("b", "1-2"): 1, ("b", "3-4"): 1, (None, "1-2"): 1}
        assert len(counted) == 4
        assert {(row["q"], row["s"]): row["records"] for row in kept.to_pylist()} == {
            ("b", "1"): 1,
            ("a", "1"): 1,
            ("a", None): 1,
        }

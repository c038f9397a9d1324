"""Generalized sensitive values: every type of source, exactness however fine the shares, free parts of a manifest."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)
PRIMES = [p for p in range(3, 62) if all(p % q for q in range(2, p))]
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


def compare(table: pa.Table, stated: dict[str, Any], source: pa.Table) -> set[str]:
    """Return the checks that fail with the witness: the row has the n-th label, or the number after the last."""
    labels = list(stated["attributes"]["s"]["labels"])
    witness = [1 + (len(labels) if text is None else labels.index(text)) for text in table["s"].to_pylist()]
    return failed(verify_table(table, stated, source=open_source(source), witness=np.array(witness)))


@pytest.mark.parametrize("kind", SOURCES)
def test_labels_cover_source_values_of_every_type(kind):
    values, kept = SOURCES[kind]
    source = pa.table({"q": ["x"] * 5, "s": values})
    occurring = list(dict.fromkeys(text for text in kept if text is not None))
    cover: dict[str, Any] = {"values": occurring} | ({"missing": True} if None in kept else {})
    # The first record is generalized, the others keep their values, missing ones too.
    labels = {"any": cover} | {text: {"values": [text]} for text in kept[1:] if text is not None}
    table = pa.table({"q": ["x"] * 5, "s": ["any", *kept[1:]]})
    stated = manifest(labels, ("k-anonymity", {"k": 5}, 5.0), 5)
    assert compare(table, stated, source) == set()
    cover["values"] = [*occurring, "phantom"]
    assert compare(table, stated, source) == {"values"}
    cover["values"] = [text for text in occurring if text != kept[0]]
    assert "truth" in compare(table, stated, source)


def test_two_spellings_of_one_number_are_not_two_values():
    source = pa.table({"q": ["x"] * 3, "s": [0.0, -0.0, 1.5]})
    table = pa.table({"q": ["x"] * 3, "s": ["any", "any", "any"]})
    stated = manifest({"any": {"values": ["0", "-0", "1.5"]}}, ("k-anonymity", {"k": 3}, 3.0), 3)
    assert compare(table, stated, source) == {"values"}


def fine_labels(widths: list[int]) -> tuple[dict[str, Any], list[Fraction]]:
    """Labels over the first so many values each, and what one record under each of them comes to."""
    covers = {f"first {width}": {"values": [str(value) for value in range(width)]} for width in widths}
    return covers, [sum((Fraction(1, w) for w in widths if w > v), Fraction(0)) for v in range(max(widths))]


def test_shares_finer_than_64_bits_are_compared_exactly():
    labels, amounts = fine_labels(PRIMES)
    assert 2**64 < math.lcm(*PRIMES) < 2**80
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


@pytest.mark.parametrize("largest", [80, 1000])
def test_shares_that_are_too_fine_are_not_verified(largest):
    labels, _ = fine_labels([p for p in range(3, largest) if all(p % q for q in range(2, p))])
    table = pa.table({"q": ["x"] * len(labels), "s": list(labels)})
    promise = ("tau-l-diversity", {"tau": 0.123456789, "l": 2}, 1.0)
    verification = verify_table(table, manifest(labels, promise, len(labels)))
    detail = verification.guarantees[0].detail
    assert detail.startswith("cannot check: its ")
    assert detail.endswith("frequencies are too fine to be compared exactly")
    assert verification.verdict == "failed"


@pytest.mark.parametrize(
    ("more", "fine"),
    [
        ({}, True),
        ({"levels": {"q": 0}}, True),
        ({"levels": {}}, False),
        ({"levels": {"q": -1}}, False),
        ({"levels": {"q": 1.0}}, False),
        ({"levels": {"q": True}}, False),
        ({"levels": {"s": 1}}, False),
        ({"levels": {"zip": 1}}, False),
        ({"levels": [0]}, False),
    ],
)
def test_levels_name_the_quasi_identifiers(more, fine):
    labels = {"1": {"values": ["1"]}, "2": {"values": ["2"]}}
    stated = manifest(labels, ("k-anonymity", {"k": 2}, 2.0), 2, **more)
    verification = verify_table(pa.table({"q": ["x"] * 2, "s": ["1", "2"]}), stated)
    assert failed(verification) == (set() if fine else {"manifest"})


COVERS: dict[str, dict[str, Any]] = {
    **{value: {"values": [value]} for value in "abcd"},
    "H": {"values": ["b", "c"]},
    "G": {"values": ["c", "a", "b"]},
    "{a, missing}": {"values": ["a"], "missing": True},
    "*": {"values": ["a", "b", "c", "d"], "missing": True},
}
PUBLISHED = (*COVERS, None)


def spread(counts: Sequence[int], weights: dict[str, float] | None) -> list[Fraction]:
    """Return how many records of a, b, c, d and missing values these counts of published texts come to."""
    out = [Fraction(0)] * 5
    likely = [Fraction(str((weights or {}).get(value, 0 if weights else 1))) for value in "abcd"] + [Fraction(1)]
    for published, count in zip(PUBLISHED, counts, strict=True):
        cover = {"missing": True} if published is None else COVERS[published]
        under = ["abcd".index(value) for value in cover.get("values", ())] + [4] * ("missing" in cover)
        own = {value: Fraction(1) if len(under) == 1 else likely[value] for value in under}
        for value, share in own.items():
            out[value] += count * share / sum(own.values())
    return out


@pytest.mark.parametrize("weights", [None, {"a": 0.3, "b": 0.7, "d": 1.9, "e": 5}], ids=["equal", "weighted"])
def test_induced_frequencies_are_those_of_fractions(weights: dict[str, float] | None) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        classes = [rng.integers(0, 4, len(PUBLISHED)).tolist() for _ in range(int(rng.integers(1, 4)))]
        published = [PUBLISHED[v] for counts in classes for v, count in enumerate(counts) for _ in range(count)]
        quasi = [str(number) for number, counts in enumerate(classes) for _ in range(sum(counts))]
        worst = Fraction(0)
        for counts in classes:
            first, second, *_ = sorted(spread(counts, weights), reverse=True)
            worst = max(worst, first / sum(counts), 2 * (first + second) / sum(counts) - 1)  # psi(1) = (1 + tau) / 2
        labels = {label: cover for label, cover in COVERS.items() if label in published}
        for nudge in (-1, 0, 1):
            tau = round(float(worst), 13) + nudge * 1e-9
            parameters = {"tau": tau, "l": 3} | ({"weights": weights} if weights else {})
            stated = manifest(labels, ("tau-l-diversity", parameters, float(worst)), len(quasi))
            stated["attributes"]["q"]["labels"] = {q: {"values": [q]} for q in sorted(set(quasi))}
            table = pa.table({"q": quasi, "s": pa.array(published, pa.string())})
            holds = worst <= Fraction(str(tau))
            assert failed(verify_table(table, stated)) == (set() if holds else {"tau-l-diversity"}), (classes, nudge)

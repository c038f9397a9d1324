"""Which labels cover which values: numbers, days, beginnings and lists, beside the covers as they are written.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed code.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from shoal.manifest import Attribute
from shoal.verify.covers import count_uncovered, put_covers, put_values, relate
from shoal.verify.engine import CannotCheckError, Engine
from shoal.verify.manifest import Manifest, read_manifest

DAY = datetime.date
# kind, further entries of the attribute, labels, values of the source, and for each label which of these it covers
Case = tuple[str, dict[str, Any], dict[str, Any], pa.Array, tuple[str, ...]]
CASES: tuple[Case, ...] = (
    (
        "number",
        {},
        {
            "[1, 2]": {"from": 1, "below": 3},
            ">= 3": {"from": 3, "below": None},
            "<= 2": {"from": None, "below": 3},
            "{2, 7}": {"values": ["2", "7"]},
            "*": {"any": True},
            "none": {"missing": True},
        },
        pa.array([0, 1, 2, 3, 7, None]),
        ("011000", "000110", "111000", "001010", "111111", "000001"),
    ),
    (
        "number",
        {},
        {"[-0.5, 0.5)": {"from": -0.5, "below": 0.5}, "{0}": {"values": ["0"]}, "rest": {"from": 0.5, "below": None}},
        pa.array([-0.5, -0.0, 0.5, 1e300, float("nan"), -0.500001]),
        ("110000", "010000", "001100"),
    ),
    (
        "number",
        {},
        {"[1, 2]": {"from": 1, "below": 3}, "none": {"missing": True}, "{2}": {"values": ["2"]}},
        pa.array(["1", "2.0", "3", "?", "", "x", None]),
        ("1100000", "0001101", "0100000"),
    ),
    (
        "date",
        {},
        {
            "2024": {"from": "2024-01-01", "below": "2025-01-01"},
            ">= 2025": {"from": "2025-01-01", "below": None},
            "< 2024": {"from": None, "below": "2024-01-01"},
            "two": {"values": ["2024-02-29", "1969-12-31"]},
            "none": {"missing": True},
        },
        pa.array([DAY(2023, 12, 31), DAY(2024, 1, 1), DAY(2024, 2, 29), DAY(2025, 1, 1), DAY(1969, 12, 31), None]),
        ("011000", "000100", "100010", "001010", "000001"),
    ),
    (
        "prefix",
        {"length": 5},
        {
            "47***": {"prefixes": ["47"]},
            "4*": {"prefixes": ["471", "09"]},
            "many": {"from": "10000", "through": "47109"},
            "late": {"from": "47110", "through": None},
            "early": {"from": None, "through": "09999"},
            "one": {"values": ["00999"]},
            "none": {"missing": True},
            "twice": {"prefixes": ["47", "4711"]},
        },
        pa.array([47109, 47110, 9999, 999, None, 10000]),
        ("110000", "111000", "100001", "010000", "001100", "000100", "000010", "110000"),
    ),
    (
        "category",
        {},
        {"a": {"values": ["a"]}, "b or none": {"values": ["b"], "missing": True}, "*": {"any": True}},
        pa.array(["a", "b", "", "?", "A", None, "c"]),
        ("1000000", "0111010", "1111111"),
    ),
    (
        "category",
        {},
        {"0": {"values": ["0"]}, "-1": {"values": ["-1"]}},
        pa.array([0.0, -0.0, -1.0, None]),
        ("1100", "0010"),
    ),
    ("category", {}, {"-0": {"values": ["-0"]}}, pa.array([-0.0, 1.0]), ("10",)),
    ("category", {}, {"0": {"values": ["0"]}}, pa.array(["0", "-0"]), ("10",)),
    ("category", {}, {"true": {"values": ["true"]}}, pa.array([True, False, None]), ("100",)),
)


def read(kind: str, labels: dict[str, Any], **entries: Any) -> tuple[Manifest, Attribute]:
    """Return a manifest of one attribute."""
    manifest = read_manifest(
        {
            "format": 1,
            "shoal_version": "0",
            "method": "mondrian",
            "form": "plain" if entries.get("role") == "sensitive" else "classes",
            "method_parameters": {},
            "guarantees": [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1.0}],
            "parts": [["x"]],
            "rows": 1,
            "withheld": 0,
            "missing": {"policy": "category", "tokens": ["", "?"], "dropped": 0},
            "attributes": {"x": {"role": "quasi", "kind": kind, "labels": labels, **entries}},
        },
        with_file=False,
    )
    return manifest, manifest.attributes[0]


def test_labels_cover_what_their_covers_say() -> None:
    for kind, entries, labels, values, wanted in CASES:
        manifest, attribute = read(kind, labels, **entries)
        types = {"x": values.type}
        with Engine() as engine:
            put_covers(engine, manifest)
            engine.put("given", {"place": range(len(values)), "v": values})
            table = put_values(engine, manifest, attribute, "SELECT v FROM given", values.type)
            related = relate(engine, attribute, table)
            joined = f"FROM given JOIN {table} AS s ON given.v IS NOT DISTINCT FROM s.v JOIN {related} USING (id)"
            found = set(engine.fetch(f"SELECT place, number {joined}"))
            assert found == {(at, n) for n, own in enumerate(wanted) for at, is_in in enumerate(own) if is_in == "1"}
            assert len(found) == engine.value(f"SELECT count(*) {joined}")
            for number, own in enumerate(wanted):
                for place, is_in in enumerate(own):
                    pairs = {"x": f"(SELECT {number} AS number, v FROM given WHERE place = {place})"}
                    assert count_uncovered(engine, manifest, pairs, types) == ({} if is_in == "1" else {"x": 1})
            every = " UNION ALL ".join(f"SELECT {number} AS number, v FROM given" for number in range(len(labels) + 1))
            values_of = [value + 0.0 if isinstance(value, float) else value for value in values.to_pylist()]
            uncovered = {
                (number, str(value))
                for number, own in enumerate([*wanted, "0" * len(values)])
                for is_in, value in zip(own, values_of, strict=True)
                if is_in == "0"
            }
            assert count_uncovered(engine, manifest, {"x": f"({every} UNION ALL {every})"}, types) == {
                "x": len(uncovered)
            }
            assert count_uncovered(engine, manifest, {}, types) == {}


def test_the_number_after_the_last_is_that_of_missing_sensitive_values() -> None:
    labels = {"a": {"values": ["a"]}, "ab": {"values": ["a", "b"]}}
    manifest, attribute = read("category", labels)
    kept = attribute.model_copy(update={"role": "sensitive"})
    assert kept.may_keep_missing
    values = pa.array(["a", "b", "?", None])
    for own, wanted in ((kept, [(2, 2), (3, 2)]), (attribute, [])):
        with Engine() as engine:
            put_covers(engine, replace(manifest, attributes=(own,)))
            engine.put("given", {"place": range(4), "v": values})
            table = put_values(engine, manifest, own, "SELECT v FROM given")
            related = relate(engine, own, table)
            joined = f"given JOIN {table} AS s ON given.v IS NOT DISTINCT FROM s.v JOIN {related} USING (id)"
            found = engine.fetch(f"SELECT place, number FROM {joined} WHERE number = 2 ORDER BY place")
            assert found == wanted


def test_labels_that_utf_8_cannot_write_are_refused() -> None:
    manifest, _ = read("category", {"a": {"values": ["a"]}})
    manifest.attributes[0].labels["\ud800"] = {"values": ["b"]}
    with Engine() as engine, pytest.raises(CannotCheckError, match="UTF-8"):
        put_covers(engine, manifest)

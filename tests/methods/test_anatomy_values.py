"""How anatomy decides on the number of different values of a bucket, and what it says of too few."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import shoal


def dealt(n_values: int, model: dict[str, Any], n_records: int = 60) -> shoal.Release:
    illness = [f"illness {i % n_values}" for i in range(n_records)]
    table = pa.table({"age": [i // n_values for i in range(n_records)], "illness": illness})
    attributes = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    return shoal.anonymize(table, {"attributes": attributes, "privacy": [model], "method": "anatomy"})


@pytest.mark.parametrize(
    ("model", "different"),
    [
        ({"distinct-l-diversity": {"l": 1}}, 1),
        ({"distinct-l-diversity": {"l": 6}}, 6),
        ({"simple-l-diversity": {"l": 2.5}}, 3),
        ({"entropy-l-diversity": {"l": 4}}, 4),
        ({"recursive-cl-diversity": {"c": 0.5, "l": 2}}, 4),
        ({"tau-l-diversity": {"tau": 0.25, "l": 3}}, 4),
    ],
    ids=str,
)
def test_no_more_values_than_the_model_needs(model: dict[str, Any], different: int) -> None:
    assert dealt(6, model).manifest["buckets"] == 60 // different


def test_buckets_of_single_records_are_warned_about() -> None:
    assert any("hide nothing" in text for text in dealt(6, {"simple-l-diversity": {"l": 1}}).evidence["warnings"])
    assert not any("hide nothing" in text for text in dealt(6, {"simple-l-diversity": {"l": 2}}).evidence["warnings"])

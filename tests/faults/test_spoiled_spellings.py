"""Releases that spell one sensitive value in several ways: it is still one value, and diversity is not gained by it."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

# what the source holds, and how a release may spell it so that every published value is true
SPELLINGS: dict[str, tuple[list[Any], list[Any]]] = {
    "whole numbers": ([1, 1, 1, 1], ["1", "01", "001", "1"]),
    "decimals": ([1.5, 1.5, 1.5, 1.5], ["1.5", "1.50", "15e-1", "1.500"]),
    "two zeros": ([0.0, 0.0, -0.0, -0.0], [0.0, -0.0, 0.0, -0.0]),
    "truth values": ([True, True, True, True], ["true", "1", "True", "TRUE"]),
    "texts that mean missing": (["NA", None, "", "NA"], [None, "NA", None, "NA"]),
    "missing numbers": ([None, None, None, None], [None, float("nan"), None, float("nan")]),
    "numbers that only whole ones tell apart": ([2.0**53] * 4, [2**53, 2**53 + 1, 2**53, 2**53 + 1]),
}
# what the source holds, and what a release holds in its place: DuckDB would read both as the same value
DAY, MOMENT = date(2024, 2, 29), datetime(2024, 2, 29, 13, 45)
MISREAD: dict[str, tuple[list[Any], list[Any]]] = {
    "a fraction rounded": (["1.7", "3"], [2, 3]),
    "a whole number with an exponent": (["1e3", "3"], [1000, 3]),
    "a number with an underscore": (["1_0.5", "3"], [10.5, 3.0]),
    "a moment as its day": (["2024-02-29 13:45:00", "2024-02-28"], [DAY, date(2024, 2, 28)]),
    "a moment without its zone": (["2024-02-29 13:45:00+02", "2024-02-29 13:45:01"], [MOMENT, MOMENT]),
    "a zone that the source lacks": ([MOMENT] * 2, ["2024-02-29 13:45:00+02", "2024-02-29 13:45:00"]),
    "digits that the source lacks": ([MOMENT] * 2, ["2024-02-29 13:45:00.0000001", "2024-02-29 13:45:00"]),
    "a time of more digits": ([time(1, 2)] * 2, ["01:02:00.0000004", "01:02:00.0000000"]),
    "times of two lengths": ([time(1, 2)] * 2, ["01:02:00.000", "01:02:00"]),
    "nanoseconds": (pa.array([60_000_000_001, 60_000_000_000], pa.time64("ns")), [time(0, 1)] * 2),
    "a truth value in another language": (["yes", "no"], [True, False]),
    "numbers with one hash": ([10**18 + 7, 3], [-2788143289250261420, 3]),
}


def released(spelled: list[Any], *, sliced: bool) -> tuple[pa.Table, dict[str, Any]]:
    manifest: dict[str, Any] = {
        "format": 1,
        "shoal_version": "0",
        "method": "slicing" if sliced else "mondrian",
        "form": "slices" if sliced else "classes",
        "method_parameters": {},
        "guarantees": [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2.0}],
        "parts": [["sex"], ["illness"]] if sliced else [["sex", "illness"]],
        "rows": 4,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": ["", "NA"], "dropped": 0},
        "attributes": {
            "sex": {"role": "quasi", "kind": "category"},
            "illness": {"role": "sensitive", "kind": "category"},
        },
    }
    rows = pa.table({"sex": ["F"] * 4, "illness": pa.array(spelled, from_pandas=False)})
    if not sliced:
        manifest["attributes"]["sex"]["labels"] = {"F": {"values": ["F"]}}
        return rows, manifest
    return rows.add_column(0, "bucket", pa.array([1] * 4)), {**manifest, "buckets": 1}


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize(("original", "published"), MISREAD.values(), ids=MISREAD)
def test_values_that_are_only_read_alike(original, published, sliced):
    table, manifest = released([*published] * 2, sliced=sliced)
    source = pa.table({"sex": ["F"] * 4, "illness": pa.concat_arrays([pa.array(original)] * 2)})
    found = verify_table(table, manifest, source=open_source(source), witness=np.ones(4, dtype=np.int64))
    assert {check.name for check in found.checks if not check.ok} & {"truth", "parts", "spelling"}


def judged(original: list[Any], spelled: list[Any], *, sliced: bool) -> Verification:
    source = pa.table({"sex": ["F"] * 4, "illness": original})
    table, manifest = released(spelled, sliced=sliced)
    witness = np.ones(4, dtype=np.int64) if sliced else None
    return verify_table(table, manifest, source=open_source(source), witness=witness)


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize(("original", "spelled"), SPELLINGS.values(), ids=SPELLINGS)
def test_one_value_in_several_spellings(original, spelled, sliced):
    verification = judged(original, spelled, sliced=sliced)
    refused = any(check.name == "spelling" and not check.ok for check in verification.checks)
    assert refused or verification.guarantees[0].achieved == 1.0
    assert verification.verdict == "failed"


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize(
    ("original", "spelled"),
    [([1, 2] * 2, ["1", "2"] * 2), (["1", "01"] * 2, ["1", "01"] * 2), ([None, "a"] * 2, [None, "a"] * 2)],
)
def test_different_values_stay_different(original, spelled, sliced):
    """Texts of a source that holds texts are told apart by every letter."""
    assert judged(original, spelled, sliced=sliced).failures == ()

"""Releases that spell one sensitive value in several ways: it is still one value, and diversity is not gained by it."""

from __future__ import annotations

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


def released(spelled: list[Any], *, sliced: bool) -> tuple[pa.Table, dict[str, Any]]:
    manifest: dict[str, Any] = {
        "format": 1,
        "shoal_version": "0",
        "method": "slicing" if sliced else "mondrian",
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

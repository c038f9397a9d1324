"""Sliced releases whose rows were not permuted within their buckets: each row tells what slicing should hide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.arrays import IntArray
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

N_BUCKETS, SIZE = 300, 3
BUCKET = np.repeat(np.arange(1, N_BUCKETS + 1), SIZE)
PARTS = [["age"], ["zip", "cost"], ["illness"]]


def source() -> pa.Table:
    rng = np.random.default_rng(5)
    n = len(BUCKET)
    return pa.table(
        {
            "age": rng.integers(20, 60, n),
            "zip": rng.integers(0, 50, n),
            "cost": rng.normal(size=n),
            "illness": np.tile(["flu", "gout", "cold"], N_BUCKETS),
        }
    )


def within_buckets(rng: np.random.Generator) -> IntArray:
    """Return an order of the rows that is random in every bucket."""
    return np.lexsort((rng.random(len(BUCKET)), BUCKET))


def judged(orders: list[IntArray], *, with_witness: bool = True, chunk: int = 1000) -> Verification:
    original = source()
    columns: dict[str, Any] = {"bucket": BUCKET}
    for part, order in zip(PARTS, orders, strict=True):
        columns |= {name: original[name].take(pa.array(order)) for name in part}
    table = pa.table(columns)
    pieces = pa.concat_tables([table.slice(first, chunk) for first in range(0, len(table), chunk)])
    roles = {"age": "quasi", "zip": "quasi", "cost": "insensitive", "illness": "sensitive"}
    manifest = {
        "format": 1,
        "shoal_version": "0",
        "method": "slicing",
        "form": "slices",
        "method_parameters": {},
        "guarantees": [{"model": "column-frequency", "parameters": {"k": 3}, "achieved": 3.0}],
        "parts": PARTS,
        "buckets": N_BUCKETS,
        "rows": len(table),
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {name: {"role": role, "kind": "category"} for name, role in roles.items()},
    }
    order = np.random.default_rng(9).permutation(len(BUCKET))  # buckets are not numbered in the order of the source
    witness = BUCKET[order] if with_witness else None
    return verify_table(pieces, manifest, source=open_source(original.take(pa.array(order))), witness=witness)


def permuted(verification: Verification) -> bool | None:
    return next((check.ok for check in verification.checks if check.name == "permuted"), None)


def test_random_orders_are_accepted():
    """An honest release is refused with a chance of at most 2e-12: two pairs of neighbours, 1e-12 each."""
    rng = np.random.default_rng(1)
    verification = judged([within_buckets(rng) for _ in PARTS])
    assert verification.failures == ()
    assert permuted(verification) is True


@pytest.mark.parametrize("chunk", [1000, 7])
def test_rows_in_the_order_of_the_source(chunk):
    """The chance that it is overlooked is nil: buckets hold different values, and turning unlinks every one."""
    verification = judged([np.arange(len(BUCKET))] * 3, chunk=chunk)
    assert permuted(verification) is False
    assert all(check.ok for check in verification.checks if check.name != "permuted")


@pytest.mark.parametrize("alone", [0, 2])
def test_two_parts_permuted_alike(alone):
    rng = np.random.default_rng(2)
    alike, other = within_buckets(rng), within_buckets(rng)
    assert permuted(judged([other if part == alone else alike for part in range(3)])) is False


def test_without_a_witness_nobody_can_tell():
    assert permuted(judged([np.arange(len(BUCKET))] * 3, with_witness=False)) is None

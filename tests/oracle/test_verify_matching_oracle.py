"""Truth by the witness against a slow check: every published row covers its own source row, in overlapping classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

NUMBER_LABELS: dict[str, dict[str, Any]] = {
    "low": {"from": None, "below": 3},
    "mid": {"from": 1, "below": 5},
    "{>= 3, missing}": {"from": 3, "below": None, "missing": True},
    "two": {"from": 2, "below": 3},
    "missing": {"missing": True},
    "*": {"any": True},
}
TEXT_LABELS: dict[str, dict[str, Any]] = {
    "x": {"values": ["x"]},
    "{x, z}": {"values": ["x", "z"]},
    "{z, y}": {"values": ["z", "y"]},
    "{y, missing}": {"values": ["y"], "missing": True},
    "*": {"any": True},
}


def manifest_of(attributes: dict[str, Any], promises: Sequence[dict[str, Any]], rows: int) -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "sweep",
        "method_parameters": {},
        "guarantees": list(promises),
        "parts": [list(attributes)],
        "rows": rows,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": attributes,
    }


def covers(cover: dict[str, Any], value: object) -> bool:
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return value in cover["values"]
    if "from" not in cover:
        return False
    low, high = cover["from"], cover["below"]
    return (low is None or value >= low) and (high is None or value < high)


def fits(published: tuple[Any, ...], original: tuple[Any, ...]) -> bool:
    return (
        covers(NUMBER_LABELS[published[0]], original[0])
        and covers(TEXT_LABELS[published[1]], original[1])
        and published[2:] == original[2:]
    )


def number_classes(attributes: dict[str, Any], rows: Sequence[tuple[Any, ...]]) -> np.ndarray:
    """Return the class of each row: 1 + the mixed radix number of its labels."""
    labels = [list(attributes[name]["labels"]) for name in "abc" if name in attributes]
    numbers = np.zeros(len(rows), dtype=np.int64)
    for place, names in enumerate(labels):
        numbers = numbers * (len(names) + 2) + [names.index(row[place]) for row in rows]
    return numbers + 1


person = st.tuples(
    st.sampled_from([None, 0, 1, 2, 3, 4, 7]),
    st.sampled_from([None, "x", "y", "z", "w"]),
    st.sampled_from(["flu", "hiv"]),
    st.sampled_from([None, 1.5, 2.5]),
)


@given(
    original=st.lists(person, min_size=1, max_size=14),
    data=st.data(),
    noise=st.sampled_from([0, 0, 1, 3]),
)
def test_truth_of_overlapping_classes(original: list[tuple[Any, ...]], data: st.DataObject, noise: int):
    published = []
    for row in original:
        numbers = [label for label, cover in NUMBER_LABELS.items() if covers(cover, row[0])]
        texts = [label for label, cover in TEXT_LABELS.items() if covers(cover, row[1])]
        published.append((data.draw(st.sampled_from(numbers)), data.draw(st.sampled_from(texts)), *row[2:]))
    for _ in range(noise):
        place = data.draw(st.integers(0, len(published) - 1))
        labels = data.draw(st.tuples(st.sampled_from(sorted(NUMBER_LABELS)), st.sampled_from(sorted(TEXT_LABELS))))
        published[place] = (*labels, *published[place][2:])
    names = ("a", "b", "s", "i")
    kinds = [pa.string(), pa.string(), pa.string(), pa.float64()]
    table = pa.table(
        {
            name: pa.array(col, type=kind)
            for name, kind, col in zip(names, kinds, zip(*published, strict=True), strict=True)
        }
    )
    kinds[0] = pa.int16()
    source = pa.table(
        {
            name: pa.array(col, type=kind)
            for name, kind, col in zip(names, kinds, zip(*original, strict=True), strict=True)
        }
    )
    used_a, used_b = set(table["a"].to_pylist()), set(table["b"].to_pylist())
    attributes = {
        "a": {
            "role": "quasi",
            "kind": "number",
            "labels": {k: v for k, v in NUMBER_LABELS.items() if k in used_a},
        },
        "b": {
            "role": "quasi",
            "kind": "category",
            "labels": {k: v for k, v in TEXT_LABELS.items() if k in used_b},
        },
        "s": {"role": "sensitive", "kind": "category"},
        "i": {"role": "insensitive", "kind": "number"},
    }
    least = min(Counter(row[:2] for row in published).values())
    promise = {"model": "k-anonymity", "parameters": {"k": 1}, "achieved": float(least)}
    manifest = manifest_of(attributes, [promise], len(published))
    witness = number_classes(attributes, published)
    verification = verify_table(table, manifest, source=open_source(source), witness=witness)
    truth = next(check for check in verification.checks if check.name == "truth")
    assert truth.ok == all(fits(row, own) for row, own in zip(published, original, strict=True))
    assert (verification.verdict != "failed") == truth.ok

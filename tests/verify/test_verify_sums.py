"""Truth from sums of fingerprints: the contents of a class are compared with those of its source rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

ATTRIBUTES: dict[str, Any] = {
    "age": {
        "role": "quasi",
        "kind": "number",
        "labels": {"[0, 9]": {"from": 0, "below": 10}, "[10, 19]": {"from": 10, "below": 20}},
    },
    "s": {"role": "sensitive", "kind": "category"},
    "cost": {"role": "insensitive", "kind": "number"},
}
YOUNG, OLD = "[0, 9]", "[10, 19]"
PUBLISHED = {"age": [YOUNG] * 3 + [OLD] * 3, "s": list("aabbcc"), "cost": [1.0, 1.0, 2.0, 2.0, 3.0, -0.0]}
SOURCE = {"age": [15, 1, 12, 2, 3, 19], "s": list("bacabc"), "cost": [2.0, 1.0, 3.0, 1.0, 2.0, 0.0]}


def verify(
    published: dict[str, Any], source: dict[str, Any], withheld: int = 0, shown: list[int] | None = None
) -> Verification:
    """Verify a release; *shown* has 1 for each source row that is published."""
    manifest = {
        "format": 1,
        "shoal_version": "0",
        "method": "sweep",
        "method_parameters": {},
        "guarantees": [{"model": "k-anonymity", "parameters": {"k": 2}, "achieved": 3.0}],
        "parts": [list(ATTRIBUTES)],
        "rows": len(published["s"]),
        "withheld": withheld,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": ATTRIBUTES,
    }
    number = np.where(np.array(source["age"]) < 10, 1, 2)  # labels, the place of a missing value and of other texts
    witness = number if shown is None else number * shown
    return verify_table(pa.table(published), manifest, source=open_source(pa.table(source)), witness=witness)


def is_true(verification: Verification) -> bool:
    return next(check.ok for check in verification.checks if check.name == "truth")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("s", list("babacc")),
        ("s", list("aacbcc")),
        ("cost", [1.0, 2.0, 2.0, 2.0, 3.0, 0.0]),
        ("cost", [2.0, 1.0, 1.0, 2.0, 3.0, 0.0]),
        ("cost", [1.0, 1.0, 3.0, 2.0, 2.0, 0.0]),
        ("cost", [1.0, 1.0, 2.0, None, 3.0, 0.0]),
    ],
)
def test_changed_contents_are_untrue(column: str, values: list[Any]) -> None:
    assert not is_true(verify({**PUBLISHED, column: values}, SOURCE))


def test_contents_exchanged_between_classes_are_untrue() -> None:
    """Every content occurs as often as in the source, but one young and one old person's have changed places."""
    assert not is_true(verify({**PUBLISHED, "s": list("aacbbc"), "cost": [1.0, 1.0, 3.0, 2.0, 2.0, 0.0]}, SOURCE))


@given(st.data())
def test_classes_are_true_if_and_only_if_their_multisets_are_equal(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=12))
    other = data.draw(st.permutations(rows) | st.lists(st.sampled_from("abc"), min_size=len(rows), max_size=len(rows)))
    n = len(rows)
    answer = verify(
        {"age": [YOUNG] * n + [OLD] * 3, "s": [*rows, *"aaa"], "cost": [1.0] * (n + 3)},
        {"age": [5] * n + [15] * 3, "s": [*other, *"aaa"], "cost": [1.0] * (n + 3)},
    )
    assert is_true(answer) == (sorted(rows) == sorted(other))


@pytest.mark.parametrize(("withheld", "true"), [(2, True), (1, False)])
def test_withheld_rows_are_in_no_class(withheld: int, true: bool) -> None:
    source = {"age": [*SOURCE["age"], 4, 70], "s": [*SOURCE["s"], "a", "c"], "cost": [*SOURCE["cost"], 9.0, 1.0]}
    answer = verify(PUBLISHED, source, withheld, [1] * 6 + [0, 0])
    assert is_true(answer)
    assert answer.verdict == ("verified" if true else "failed")


def test_a_row_of_nobody_is_untrue_in_a_class_with_withheld_rows() -> None:
    source = {"age": [*SOURCE["age"], 4], "s": [*SOURCE["s"], "a"], "cost": [*SOURCE["cost"], 9.0]}
    source["cost"][1] = 8.0
    assert not is_true(verify(PUBLISHED, source, 1, [1] * 6 + [0]))
    assert not is_true(verify(PUBLISHED, source, 1, [1, 0, 1, 1, 1, 1, 1]))

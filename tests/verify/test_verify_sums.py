"""Truth told from sums: what they must tell apart, when rows are matched one by one, and work done ahead."""

from __future__ import annotations

from importlib import import_module
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.arrays import KeyArray
from shoal.manifest import Attribute
from shoal.sources.opening import open_source
from shoal.verify.boxes import NOBODY, BoxTree, Spans
from shoal.verify.contents import Contents, common_type, sum_boxes
from shoal.verify.covers import read_covers
from shoal.verify.reading import prepare_ahead
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

KEY = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543211], dtype=np.uint64)


def sums(rows: list[tuple[int, str]], n_boxes: int, contents: Contents, batches: int = 1) -> KeyArray:
    found = np.zeros((n_boxes, 3), dtype=np.uint64)
    for part in np.array_split(np.arange(len(rows)), batches):
        texts = pa.array([rows[i][1] for i in part], type=pa.string())
        boxes = np.array([rows[i][0] for i in part], dtype=np.int32)
        found += sum_boxes(contents.key, boxes, contents.hashes(pa.record_batch({"x": texts})), n_boxes)
    return found


def differ(one: KeyArray, other: KeyArray) -> list[bool]:
    return (one != other).any(axis=1).tolist()


@pytest.fixture
def contents() -> Contents:
    return Contents(["x"], [common_type(pa.string(), pa.string())], [""])


@given(data=st.data())
def test_boxes_differ_if_and_only_if_their_multisets_do(data: st.DataObject):
    contents = Contents(["x"], [common_type(pa.string(), pa.string())], [""])
    rows = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=12)
    one = data.draw(rows)
    other = data.draw(st.permutations(one) | rows)
    found = differ(sums(one, 4, contents), sums(other, 4, contents, batches=3))
    expected = [sorted(t for b, t in one if b == box) != sorted(t for b, t in other if b == box) for box in range(4)]
    assert found == expected


@pytest.mark.parametrize("times", [1, 2, 64, 4096])
def test_multiplicities_count(contents: Contents, times: int):
    one = [(0, "a")] * 2 * times + [(0, "b")] * times
    other = [(0, "a")] * times + [(0, "b")] * 2 * times
    assert differ(sums(one, 1, contents), sums(other, 1, contents)) == [True]


def test_the_second_sum_alone_tells_rows_apart():
    """5 + 6 = 4 + 7, so the plain sum of these words is the same."""
    box = np.zeros(2, dtype=np.int32)
    one = sum_boxes(KEY, box, np.array([5, 6], dtype=np.uint64), 1)
    other = sum_boxes(KEY, box, np.array([4, 7], dtype=np.uint64), 1)
    assert one[0, 1] == other[0, 1]
    assert differ(one, other) == [True]


def test_boxes_without_rows():
    words = np.arange(3, dtype=np.uint64)
    one = sum_boxes(KEY, np.array([0, 40, 1], dtype=np.int32), words, 41)
    other = sum_boxes(KEY, np.array([1, 40, 0], dtype=np.int32), words[[2, 1, 0]], 41)
    assert not any(differ(one, other))
    assert np.flatnonzero(differ(one, np.zeros_like(one))).tolist() == [0, 1, 40]


# Releases --------------------------------------------------------------------------------------------------

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


def verify(published: dict[str, Any], source: dict[str, Any], withheld: int = 0) -> Verification:
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
    return verify_table(pa.table(published), manifest, source=open_source(pa.table(source)))


def truth_of(verification: Verification) -> str:
    return next(check.detail for check in verification.checks if check.name == "truth")


@pytest.mark.parametrize(
    ("column", "values", "false_rows"),
    [
        ("s", list("babacc"), 2),
        ("s", list("aacbcc"), 1),
        ("cost", [1.0, 2.0, 2.0, 2.0, 3.0, 0.0], 1),
        ("cost", [2.0, 1.0, 1.0, 2.0, 3.0, 0.0], 2),
        ("cost", [1.0, 1.0, 3.0, 2.0, 2.0, 0.0], 2),
        ("cost", [1.0, 1.0, 2.0, None, 3.0, 0.0], 1),
    ],
)
def test_changed_contents_are_counted_exactly(column, values, false_rows):
    answer = verify({**PUBLISHED, column: values}, SOURCE)
    assert truth_of(answer) == f"{false_rows} published rows cover no source row of their own"


def test_contents_exchanged_between_classes():
    """Every content occurs as often as in the source, but one young and one old person's have changed places."""
    answer = verify({**PUBLISHED, "s": list("aacbbc"), "cost": [1.0, 1.0, 3.0, 2.0, 2.0, 0.0]}, SOURCE)
    assert truth_of(answer) == "2 published rows cover no source row of their own"


@pytest.mark.parametrize(("withheld", "true"), [(2, True), (1, False)])
def test_withheld_rows_leave_classes_to_be_matched(withheld, true):
    source = {"age": [*SOURCE["age"], 4, 70], "s": [*SOURCE["s"], "a", "c"], "cost": [*SOURCE["cost"], 9.0, 1.0]}
    answer = verify(PUBLISHED, source, withheld)
    assert truth_of(answer) == "every published row covers a source row of its own"
    assert answer.verdict == ("incomplete" if true else "failed")  # there is no witness


def test_a_row_told_twice_in_a_class_with_withheld_rows():
    source = {"age": [*SOURCE["age"], 4], "s": [*SOURCE["s"], "a"], "cost": [*SOURCE["cost"], 9.0]}
    source["cost"][1] = 8.0
    answer = verify(PUBLISHED, source, 1)
    assert truth_of(answer) == "1 published rows cover no source row of their own"


# Boxes and batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [40, 7])
def test_boxes_that_touch_are_told_apart(side):
    """A grid of boxes that all touch and a point in each; some cells of the grid are left out."""
    labels = {f"{i}": {"from": 3 * i, "below": 3 * i + 3} for i in range(side)}
    covers = [read_covers(Attribute(name=name, role="quasi", kind="number", labels=labels)) for name in "ab"]
    grid = np.array([(a, b) for a in range(side) for b in range(side) if (a + b) % 5], dtype=np.int32)
    tree = BoxTree.of(Spans.of(covers, grid))
    values = pa.array([3 * i + 1 for i in range(side)])
    codes = [cover.places(values) for cover in covers]
    everywhere = np.array([(a, b) for a in range(side) for b in range(side)], dtype=np.int32)
    points = np.stack([codes[0][everywhere[:, 0]], codes[1][everywhere[:, 1]]], axis=1)
    place = {tuple(cell): number for number, cell in enumerate(grid.tolist())}
    assert tree.find(points).tolist() == [place.get(tuple(cell), NOBODY) for cell in everywhere.tolist()]


def test_results_keep_the_order_of_the_batches():
    second = Event()

    def prepare(batch: int | None) -> int | None:
        if batch == 1:
            second.set()
        if batch == 0:
            assert second.wait(10)
        return batch

    assert list(prepare_ahead(iter([0, 1, None, 3]), prepare)) == [0, 1, None, 3]
    assert list(prepare_ahead(iter([]), prepare)) == []


def test_no_more_batches_are_read_than_are_being_worked_on(monkeypatch):
    monkeypatch.setattr(import_module("shoal.verify.reading"), "WORKERS", 2)
    read = 0

    def numbers() -> Any:
        nonlocal read
        for number in range(50):
            read = number + 1
            yield number

    ahead = [read - number for number in prepare_ahead(numbers(), lambda number: number)]
    assert max(ahead) <= 4


def test_a_fault_in_reading_or_preparing_comes_through():
    def broken() -> Any:
        yield 1
        raise OSError

    with pytest.raises(OSError):
        list(prepare_ahead(broken(), lambda number: number))
    with pytest.raises(ZeroDivisionError):
        list(prepare_ahead(iter([1, 0]), lambda number: 1 // number))

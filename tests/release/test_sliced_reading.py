"""Sliced releases read from memory and files, conditions of all kinds, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from tests import releases

import shoal
from shoal.core.errors import InputError, UsageError
from shoal.release.release import Release
from shoal.release.sliced.query import Estimate, Query
from shoal.release.sliced.table import SlicedTable

PARTS = [["age", "seen"], ["city", "cost"], ["ill"]]
ENTRIES: dict[str, Any] = {
    "age": {"role": "quasi", "kind": "number"},
    "seen": {"role": "quasi", "kind": "date"},
    "city": {"role": "quasi", "kind": "category"},
    "cost": {"role": "insensitive", "kind": "number"},
    "ill": {"role": "sensitive", "kind": "category"},
}
ROWS = pa.table(
    {
        "bucket": [1, 1, 1, 2, 2],
        "age": [22, 33, None, 50, 22],
        "seen": [datetime.date(2024, 1, day) for day in (1, 2, 3, 4, 5)],
        "city": ["a", "b", None, "a", "c"],
        "cost": [1.5, 2.0, 10.0, None, 4.0],
        "ill": ["flu", "flu", "gout", "flu", None],
    }
)
FILE = {"file": "data.csv", "format": "csv", "sha256": "0" * 64}
MANIFEST = releases.DEFAULTS | {"method": "slicing", "parts": PARTS, "attributes": ENTRIES, "data": FILE}


def release(data: object = ROWS, **changed: Any) -> Release:
    return Release(MANIFEST | changed, {}, None, None, data=data)


def value(query: Query, made: Release | None = None) -> tuple[float, float]:
    answer = (made or release()).estimate(query)
    assert isinstance(answer, Estimate)
    return answer.value, answer.error


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({"age": 22}, 2),
        ({"age": "22"}, 2),
        ({"age": None}, 1),
        ({"age": {22, None}}, 3),
        ({"age": [33.0, 50]}, 2),
        ({"age": (22, 50)}, 3),
        ({"age": (None, 33)}, 2),
        ({"age": (33, None)}, 2),
        ({"age": (None, None)}, 4),
        ({"age": 7}, 0),
        ({"seen": ("2024-01-02", "2024-01-04")}, 2),
        ({"seen": (datetime.date(2024, 1, 2), None)}, 4),
        ({"seen": datetime.date(2024, 1, 5)}, 1),
        ({"seen": "2024-01-05", "age": 22}, 1),
        ({"seen": "2024-01-05", "age": 33}, 0),
        ({"city": {"a", "c"}}, 3),
        ({"ill": "flu"}, 3),
    ],
)
def test_conditions_within_a_part_are_exact(where: dict[str, Any], count: int) -> None:
    assert value(Query(where=where)) == (count, 0.0)


def test_sums_leave_out_what_is_missing_and_groups_add_up() -> None:
    assert value(Query(sum="cost")) == (17.5, 0.0)
    assert value(Query(where={"city": {"a", "b"}}, sum="cost")) == (3.5, 0.0)
    by_city = release().estimate(Query(sum="cost", by="city"))
    assert isinstance(by_city, pa.Table)
    assert by_city.to_pydict() == {
        "city": ["a", "b", "c", None],
        "value": [1.5, 2.0, 4.0, 10.0],
        "error": [0.0, 0.0, 0.0, 0.0],
    }
    crossed = release().estimate(Query(sum="cost", by=("age", "ill")))
    assert isinstance(crossed, pa.Table)
    assert sum(crossed["value"].to_pylist()) == pytest.approx(17.5)
    assert max(crossed["error"].to_pylist()) > 0


def test_labels_spread_evenly() -> None:
    labels = {
        "[20, 39]": {"from": 20, "below": 40},
        ">= 40": {"from": 40, "below": None},
        "missing": {"missing": True},
    }
    cities = {"*": {"any": True}, "{a, b}": {"values": ["a", "b"]}, "c": {"values": ["c"], "missing": True}}
    codes = {"47*": {"prefixes": ["47"]}, "[4800, 4899]": {"from": "4800", "through": "4899"}}
    entries = {
        "age": {"role": "quasi", "kind": "number", "labels": labels},
        "city": {"role": "quasi", "kind": "category", "labels": cities},
        "zip": {"role": "quasi", "kind": "prefix", "length": 4, "labels": codes},
        "ill": {"role": "sensitive", "kind": "category"},
    }
    rows = pa.table(
        {
            "bucket": [1, 1, 1],
            "age": ["[20, 39]", ">= 40", "missing"],
            "city": ["*", "{a, b}", "c"],
            "zip": ["47*", "47*", "[4800, 4899]"],
            "ill": ["x", "y", "y"],
        }
    )
    made = release(rows, parts=[["age"], ["city"], ["zip"], ["ill"]], attributes=entries)
    cases: list[tuple[dict[str, Any], float]] = [
        ({"age": (20, 40)}, 1),
        ({"age": (25, 30)}, 0.25),
        ({"age": (24.5, 29.5)}, 0.25),
        ({"age": 25}, 1 / 20),
        ({"age": (30, 50)}, 0.5 + 0.5),
        ({"age": (30, None)}, 0.5 + 1),
        ({"age": None}, 1),
        ({"city": "a"}, 1 / 3 + 1 / 2),
        ({"city": {"c", None}}, 1 / 3 + 1),
        ({"zip": (4700, 4750)}, 1),
        ({"zip": "4850"}, 0.01),
    ]
    for where, count in cases:
        assert value(Query(where=where), made)[0] == pytest.approx(count), where
    assert value(Query(where={"age": (25, 30)}), made)[1] == pytest.approx((0.25 * 0.75) ** 0.5)
    with pytest.raises(UsageError, match="published in ranges"):
        made.estimate(Query(sum="age"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"where": {"agee": 3}}, "'agee' is not in the release; did you mean 'age'"),
        ({"where": {"city": ("a", "b")}}, "two numbers or two dates"),
        ({"where": {"city": (1, "b")}}, "two numbers or two dates"),
        ({"where": {"age": (1, 2, 3)}}, "a pair"),
        ({"sum": "ill"}, "not numbers"),
        ({"by": ("age", "age")}, "twice"),
        ({"by": "value"}, "`value` or `error`"),
    ],
)
def test_bad_queries_are_refused(query: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        release().estimate(Query(**query))


def test_other_releases_are_refused_plainly() -> None:
    plain = release(parts=[[*ENTRIES]])
    for ask in (plain.slices, plain.sample_table, plain.multisets, lambda: plain.estimate(Query())):
        with pytest.raises(UsageError, match="this release is not sliced"):
            ask()
    with pytest.raises(UsageError, match="neither data nor a folder"):
        release(None).slices()


def test_tables_that_do_not_fit_their_manifest_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are of one release"):
        SlicedTable.of(ROWS.drop_columns(["ill"]), PARTS)
    for numbers, message in (([1, 1, 1, 3, 3], "skips"), ([0, 1, 1, 2, 2], "1, 2"), (list("abcde"), "1, 2")):
        with pytest.raises(InputError, match=message):
            SlicedTable.of(ROWS.set_column(0, "bucket", pa.array(numbers)), PARTS)
    with pytest.raises(InputError, match=r"manifest\.json"):
        shoal.read_sliced(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(InputError, match="not the manifest"):
        shoal.read_sliced(tmp_path)


def test_overlaps_that_cannot_be_linked_are_refused() -> None:
    parts = [["a", "b"], ["b", "c"], ["c", "a"]]
    rows = pa.table({name: [1, 1] for name in ("bucket", "a", "b", "b (2)", "c", "c (2)", "a (2)")})
    numbers = {name: {"role": "quasi", "kind": "number"} for name in "abc"}
    circle = release(rows, parts=parts, attributes=numbers)
    with pytest.raises(UsageError, match="cycle"):
        circle.sample_table()
    rows = pa.table({"bucket": [1, 1], "a": [1, 2], "b": [1, 1], "b (2)": [1, 2], "c": [1, 1]})
    torn = release(rows, parts=parts[:2], attributes=numbers)
    with pytest.raises(InputError, match="differ in the values of 'b'"):
        torn.sample_table()

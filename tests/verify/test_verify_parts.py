"""Which values labels cover, and regions that overlap, each against a slow check."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.manifest import Attribute
from shoal.verify.covers import CoverError, Covers, put_covers, put_values, read_covers, relate
from shoal.verify.engine import Engine
from shoal.verify.slices import count_overlapping


def attribute(kind: str, labels: dict[str, Any], **more: Any) -> Attribute:
    return Attribute(name="a", role="quasi", kind=kind, labels=labels, **more)


def covered(values: pa.Array, kind: str, cover: dict[str, Any], **more: Any) -> list[bool]:
    """Whether the only label of an attribute covers each value."""
    one = attribute(kind, {"x": cover}, **more)
    stated: Any = SimpleNamespace(labelled=(one,), attributes=(one,), missing_tokens=())
    with Engine() as engine:
        put_covers(engine, stated)
        engine.put("given", {"i": pa.array(range(len(values))), "v": values})
        table = put_values(engine, stated, one, "SELECT v FROM given", values.type)
        joined = (
            f"given JOIN {table} AS s ON given.v IS NOT DISTINCT FROM s.v LEFT JOIN {relate(engine, one, table)} AS r"
        )
        return [
            found for (found,) in engine.fetch(f"SELECT number IS NOT NULL FROM {joined} ON s.id = r.id ORDER BY i")
        ]


@pytest.mark.parametrize(
    ("cover", "expected"),
    [
        ({"from": 20, "below": 30}, [False, True, True, False, False]),
        ({"from": None, "below": 29.5}, [True, True, False, False, False]),
        ({"from": 29.5, "below": None}, [False, False, True, True, True]),
        ({"values": ["30", "19.0"]}, [True, False, False, True, False]),
        ({"missing": True}, [False] * 5),
        ({"any": True}, [True] * 5),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_numbers(cover, expected, text):
    values = pa.array([19, 20, 29.5, 30, 1e9])
    if text:
        values = pa.array(["19", "20.0", " 29.50", "3e1", "1000000000"])
    assert covered(values, "number", cover) == expected


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["2024-02-29", "2024-03-01", "2024-03-31T23:59:59", "2024-04-01", "soon"]),
        pa.array([19782, 19783, 19813, 19814, 0], type=pa.int32()).cast(pa.date32()),
        pa.array([19782, 19783, 19813, 19814, 0], type=pa.int32()).cast(pa.date32()).cast(pa.timestamp("ns")),
    ],
)
def test_dates(values):
    cover = {"from": "2024-03-01", "below": "2024-04-01"}
    assert covered(values, "date", cover) == [False, True, True, False, False]


def test_dates_in_another_format():
    values = pa.array(["31.03.2024", "01.04.2024", "2024-03-31"])
    cover = {"from": "2024-03-01", "below": "2024-04-01"}
    assert covered(values, "date", cover, format="%d.%m.%Y") == [True, False, False]


def test_prefixes():
    values = pa.array(["471", "47110", "4720", "470", "48", "", "471é"])
    assert covered(values, "prefix", {"prefixes": ["471"]}) == [True, True, False, False, False, False, True]
    assert covered(values, "prefix", {"values": ["471"]}) == [True, False, False, False, False, False, False]
    numbers = pa.array([47110, 7110, 7])
    assert covered(numbers, "prefix", {"prefixes": ["07", "00007"]}, length=5) == [False, True, True]


def test_an_end_that_is_no_date():
    with pytest.raises(CoverError, match="not a date"):
        read_covers(attribute("date", {"x": {"from": "soon", "below": None}}))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.sampled_from([1, 3, 40, 400]), wide=st.booleans())
def test_boxes_against_brute_force(seed: int, n_classes: int, wide: bool):
    rng = np.random.default_rng(seed)
    values = [str(v) for v in range(30)]
    number_labels: dict[str, Any] = {"*": {"any": True}}
    text_labels: dict[str, Any] = {"*": {"any": True}, "?": {"missing": True}}
    for place in range(60):
        low = int(rng.integers(0, 50))
        number_labels[f"n{place}"] = {"from": low, "below": low + int(rng.integers(1, 40 if wide else 5))}
        some = rng.choice(values, size=int(rng.integers(1, 20 if wide else 3)), replace=False)
        text_labels[f"t{place}"] = {"values": some.tolist()} | ({"missing": True} if place % 7 == 0 else {})
    covers = [
        read_covers(Attribute(name="a", role="quasi", kind="number", labels=number_labels)),
        read_covers(Attribute(name="b", role="quasi", kind="category", labels=text_labels)),
    ]
    drawn = [rng.integers(0, cover.n_labels + 1, size=n_classes) for cover in covers]
    labels = np.unique(np.stack(drawn, axis=1), axis=0)  # the last label of each is unknown and covers nothing

    def codes_of(cover: Covers, label: int) -> set[int]:
        ranges = zip(cover.low[cover.owner == label], cover.high[cover.owner == label], strict=True)
        return {code for low, high in ranges for code in range(low, high)}

    codes = [[codes_of(cover, label) for label in range(cover.n_labels + 1)] for cover in covers]
    shared = [[[bool(one & other) for other in own] for one in own] for own in codes]
    meet = np.array([[shared[0][a][c] and shared[1][b][d] for c, d in labels] for a, b in labels], dtype=np.bool_)
    np.fill_diagonal(meet, val=False)
    assert count_regions(covers, labels) == int(meet.any(axis=1).sum())


def count_regions(covers: list[Covers], labels: np.ndarray) -> int:
    with Engine() as engine:
        engine.put("region_rows", {f"l{at}": column for at, column in enumerate(labels.T)})
        engine.make("regions", "FROM region_rows")
        return count_overlapping(engine, covers)

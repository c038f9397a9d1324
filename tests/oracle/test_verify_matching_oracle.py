"""The verifier's matching with the source against a slow one: every published row covers a row of its own."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sources.opening import open_source
from shoal.verify import boxes
from shoal.verify.boxes import TooLargeError, count_unmatched, count_unmatched_labels
from shoal.verify.covers import Covers
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


def largest_matching(published: list[tuple[Any, ...]], original: list[tuple[Any, ...]]) -> int:
    partner: dict[int, int] = {}

    def augment(row: int, tried: set[int]) -> bool:
        for j, candidate in enumerate(original):
            if j not in tried and fits(published[row], candidate):
                tried.add(j)
                if j not in partner or augment(partner[j], tried):
                    partner[j] = row
                    return True
        return False

    return sum(augment(row, set()) for row in range(len(published)))


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
def test_matching_of_overlapping_classes(original: list[tuple[Any, ...]], data: st.DataObject, noise: int):
    """The number of false rows is that of the best matching."""
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
    verification = verify_table(table, manifest, source=open_source(source))
    truth = next(check for check in verification.checks if check.name == "truth")
    false_rows = len(published) - largest_matching(published, original)
    assert truth.ok == (false_rows == 0)
    assert (verification.verdict != "failed") == truth.ok
    if false_rows:
        assert int(re.match(r"\d+", truth.detail)[0]) == false_rows


@pytest.mark.parametrize("spoil", [False, True])
def test_many_overlapping_classes(spoil: bool):
    """Two thousand overlapping boxes over 20,000 rows; a false release is found among them."""
    rng = np.random.default_rng(5)
    n = 20_000
    original = rng.integers(0, 60, size=(n, 3))
    sensitive = rng.integers(0, 14, size=n).astype(str)
    low = original - rng.integers(0, 4, size=(n, 3)) // 2 * 3
    width = rng.choice([6, 12], size=(n, 3))
    low, width = low // 6 * 6, np.maximum(width, 6)
    width = np.where(low + width > original, width, 12)
    stated = np.where((np.arange(n) == 17) & spoil, "99", sensitive)
    columns: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for a, name in enumerate("abc"):
        labels = [f"{lo}+{w}" for lo, w in zip(low[:, a].tolist(), width[:, a].tolist(), strict=True)]
        columns[name] = labels
        covers_of = {text: text.split("+") for text in set(labels)}
        attributes[name] = {
            "role": "quasi",
            "kind": "number",
            "labels": {t: {"from": int(lo), "below": int(lo) + int(w)} for t, (lo, w) in covers_of.items()},
        }
    attributes["s"] = {"role": "sensitive", "kind": "category"}
    order = rng.permutation(n)
    table = pa.table({**columns, "s": stated}).take(pa.array(order))
    source = pa.table({**{name: original[:, a] for a, name in enumerate("abc")}, "s": sensitive})
    least = min(Counter(zip(*columns.values(), strict=True)).values())
    promise = {"model": "k-anonymity", "parameters": {"k": 1}, "achieved": float(least)}
    verification = verify_table(table, manifest_of(attributes, [promise], n), source=open_source(source))
    assert (verification.verdict == "failed") is spoil
    if spoil:
        assert [c.detail for c in verification.checks if not c.ok] == [
            "1 published rows cover no source row of their own"
        ]


def inside(hulls: np.ndarray, points: np.ndarray) -> np.ndarray:
    return ((points[None] >= hulls[:, None, ::2]) & (points[None] < hulls[:, None, 1::2])).all(axis=2)


def unmet_of(hulls: np.ndarray, demand: list[int], points: np.ndarray, supply: list[int]) -> int:
    """One row after the other is placed, rows that were placed before moving where they can."""
    edges = inside(hulls, points)
    rows = [b for b, amount in enumerate(demand) for _ in range(amount)]
    seats = [p for p, amount in enumerate(supply) for _ in range(amount)]
    holder: dict[int, int] = {}

    def placed(row: int, tried: set[int]) -> bool:
        for seat, point in enumerate(seats):
            if seat not in tried and edges[rows[row], point]:
                tried.add(seat)
                if seat not in holder or placed(holder[seat], tried):
                    holder[seat] = row
                    return True
        return False

    return sum(not placed(row, set()) for row in range(len(rows)))


def answer(hulls: np.ndarray, demand: list[int], points: np.ndarray, supply: list[int]) -> int:
    """Let rows of boxes, given by their hulls, be matched with rows at points, all of one content."""
    rows, held = np.repeat(np.arange(len(hulls)), demand), np.repeat(np.arange(len(points)), supply)
    return matched(hulls, rows, np.zeros(len(rows), np.uint64), points[held], np.zeros(len(held), np.uint64))


def matched(hulls: np.ndarray, rows: np.ndarray, contents: np.ndarray, points: np.ndarray, held: np.ndarray) -> int:
    covers = []
    for a in range(hulls.shape[1] // 2):
        low, high = hulls[:, 2 * a].astype(np.int32), hulls[:, 2 * a + 1].astype(np.int32)
        names = tuple(str(box) for box in range(len(hulls)))
        none: Any = None
        covers.append(Covers(none, names, np.arange(len(hulls) + 1), low, high, 2000, none, none))
    labels = np.repeat(rows[:, None], len(covers), axis=1).astype(np.int32)
    return count_unmatched(covers, labels, contents, points.astype(np.int32), held)


@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([5, 16, 17, 40]), scarce=st.booleans())
def test_matching_of_random_boxes(seed: int, n: int, scarce: bool):
    """Small, exact, wide and empty boxes over few and many points, with enough supply and with too little."""
    rng = np.random.default_rng(seed)
    points = np.unique(rng.integers(0, 5, size=(n, 3)), axis=0)
    m = int(rng.integers(1, 25))
    low = rng.integers(0, 5, size=(m, 3))
    hulls = np.empty((m, 6), dtype=np.int64)
    hulls[:, ::2], hulls[:, 1::2] = low, low + rng.choice([0, 1, 1, 1, 2, 5], size=(m, 3), p=[0.02] + [0.196] * 5)
    hulls[rng.random(m) < 0.1] = [0, 5] * 3
    demand = rng.integers(0, 4, size=m).tolist()
    supply = rng.integers(0, 2 if scarce else 4, size=len(points)).tolist()
    assert answer(hulls, demand, points, supply) == unmet_of(hulls, demand, points, supply)


@pytest.mark.parametrize("n_false", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 2, 5, 20, 60])
def test_too_many_boxes_for_their_points(size: int, n_false: int):
    """Some boxes share a few points and want more than these have, however many there are and however rich the rest."""
    elsewhere = np.arange(1000, 1100)
    points = np.concatenate([np.arange(size), elsewhere])[:, None]
    shared = [[0, size]] * (size + n_false)
    rich = [[1000, 1100]] * 10
    hulls = np.array([[low, high] for low, high in [*shared, *rich]])
    demand = [1] * len(hulls)
    assert answer(hulls, demand, points, [1] * len(points)) == n_false


@pytest.mark.parametrize("length", [2, 17, 60])
@pytest.mark.parametrize("spoiled", [False, True])
def test_chains_of_forced_moves(length: int, spoiled: bool):
    """Box i covers points i and i + 1; an exact box at one end forces each of them away from the other end."""
    points = np.arange(length + 1)[:, None]
    chain = [[i, i + 2] for i in range(length)]
    hulls = np.array([*chain, [0, 1], *([[length, length + 1]] if spoiled else [])])
    assert answer(hulls, [1] * len(hulls), points, [1] * (length + 1)) == int(spoiled)


@pytest.mark.parametrize("lacking", [0, 1, 7])
def test_boxes_that_cover_everything_take_only_what_is_left(lacking: int):
    """A box of all points can take any, yet the points that others need are no longer there for it."""
    points = np.arange(50)[:, None]
    exact = [[i, i + 1] for i in range(0, 50, 2)]
    hulls = np.array([[0, 50], *exact, [0, 60]])
    supply = [2] * 50
    demand = [30, *[2] * len(exact), 20 + lacking]
    assert answer(hulls, demand, points, supply) == lacking


def test_an_exact_box_wants_more_than_its_point_has():
    """What one point lacks is not made up for by others, and a wide box finds the rest."""
    points = np.arange(30)[:, None]
    hulls = np.array([[4, 5], [0, 30], [90, 95]])
    supply = [1] * 30
    assert answer(hulls, [3, 29, 4], points, supply) == 2 + 4


def least_cut(near: list[set[int]], supply: list[int], demand: list[int]) -> int:
    """The largest flow is the smallest cut: over all sets of right nodes, what can reach them bounds them."""
    cuts = []
    for chosen in range(2 ** len(demand)):
        members = {v for v in range(len(demand)) if chosen >> v & 1}
        reach = sum(s for s, targets in zip(supply, near, strict=True) if targets & members)
        cuts.append(reach + sum(d for v, d in enumerate(demand) if v not in members))
    return min(cuts)


@given(data=st.data())
def test_matching_against_minimum_cuts(data: st.DataObject):
    """Three contents; attribute v of a point tells whether box v covers it, so every graph of two sides occurs."""
    n_boxes = data.draw(st.integers(1, 5))
    hulls = np.tile(np.array([0, 2]), (n_boxes, n_boxes))
    for box in range(n_boxes):
        hulls[box, 2 * box] = 1
    cells = np.array(list(itertools.product([0, 1], repeat=n_boxes)))
    near = [set(np.flatnonzero(cell).tolist()) for cell in cells]
    rows, contents, points, held, unmet = [], [], [], [], 0
    for content in range(3):
        demand = data.draw(st.lists(st.integers(0, 5), min_size=n_boxes, max_size=n_boxes))
        supply = data.draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=len(cells), max_size=len(cells)))
        unmet += sum(demand) - least_cut(near, supply, demand)
        rows.append(np.repeat(np.arange(n_boxes), demand))
        points.append(np.repeat(cells, supply, axis=0))
        contents.append(np.full(sum(demand), content, np.uint64))
        held.append(np.full(sum(supply), content, np.uint64))
    assert matched(hulls, *map(np.concatenate, (rows, contents, points, held))) == unmet


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([30, 300, 1500]), spoiled=st.sampled_from([0, 0, 4]))
def test_matching_of_many_points_that_were_assigned(seed: int, n: int, spoiled: int):
    """Points are assigned to boxes that cover them, so all are matched; rows added to boxes are told exactly."""
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, 12, size=(n, 3)), axis=0)
    low = rng.integers(0, 12, size=(n // 3, 3))
    hulls = np.empty((n // 3, 6), dtype=np.int64)
    hulls[:, ::2], hulls[:, 1::2] = low, low + rng.integers(1, 9, size=low.shape)
    covering = inside(hulls, cells).T
    cells, covering = cells[covering.any(axis=1)], covering[covering.any(axis=1)]
    supply = rng.integers(1, 4, size=len(cells))
    demand = np.zeros(len(hulls), dtype=np.int64)
    for covered, amount in zip(covering, supply, strict=True):
        np.add.at(demand, rng.choice(np.flatnonzero(covered), size=amount), 1)
    for box in rng.integers(0, len(hulls), size=spoiled):
        demand[box] += 2
    # all supply was assigned, so whatever is asked for besides must lack
    assert answer(hulls, demand.tolist(), cells, supply.tolist()) == 2 * spoiled


def test_tables_that_are_too_large_are_not_matched(monkeypatch: pytest.MonkeyPatch):
    hulls, points = np.array([[0, 30]] * 3), np.arange(30)[:, None]
    monkeypatch.setattr(boxes, "MOST_PAIRS", 89)
    with pytest.raises(TooLargeError, match="pairs"):
        answer(np.array([[0, 30], [0, 29], [0, 28], [0, 27]]), [1] * 4, points, [1] * 30)
    assert answer(hulls[:2], [9, 21], points, [1] * 30) == 0


@given(seed=st.integers(0, 2**32 - 1))
def test_labels_of_one_attribute_matched_with_values(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    low = rng.integers(0, 9, n)
    hulls = np.stack([low, low + rng.integers(1, 6, n)], axis=1)
    none: Any = None
    names = tuple(str(label) for label in range(n))
    cover = Covers(none, names, np.arange(n + 1), hulls[:, 0], hulls[:, 1], 15, none, none)
    demand, supply = rng.integers(0, 4, n), rng.integers(0, 3, 15)
    expected = unmet_of(hulls, demand.tolist(), np.arange(15)[:, None], supply.tolist())
    assert count_unmatched_labels(cover, np.append(demand, 2), supply) == expected + 2  # the last are no labels

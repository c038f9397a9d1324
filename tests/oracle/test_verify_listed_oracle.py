"""The listing of pairs and both ways of matching against slow ones, where boxes have little choice and too little."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.verify import matching
from shoal.verify.listed import FEW
from shoal.verify.matching import unserved
from shoal.verify.orders import covered, orders_for
from shoal.verify.spans import Spans

NO_LIST = -1


@pytest.fixture(params=["listed", "by tree"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by tree":
        monkeypatch.setattr(matching, "MOST_PAIRS", NO_LIST)


def spans_of_hulls(hulls: np.ndarray) -> Spans:
    nothing = np.zeros(1, dtype=np.int32)
    labels = np.zeros((len(hulls), hulls.shape[1] // 2), dtype=np.int32)
    ragged = (labels, np.zeros(hulls.shape[1] // 2, dtype=np.int64), np.zeros(2, dtype=np.int64), nothing, nothing)
    return Spans(hulls.astype(np.int32), np.zeros(len(hulls), dtype=np.bool_), ragged)


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
    return unserved(
        spans_of_hulls(hulls),
        np.arange(len(hulls), dtype=np.uint64),
        np.array(demand, dtype=np.int64),
        np.arange(len(points), dtype=np.uint64),
        np.array(supply, dtype=np.int64),
        np.ascontiguousarray(points, dtype=np.int32),
    )


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 5), far=st.sampled_from([3, 9, 70_000, 2**31 - 2]))
def test_orders_find_all_points_of_a_box(seed: int, d: int, far: int):
    """Every point of the hull once and nothing of other contents, also where keys have no room for all attributes."""
    rng = np.random.default_rng(seed)
    values = np.unique(rng.integers(0, far, size=6))
    points = rng.choice(values, size=(150, d)).astype(np.int32)
    contents = np.sort(rng.integers(0, 4, size=150))
    low = rng.choice(values, size=(25, d))
    width = np.where(rng.random((25, d)) < 0.5, 1, rng.integers(0, far, size=(25, d)))
    hulls = np.empty((25, 2 * d), dtype=np.int64)
    hulls[:, ::2], hulls[:, 1::2] = low - (rng.random((25, d)) < 0.1), np.minimum(low + width, 2**31 - 1)
    spans = spans_of_hulls(hulls)
    names = rng.permutation(150)
    orders = orders_for(spans, np.arange(25, dtype=np.int32), contents, points, names)
    fits = not (orders.attributes < 0).any()
    room, out = np.empty((3, d + 1), dtype=np.uint64), np.empty(150, dtype=np.int32)
    truth = inside(hulls, points)
    for box, content in itertools.product(range(25), range(5)):
        found = out[: covered(orders, spans, box, content, room, out)].tolist()
        expected = set(names[truth[box] & (contents == content)].tolist())
        assert len(set(found)) == len(found)
        assert expected <= set(found) <= set(names[contents == content].tolist())
        assert not fits or set(found) == expected


@pytest.mark.usefixtures("way")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([5, FEW, FEW + 1, 40]), scarce=st.booleans())
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


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("length", [2, 17, 60])
@pytest.mark.parametrize("spoiled", [False, True])
def test_chains_of_forced_moves(length: int, spoiled: bool):
    """Box i covers points i and i + 1; an exact box at one end forces each of them away from the other end."""
    points = np.arange(length + 1)[:, None]
    chain = [[i, i + 2] for i in range(length)]
    hulls = np.array([*chain, [0, 1], *([[length, length + 1]] if spoiled else [])])
    assert answer(hulls, [1] * len(hulls), points, [1] * (length + 1)) == int(spoiled)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("lacking", [0, 1, 7])
def test_boxes_that_cover_everything_take_only_what_is_left(lacking: int):
    """A box of all points can take any, yet the points that others need are no longer there for it."""
    points = np.arange(50)[:, None]
    exact = [[i, i + 1] for i in range(0, 50, 2)]
    hulls = np.array([[0, 50], *exact, [0, 60]])
    supply = [2] * 50
    demand = [30, *[2] * len(exact), 20 + lacking]
    assert answer(hulls, demand, points, supply) == lacking


@pytest.mark.usefixtures("way")
def test_an_exact_box_wants_more_than_its_point_has():
    """What one point lacks is not made up for by others, and a wide box finds the rest."""
    points = np.arange(30)[:, None]
    hulls = np.array([[4, 5], [0, 30], [90, 95]])
    supply = [1] * 30
    assert answer(hulls, [3, 29, 4], points, supply) == 2 + 4


def test_a_content_with_too_many_pairs_is_matched_by_tree(monkeypatch: pytest.MonkeyPatch):
    """Only this content is; the others keep their answers."""
    asked = []
    by_tree = matching.unserved_by_tree

    def spy(spans: Spans, scale: np.ndarray, wanted: np.ndarray, *rest: np.ndarray) -> int:
        asked.extend((wanted >> np.uint64(32)).tolist())
        return int(by_tree(spans, scale, wanted, *rest))

    monkeypatch.setattr(matching, "MOST_PAIRS", 60)
    monkeypatch.setattr(matching, "unserved_by_tree", spy)
    points = np.arange(40, dtype=np.int32)[:, None]
    spans = spans_of_hulls(np.array([[0, 3], [0, 40], [0, 40]]))
    wanted = np.array([0 << 32 | 0, 0 << 32 | 1, 2 << 32 | 0, 2 << 32 | 1, 2 << 32 | 2, 5 << 32 | 0], dtype=np.uint64)
    offered = np.array([c << 32 | p for c in (0, 1, 2, 5) for p in range(40)], dtype=np.uint64)
    demand = np.array([4, 37, 3, 20, 18, 3], dtype=np.int64)
    assert unserved(spans, wanted, demand, offered, np.ones(160, dtype=np.int64), points) == 1 + 1
    assert asked == [2, 2, 2]

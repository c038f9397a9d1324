"""MDAV against a slow one in plain Python, and against the best grouping there is, on small tables."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.columns.microaggregation.mdav import Grouping, Space, microaggregate, sum_squares

Point = tuple[tuple[int, ...], tuple[int, ...]]  # coordinates, codes


def points(space: Space) -> list[Point]:
    numbers = [tuple(int(x) for x in row) for row in space.numbers]
    return list(zip(numbers, (tuple(row) for row in space.categories.tolist()), strict=True))


def distance(one: Point, other: Point, unequal: list[int]) -> int:
    apart = sum((a - b) ** 2 for a, b in zip(one[0], other[0], strict=True))
    return apart + sum(w for a, b, w in zip(one[1], other[1], unequal, strict=True) if a != b)


def from_centre(everybody: list[Point], unequal: list[int]) -> list[float]:
    """In floats, as the kernel has it: of two records equally far from the centre, rounding may decide."""
    n = len(everybody)
    means = [sum(column) / n for column in zip(*(p[0] for p in everybody), strict=True)]
    records = [Counter(column) for column in zip(*(p[1] for p in everybody), strict=True)]
    squares = [sum(m * m for m in counts.values()) / (n * n) for counts in records]
    found = []
    for numbers, codes in everybody:
        away = 0.0
        for x, mean in zip(numbers, means, strict=True):
            away += (x - mean) ** 2
        for j, code in enumerate(codes):
            away += unequal[j] * (1.0 - 2.0 * (records[j][code] / n) + squares[j]) / 2.0
        found.append(away)
    return found


def slow_mdav(space: Space, k: int) -> set[frozenset[int]]:
    """Groups of places in the space's order; ties go to the first place."""
    place, unequal = points(space), [int(w) for w in space.unequal]
    left = list(range(len(place)))
    groups = []

    def around(centre: int) -> None:
        near = sorted((i for i in left if i != centre), key=lambda i: (distance(place[i], place[centre], unequal), i))
        group = [centre, *near[: k - 1]]
        groups.append(frozenset(group))
        for i in group:
            left.remove(i)

    while len(left) >= 2 * k:
        both = len(left) >= 3 * k
        away = dict(zip(left, from_centre([place[i] for i in left], unequal), strict=True))
        first = max(left, key=lambda i: (away[i], -i))
        around(first)
        if both:
            around(max(left, key=lambda i: (distance(place[i], place[first], unequal), -i)))
    groups.append(frozenset(left))
    return set(groups)


def fast(space: Space, k: int) -> set[frozenset[int]]:
    group = microaggregate(space, k).group[space.order]
    return {frozenset(np.flatnonzero(group == g).tolist()) for g in range(int(group.max()) + 1)}


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_does_what_plain_python_does(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(k, 60))
    kinds = seed % 3
    numbers = [] if kinds == 1 else [rng.normal(size=n), rng.integers(0, 5, n).astype(float)]
    codes = [] if kinds == 0 else [rng.integers(0, 3, n).astype(np.int32), rng.integers(0, 6, n).astype(np.int32)]
    space = Space.of(numbers, codes, weights=rng.integers(1, 4, len(numbers) + len(codes)).astype(float))
    assert fast(space, k) == slow_mdav(space, k)


@pytest.mark.parametrize(("k", "values"), [(2, 3), (5, 100), (10, 300)])
def test_a_deep_tree_finds_what_looking_at_every_record_finds(k: int, values: int) -> None:
    """More values than a node tells apart, many equal records, and so many groups that points are ranked again."""
    rng = np.random.default_rng(k)
    numbers = [rng.normal(size=500), rng.exponential(size=500) ** 3, rng.integers(0, 9, 500).astype(float)]
    codes = [rng.integers(0, values, 500).astype(np.int32), rng.integers(0, 4, 500).astype(np.int32)]
    twice = [np.append(column, column[:100]) for column in (*numbers, *codes)]
    space = Space.of(twice[:3], twice[3:])
    assert fast(space, k) == slow_mdav(space, k)


def partitions(records: tuple[int, ...], k: int, most: int | None = None) -> list[list[tuple[int, ...]]]:
    """All ways to make groups of k to 2k - 1, or *most*."""
    if not records:
        return [[]]
    first, rest = records[0], records[1:]
    found = []
    for size in range(k, min((most or 2 * k - 1) + 1, len(records) + 1)):
        for others in combinations(rest, size - 1):
            left = tuple(r for r in rest if r not in others)
            if len(left) == 0 or len(left) >= k:
                found += [[(first, *others), *more] for more in partitions(left, k, most)]
    return found


def error(space: Space, groups: list[tuple[int, ...]]) -> float:
    of_place = np.empty(space.n_records, dtype=np.int32)
    for number, group in enumerate(groups):
        of_place[list(group)] = number
    of_row = np.empty_like(of_place)
    of_row[space.order] = of_place
    return sum_squares(space, Grouping(of_row, len(groups)))[0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_one_number_is_grouped_in_the_best_of_all_ways(seed: int, k: int) -> None:
    """Against every partition into groups of k or more, not only into runs of neighbours, nor up to 2k - 1."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(max(k, 3), 9))
    numbers = rng.normal(size=n) if seed % 2 else rng.integers(0, 5, n).astype(float)
    space = Space.of([numbers], [])
    grouping = microaggregate(space, k)
    assert grouping.sizes.min() >= k
    best = min(error(space, groups) for groups in partitions(tuple(range(n)), k, most=n))
    assert sum_squares(space, grouping)[0] == pytest.approx(best, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_groups_have_k_to_2k_minus_1_records_whatever_the_order(
    rows: list[tuple[int, int]], k: int, shuffler: object
) -> None:
    if len(rows) < k:
        return

    def grouped(some: list[tuple[int, int]]) -> Counter[tuple[tuple[int, int], ...]]:
        x, c = (np.array(column) for column in zip(*some, strict=True))
        grouping = microaggregate(Space.of([x.astype(float)], [c.astype(np.int32)]), k)
        assert grouping.sizes.min() >= k
        assert grouping.sizes.max() <= 2 * k - 1
        assert grouping.sizes.sum() == len(some)
        members: dict[int, list[tuple[int, int]]] = {}
        for row, group in zip(some, grouping.group.tolist(), strict=True):
            members.setdefault(group, []).append(row)
        return Counter(tuple(sorted(group)) for group in members.values())

    other = list(rows)
    shuffler.shuffle(other)  # type: ignore[attr-defined]
    assert grouped(rows) == grouped(other)

"""PAM against all sets of medoids, and against the kmedoids package."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.kernels import pam


def cost(distances: np.ndarray, medoids: tuple[int, ...]) -> float:
    return sum(min(distances[point, medoid] for medoid in medoids) for point in range(len(distances)))


def symmetric(values: list[float], n_points: int) -> np.ndarray:
    distances = np.zeros((n_points, n_points))
    distances[np.triu_indices(n_points, 1)] = values[: n_points * (n_points - 1) // 2]
    return distances + distances.T


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.integers(1, n),
            # few different distances make many ties, and zeros points that are the same
            st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.0]), min_size=36, max_size=36)
            | st.lists(st.floats(0, 1), min_size=36, max_size=36),
        )
    )
)
def test_no_single_swap_is_cheaper_and_nothing_beats_the_optimum(drawn: tuple[int, int, list[float]]) -> None:
    n_points, k, values = drawn
    distances = symmetric(values, n_points)
    medoids, labels, total = pam(distances, k)
    chosen = tuple(medoids.tolist())
    assert len(set(chosen)) == k
    assert list(chosen) == sorted(chosen)
    assert labels[medoids].tolist() == list(range(k))
    assert total == pytest.approx(cost(distances, chosen))
    assert sum(distances[point, chosen[label]] for point, label in enumerate(labels)) == pytest.approx(total)
    best = min(cost(distances, some) for some in combinations(range(n_points), k))
    assert total >= best - 1e-9
    for given_up in chosen:
        for taken in set(range(n_points)) - set(chosen):
            assert cost(distances, (*(set(chosen) - {given_up}), taken)) >= total - 1e-9


@pytest.mark.parametrize("n_points", [5, 12, 30])
def test_the_same_as_another_implementation(n_points: int) -> None:
    kmedoids = pytest.importorskip("kmedoids")
    rng = np.random.default_rng(n_points)
    for k in (1, 2, 4):
        for _ in range(10):
            distances = symmetric(rng.random(n_points * n_points).tolist(), n_points)
            theirs = kmedoids.pam(distances, k, init="build")
            ours = pam(distances, k)
            assert ours.cost == pytest.approx(theirs.loss)
            assert ours.medoids.tolist() == sorted(theirs.medoids.tolist())


def test_sums_that_differ_by_rounding_only_are_equal() -> None:
    """Points 0 and 1 swap the places of 0.1, 0.2 and 0.3, whose sum depends on the order."""
    distances = symmetric([0.0, 0.3, 0.2, 0.1, 0.1, 0.2, 0.3, 9.0, 9.0, 9.0], 5)
    assert distances[0].sum() != distances[1].sum()
    assert pam(distances, 1).medoids.tolist() == [0]
    turned = [1, 0, 2, 3, 4]
    assert pam(distances[np.ix_(turned, turned)], 1).medoids.tolist() == [0]

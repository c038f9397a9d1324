"""Junction trees: cliques, and marginals and rows that are those of the whole distribution, computed by brute force."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.randomness import Chance
from shoal.methods.synthetic import junction
from shoal.methods.synthetic.junction import JunctionTree, Measured, count_cells, find_cliques, sum_to
from shoal.methods.synthetic.synthesis import draw_rows

SIZES = (3, 4, 2, 5, 3)
EVERY = tuple(range(5))
ALONE = [(place,) for place in EVERY]
TREE = [(0, 1), (1, 2), (2, 3), (3, 4)]
CIRCLE = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]
TRIPLES = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (0, 1, 2)]


def measure(sets: list[tuple[int, ...]], seed: int, noise: float = 5.0) -> dict[tuple[int, ...], Measured]:
    rng = np.random.default_rng(seed)
    people = rng.dirichlet(np.full(prod(SIZES), 0.3)).reshape(SIZES) * 1000
    return {
        one: Measured(
            np.rint(sum_to(people, EVERY, one) + rng.normal(0, noise, [SIZES[p] for p in one])),
            noise**2 * (1 + len(one)),
        )
        for one in [*ALONE, *sets]
    }


def multiply(tree: JunctionTree) -> np.ndarray:
    """The whole distribution that the tree's weights stand for, without any clique."""
    logs = np.zeros(SIZES)
    for one, weights in tree.weights.items():
        logs = logs + weights.reshape([SIZES[place] if place in one else 1 for place in EVERY])
    whole = np.exp(logs - logs.max())
    return whole * (tree.total / whole.sum())


@pytest.mark.parametrize(
    "sets", [[], TREE, CIRCLE, TRIPLES, [(0, 4), (1, 3)]], ids=["none", "tree", "circle", "triples", "two"]
)
@pytest.mark.parametrize("seed", range(3))
def test_marginals_are_those_of_the_whole_distribution(sets: list[tuple[int, ...]], seed: int) -> None:
    tree = JunctionTree(SIZES, measure(sets, seed))
    for sweeps in (1, 3):
        tree.fit(sweeps)
        whole = multiply(tree)
        for one in [*ALONE, *sets]:
            assert np.allclose(tree.marginal(one), sum_to(whole, EVERY, one), rtol=1e-8, atol=1e-8)
        for first in EVERY:
            others = [other for other in EVERY if other != first and not tree.holds(tuple(sorted((first, other))))]
            found = tree.pairs_with(first, others)
            assert found.keys() == set(others)
            for other, table in found.items():
                expected = sum_to(whole, EVERY, tuple(sorted((first, other))))
                assert np.allclose(table, expected if first < other else expected.T, rtol=1e-8, atol=1e-8)
        again = JunctionTree(SIZES, tree.measured, tree)  # built anew from the weights alone
        assert all(
            np.allclose(again.marginal(one), tree.marginal(one), rtol=1e-8, atol=1e-8) for one in [*ALONE, *sets]
        )


@pytest.mark.parametrize("sets", [CIRCLE, TRIPLES], ids=["circle", "triples"])
def test_what_is_fitted_is_the_optimum(sets: list[tuple[int, ...]]) -> None:
    """At the optimum every weight is what the error of its count calls for; the problem is strictly convex."""
    tree = JunctionTree(SIZES, measure(sets, 7))
    tree.fit(2_000, 1e-10)
    whole = multiply(tree)
    for one, noisy in tree.measured.items():
        error = noisy.counts - sum_to(whole, EVERY, one)
        error -= error.mean()  # the total is given
        wanted = (tree.weights[one] - tree.prior[one]) * junction._ENTROPY * noisy.variance
        assert np.abs(error - (wanted - wanted.mean())).max() < 0.01
    assert whole.sum() == pytest.approx(tree.total)


graphs = st.lists(st.sets(st.integers(0, 7), min_size=2, max_size=3), max_size=12)


@given(graphs, st.lists(st.integers(2, 9), min_size=8, max_size=8))
def test_cliques_make_a_junction_tree(sets: list[set[int]], sizes: list[int]) -> None:
    wanted = [tuple(sorted(one)) for one in sets]
    cliques = find_cliques(sizes, wanted)
    assert all(any(set(one) <= set(clique) for clique in cliques) for one in [*wanted, *((p,) for p in range(8))])
    assert not any(set(one) <= set(other) for one, other in combinations(cliques, 2))
    assert count_cells(sizes, cliques) == sum(prod(sizes[place] for place in clique) for clique in cliques)
    noisy = {(place,): Measured(np.full(size, 10.0), 1.0) for place, size in enumerate(sizes)}
    hung = JunctionTree(sizes, noisy | {one: Measured(np.ones([sizes[p] for p in one]), 1.0) for one in wanted}).cliques
    for place in range(8):  # those that have an attribute hang together: all but the first share it with their parent
        having = [clique for clique in hung if place in clique.attributes]
        assert sum(place in clique.shared for clique in having) == len(having) - 1


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_as_near_to_the_model_as_whole_numbers_can_be(seed: int) -> None:
    tree = JunctionTree(SIZES, measure(CIRCLE, seed))
    tree.fit(20)
    rows = draw_rows(tree, 1000, Chance.of(seed))
    first = tree.cliques[0]
    place = first.attributes[0]
    wanted = tree.marginal((place,)) / tree.total * 1000
    assert np.abs(np.bincount(rows[place], minlength=SIZES[place]) - wanted).max() <= 1.001
    joint = np.ravel_multi_index([rows[place] for place in first.attributes], first.table.shape)
    drawn = np.bincount(joint, minlength=first.table.size).reshape(first.table.shape)
    # each attribute in turn is rounded up or down within each combination of those before it
    assert np.abs(drawn - first.table / tree.total * 1000).max() < 3
    assert (drawn[first.table < 1e-12] == 0).all()


def test_combinations_that_noisy_sums_show_to_be_empty_get_nothing() -> None:
    people = np.full((20, 4), 50.0)
    people[:8, 2:] = 0.0  # each cell is expected to have 19 records, and a block of eight 150
    noise = np.where(np.add.outer(np.arange(20), np.arange(4)) % 2, 8.0, -8.0)
    alone = {(place,): Measured(sum_to(people, (0, 1), (place,)), 64.0) for place in (0, 1)}
    tree = JunctionTree((20, 4), {**alone, (0, 1): Measured(people + noise, 64.0)})
    tree.fit(50)
    before = tree.marginal((0, 1))
    singles, rows = np.arange(20), (np.append(np.arange(20), [0, 8]), np.append(np.arange(1, 21), [8, 20]))
    tree.clear_impossible([(singles, singles + 1), (singles[:4], singles[:4] + 1)])
    assert np.array_equal(tree.marginal((0, 1)), before)  # no single cell shows it
    tree.clear_impossible([rows, (singles[:4], singles[:4] + 1)])
    tree.fit(50)
    tree.fit_alone(20)
    found = tree.marginal((0, 1))
    assert before[:8, 2:].sum() > 40
    assert found[:8, 2:].sum() < 1e-9
    assert (found[8:] > 30).all()
    assert (found[:8, :2] > 30).all()
    assert np.allclose(found.sum(axis=0), people.sum(axis=0), rtol=0.02)

"""Beliefs from several releases against a count of all that may be, value by value and person by person."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.arrays import FloatArray, IntArray
from shoal.linking.beliefs import _believe


def count_worlds(left: IntArray, prior: FloatArray, sharing: int) -> FloatArray:
    """Return the mean share of each value among people in the same classes of all releases.

    *left* (n_releases, n_values) has the classes' records. All ways of giving their values to people are weighed by the
    prior of each person's value.
    """
    n_releases, n_values = left.shape
    total, mean = 0.0, np.zeros(n_values)
    for shared in product(*(range(most + 1) for most in left.min(axis=0).tolist())):
        if sum(shared) == sharing:
            weight = 1.0
            for value, count in enumerate(shared):
                weight /= math.factorial(count) * prior[value] ** (count * (n_releases - 1))
                weight /= math.prod(math.factorial(own - count) for own in left[:, value].tolist())
            total += weight
            mean += weight * np.array(shared)
    return mean / total / sharing


def believe(left: IntArray, prior: FloatArray, sharing: int) -> FloatArray:
    beliefs = np.empty((1, left.shape[1]))
    _believe(left[:, None], prior, np.array([sharing]), beliefs)
    return beliefs[0]


def test_beliefs_are_near_what_all_worlds_say_and_exact_for_one_person() -> None:
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(400):
        left = rng.integers(0, 8, (2, rng.integers(2, 5)))
        prior = (left.sum(axis=0) + 1) / (left.sum() + left.shape[1])
        most = int(left.min(axis=0).sum())
        if most < 3:
            continue
        assert believe(left, prior, 1) == pytest.approx(count_worlds(left, prior, 1))
        sharing = int(rng.integers(2, most))
        errors.append(np.abs(believe(left, prior, sharing) - count_worlds(left, prior, sharing)).max())
    assert len(errors) > 250
    assert max(errors) < 0.07
    assert np.mean(errors) < 0.01


@given(data=st.data(), n_releases=st.integers(2, 7), largest=st.sampled_from([2, 30, 10_000, 10**7]))
def test_beliefs_solve_their_equation(data: st.DataObject, n_releases: int, largest: int) -> None:
    n_values = data.draw(st.integers(1, 6))
    rows = st.lists(st.integers(1, largest), min_size=n_values, max_size=n_values)
    left = np.array(data.draw(st.lists(rows, min_size=n_releases, max_size=n_releases)))
    parts = np.array(data.draw(st.lists(st.integers(1, 10**5), min_size=n_values, max_size=n_values)))
    prior = parts / parts.sum()
    sharing = data.draw(st.integers(1, max(1, int(left.min(axis=0).sum()) - 1)))
    found = believe(left, prior, sharing)
    assert found.sum() == pytest.approx(1, abs=1e-9)
    rest = left - (sharing - 1) * found
    inside = (found > 1e-250) & (rest > 1e-6 * left).all(axis=0)  # elsewhere rounding hides the equation
    sides = np.log(found[inside]) - np.log(rest[:, inside]).sum(axis=0) + (n_releases - 1) * np.log(prior[inside])
    assert np.ptp(sides) < 1e-5 if inside.any() else True

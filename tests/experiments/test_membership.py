"""Fake tuples: exact counts and their limits, draws at random, and groupings that make more of them."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.membership import MatchingBuckets, UncountableError, matching_buckets, membership

from shoal.attacks.membership import BucketContents, draw_fakes
from shoal.core.kernels import find_rows


def test_categories_and_tails() -> None:
    found = MatchingBuckets((5, *range(1, 31)))
    assert found.total == 465
    assert found.categories() == {"1-10": 55, "11-20": 155, ">20": 255}
    assert found.at_least(21) == 255
    with pytest.raises(ValueError, match="not among"):
        MatchingBuckets((0, 1)).without(MatchingBuckets((0, 2)))


def test_what_takes_too_many_steps_is_refused_not_guessed() -> None:
    rng = np.random.default_rng(1)
    bucket = np.repeat(np.arange(100), 100)
    values = [rng.integers(40, size=10_000) for _ in range(4)]
    with pytest.raises(UncountableError, match="cannot be counted in 1,000 steps"):
        membership(bucket, values, steps=1_000)
    with pytest.raises(UncountableError, match="cannot be counted in 1,000,000 steps"):
        membership(bucket, values, steps=1_000_000)
    assert membership(bucket, values).fake_tuples > 2_000_000


def test_fakes_are_drawn_evenly() -> None:
    """A fair draw fails with probability 1e-6: chi-square with k degrees of freedom, Wilson and Hilferty's bound."""
    bucket = np.arange(60) // 5
    values = (9 * np.random.default_rng(2).random((2, 60)) ** 2).astype(np.int32)
    values[1, values[0] == 0] = values[1, 0]  # the most frequent value has one partner, and so many fakes
    contents = BucketContents.of(bucket, list(values))
    fakes = membership(bucket, list(values)).fakes
    assert min(fakes.tuples[1], fakes.at_least(3)) >= 5
    n_fakes = fakes.total
    drawn = draw_fakes(contents, values, 40_000, np.random.default_rng(3))
    assert drawn.shape == (2, 40_000)
    assert (find_rows(list(values), list(drawn)) < 0).all()
    assert (matching_buckets(contents, drawn) > 0).all()
    codes, counts = np.unique(drawn, axis=1, return_counts=True)
    assert codes.shape[1] == n_fakes
    expected = 40_000 / n_fakes
    statistic = ((counts - expected) ** 2 / expected).sum()
    k = n_fakes - 1
    assert statistic < k * (1 - 2 / (9 * k) + 4.75 * (2 / (9 * k)) ** 0.5) ** 3


def test_without_fakes_none_are_drawn() -> None:
    bucket, part = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3], dtype=np.int32)
    values = np.stack([part, np.zeros(4, dtype=np.int32)])
    assert draw_fakes(BucketContents.of(bucket, list(values)), values, 10, np.random.default_rng(0)).shape == (2, 0)

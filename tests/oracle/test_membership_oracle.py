"""Counting tuples and matching buckets, against going through all combinations of values."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from experiments.membership import count_formed_tuples, membership
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cover

from shoal.attacks.membership import BucketContents


def by_hand(bucket: np.ndarray, values: list[np.ndarray]) -> dict[tuple[int, ...], int]:
    """The number of matching buckets of every tuple that matches any."""
    formed: Counter[tuple[int, ...]] = Counter()
    for b in set(bucket.tolist()):
        formed.update(itertools.product(*(sorted(set(part[bucket == b].tolist())) for part in values)))
    return formed


def histogram(numbers: list[int]) -> dict[int, int]:
    return dict(Counter(numbers))


def stated(tuples: tuple[int, ...]) -> dict[int, int]:
    return {m: number for m, number in enumerate(tuples) if number}


def rows(seed: int, n: int, n_buckets: int, sizes: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    bucket = np.concatenate([np.arange(n_buckets), rng.integers(n_buckets, size=n - n_buckets)])
    # a skewed draw: frequent values stand in many buckets, rare ones in one
    values = [(size * rng.random(n) ** 2).astype(np.int32) for size in sizes]
    return bucket.astype(np.int32), values


SHAPES = [
    (30, 1, [4, 5]),
    (60, 8, [9]),
    (60, 20, [6, 7]),
    (80, 5, [6, 4, 5]),
    (150, 30, [6, 5, 4, 3]),
    (200, 40, [90, 3, 4, 2]),
    (90, 13, [3, 3, 2, 2, 2]),
]


@pytest.mark.parametrize(("shape", "seed"), cover(SHAPES, [1, 2, 3]))
def test_original_and_fake_tuples_by_matching_buckets(shape: tuple[int, int, list[int]], seed: int) -> None:
    bucket, values = rows(seed, *shape)
    formed = by_hand(bucket, values)
    records = list(zip(*(part.tolist() for part in values), strict=True))
    found = membership(bucket, values)
    assert stated(found.records.tuples) == histogram([formed[record] for record in records])
    assert stated(found.originals.tuples) == histogram([formed[record] for record in set(records)])
    assert stated(found.fakes.tuples) == histogram([m for t, m in formed.items() if t not in set(records)])
    assert found.fake_tuples == len(formed) - len(set(records))


@pytest.mark.parametrize("n_parts", [2, 3, 5, 9])
@pytest.mark.parametrize("n_others", [0, 40])
def test_counts_beyond_a_word_are_exact(n_parts: int, n_others: int) -> None:
    """Two buckets with N values in every part, half of them shared; beside them, buckets of one record each."""
    n, alone = 20_000, np.arange(n_others)
    part = np.concatenate([np.arange(n), n // 2 + np.arange(n), 2 * n + alone])
    bucket = np.concatenate([np.repeat([0, 1], n), 2 + alone])
    formed = count_formed_tuples(BucketContents.of(bucket, [part] * n_parts))
    shared = (n // 2) ** n_parts
    assert stated(formed.tuples) == {1: 2 * n**n_parts - 2 * shared + n_others, 2: shared}


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), min_size=1),
    st.lists(st.integers(1, 5), min_size=1, max_size=200),
)
def test_any_table(entries: list[tuple[int, int, int, int]], weights: list[int]) -> None:
    table = np.array(entries)
    bucket = np.unique(table[:, 0], return_inverse=True)[1].reshape(-1)
    values = list(table[:, 1:].T)
    records = np.resize(weights, len(table))
    formed = by_hand(bucket, values)
    found = membership(bucket, values, records)
    by_record = histogram([])
    for entry, weight in zip(zip(*(part.tolist() for part in values), strict=True), records.tolist(), strict=True):
        by_record[formed[entry]] = by_record.get(formed[entry], 0) + weight
    assert stated(found.records.tuples) == by_record
    assert found.originals.total + found.fakes.total == len(formed)

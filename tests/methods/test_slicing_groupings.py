"""Random buckets."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.methods.slicing.buckets import group_at_random


def draw_counts(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).geometric(0.2, size=900)


@pytest.mark.parametrize("size", [1, 7, 50, 999_999])
def test_every_record_gets_one_bucket_and_buckets_their_size(size: int) -> None:
    counts = draw_counts(2)
    pieces = group_at_random(counts, size, np.random.default_rng(4))
    np.testing.assert_array_equal(np.bincount(pieces.cell, weights=pieces.records, minlength=len(counts)), counts)
    assert pieces.records.min() > 0
    assert len(np.unique(np.stack([pieces.cell, pieces.bucket]), axis=1).T) == len(pieces.cell)
    sizes = np.bincount(pieces.bucket, weights=pieces.records)
    assert len(sizes) == max(counts.sum() // size, 1)
    assert pieces.bucket.dtype == np.int32
    assert min(sizes) >= min(size, counts.sum())
    assert np.ptp(sizes) <= 1


def test_groupings_differ_with_the_generator_and_not_without() -> None:
    one, same, other = (group_at_random(draw_counts(3), 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (one.bucket == same.bucket).all()
    assert len(one.bucket) != len(other.bucket) or (one.bucket != other.bucket).any()

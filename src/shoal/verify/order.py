"""The order of rows: published rows must not follow the order of the source.

Rows are compared by tokens, hashes of class and exact content, which both tables share. The place of a token is the
mean place of its rows in the source. Suppose rows were shuffled. Then exchanging two published rows changes a statistic
of them by D or by -D with equal probability, and disjoint exchanges are independent: the sum over all exchanges exceeds
t with a probability of at most 2 exp(-t^2 / (2 sum D^2)) (Hoeffding), however many rows are equal. Three statistics are
used. The trend compares places in both halves of the file: it grows if rows are in source order, reversed, or shuffled
within blocks only. Neighbours compares adjacent rows with rows of the other half: it finds blocks in any order.
Alignment counts the rows whose token equals the one at the same place of the source, or at the same place from its end:
it finds the source's order among few different tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, KeyArray
from shoal.verify.result import FALSE_ALARM, Check

_MOST = 1 << 17  # rows that are compared, about
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def find_share(n_rows: int) -> int:
    """Return the share of tokens that are compared: all of a small table, 1 of so many if it is large."""
    return max(1, n_rows // _MOST)


def check_order(published: Sequence[KeyArray], source: Sequence[KeyArray]) -> Check:
    """Check that published rows do not follow the source's order, given their tokens in both orders."""
    nothing = [np.zeros(0, dtype=np.uint64)]
    own, true = np.concatenate([*published, *nothing]), np.concatenate([*source, *nothing])
    places = _find_places(own, true)
    if places is None:
        return _judge([])
    half = len(own) // 2
    first, second = own[:half], own[half : 2 * half]
    found = _compare_halves(places)
    for order in (true, true[::-1]):
        here, there = order[:half], order[half : 2 * half]
        kept = (first == here).astype(np.float64) + (second == there)
        found.append(kept - (second == here) - (first == there))
    return _judge(found)


def check_bucket_order(
    published: tuple[CodeArray, Sequence[KeyArray]], source: tuple[CodeArray, Sequence[KeyArray]]
) -> Check:
    """Check a sliced release, given the buckets of rows and the hashes of their parts in both tables.

    Buckets must not be numbered, nor the values of a part be listed within a bucket, in the order of the source.
    """
    (buckets, parts), (true_buckets, true_parts) = published, source
    sizes = np.maximum(np.bincount(true_buckets), 1)
    found = _compare_halves(np.bincount(true_buckets, np.arange(len(true_buckets))) / sizes)
    for part, true_part in zip(parts, true_parts, strict=True):
        # Hashes under a random salt stay random if a multiple of the bucket is added.
        own, true = part + buckets.astype(np.uint64) * _SPREAD, true_part + true_buckets.astype(np.uint64) * _SPREAD
        share = np.uint64(find_share(len(own)))
        sampled = own % share == 0
        places = _find_places(own[sampled], true[true % share == 0])
        if places is None:
            return _judge([])
        n_pairs = len(places) // 2
        pairs, of_pair = (array[: 2 * n_pairs].reshape(-1, 2) for array in (places, buckets[sampled]))
        found.append(np.diff(pairs)[of_pair[:, 0] == of_pair[:, 1]])
    return _judge(found)


def _find_places(own: KeyArray, true: KeyArray) -> FloatArray | None:
    """Return (n,) the mean place of each published token in the source; None if the tokens differ."""
    values, numbers, times = np.unique(true, return_inverse=True, return_counts=True)
    if len(own) != len(true) or not len(own):
        return None
    places = np.minimum(np.searchsorted(values, own), len(values) - 1)
    if (values[places] != own).any():
        return None
    return np.asarray((np.bincount(numbers.reshape(-1), np.arange(len(true))) / times)[places])


def _compare_halves(places: FloatArray) -> list[FloatArray]:
    """Return the effects of exchanges on trend and neighbours."""
    half, even = len(places) // 2, len(places) // 4 * 2
    (a, b), (c, d) = (part.reshape(-1, 2).T for part in (places[:even], places[half : half + even]))
    neighbours = np.abs(a - c) + np.abs(b - d) - np.abs(a - b) - np.abs(c - d)
    return [places[half : 2 * half] - places[:half], neighbours]


def _judge(exchanges: Sequence[FloatArray]) -> Check:
    bound = 2 * math.log(2 * max(1, len(exchanges)) / FALSE_ALARM)
    limits = [bound * float(np.square(one).sum()) for one in exchanges]
    if any(float(one.sum()) ** 2 > limit for one, limit in zip(exchanges, limits, strict=True)):
        return Check("order", False, "the published rows follow the order of the source's rows")
    if any(float(np.abs(one).sum()) ** 2 > limit for one, limit in zip(exchanges, limits, strict=True)):
        return Check("order", True, "the published rows do not follow the order of the source's rows")
    return Check("order", True, "too few different rows to compare their order with the source's", done=False)

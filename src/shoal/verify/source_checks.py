"""Comparisons of a release with its source that all forms share: the number of its rows, and their order.

Published rows must not follow the order of the source. They are compared by tokens, hashes of class and exact content,
which both tables share. The place of a token is the mean place of its rows in the source. Suppose rows were shuffled.
Then exchanging two published rows changes a statistic of them by D or by -D with equal probability, and disjoint
exchanges are independent: the sum over all exchanges exceeds t with a probability of at most 2 exp(-t^2 / (2 sum D^2))
(Hoeffding), however many rows are equal. Three statistics are used. The trend compares places in both halves of the
file: it grows if rows are in source order, reversed, or shuffled within blocks only. Neighbours compares adjacent rows
with rows of the other half: it finds blocks in any order. Alignment counts the rows whose token equals the one at the
same place of the source, or at the same place from its end: it finds the source's order among few different tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, KeyArray
from shoal.verify.manifest import Manifest
from shoal.verify.result import FALSE_ALARM, Check

_MOST = 1 << 17  # rows whose order is compared, about
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class SourceCounts(NamedTuple):
    """The rows of the source, and how many of them lack a value that they must have.

    *moved* are missing values, by attribute, that changed rows: a row lacks one of these perhaps.
    """

    rows: int
    lacking: int
    moved: Sequence[int] = ()


def check_source_counts(manifest: Manifest, published: int, source: SourceCounts) -> Check:
    """Check that published, withheld and dropped rows add up to the source, or to a sample of it."""
    stated, dropped = published + manifest.withheld + manifest.dropped, manifest.dropped
    sums = f"{published} published + {manifest.withheld} withheld + {dropped} dropped"
    if manifest.one_per is not None:
        return Check("source counts", stated <= source.rows, f"{sums} are some of the source's {source.rows} rows")
    drops, most = manifest.missing_policy == "drop", min(source.rows, source.lacking + sum(source.moved))
    if manifest.sample is not None:
        drawn = [(stated, source.rows)]
        if drops and not any(source.moved):
            drawn += [(dropped, source.lacking), (stated - dropped, source.rows - source.lacking)]
        likely = all(is_likely_sample(*counts, manifest.sample) for counts in drawn)
        likely = likely and (not drops or (dropped <= most and stated - dropped <= source.rows - source.lacking))
        verb = "is" if likely else "is not"
        return Check("source counts", likely, f"{sums} {verb} a plausible sample of the source's {source.rows} rows")
    fewest, most = (max(source.lacking, *source.moved, 0), most) if drops else (0, 0)
    if not fewest <= dropped <= most:
        found = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        return Check("source counts", False, f"{found} source rows have values missing, the manifest says {dropped}")
    verb = "is" if stated == source.rows else "is not"
    return Check("source counts", stated == source.rows, f"{sums} {verb} the source's {source.rows} rows")


def is_likely_sample(drawn: int, rows: int, share: float) -> bool:
    """Whether as many of some rows can have been drawn, each with the chance *share*, but for one chance in 10**12.

    Chernoff: a binomial number is as far from its mean, on this side, with a chance of at most exp(-rows * D), D being
    the divergence of the two shares.

    >>> is_likely_sample(1000, 10_000, 0.1), is_likely_sample(1300, 10_000, 0.1), is_likely_sample(11, 10, 0.5)
    (True, False, False)
    """
    if not 0 <= drawn <= rows:
        return False
    exponent = sum(
        part * math.log(part / (rows * chance)) for part, chance in ((drawn, share), (rows - drawn, 1 - share)) if part
    )
    return exponent <= math.log(2 / FALSE_ALARM)


def find_share(n_rows: int) -> int:
    """Return n if one of n tokens is compared: 1 for a small table."""
    return max(1, n_rows // _MOST)


def check_order(own: KeyArray, true: KeyArray) -> Check:
    """Check that published rows do not follow the source's order, given their tokens in both orders."""
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

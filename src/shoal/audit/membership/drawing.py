"""Fake tuples drawn at random, each of them equally likely, without listing them."""

from __future__ import annotations

import numpy as np

from shoal.audit.membership.contents import BucketContents, ValueBuckets
from shoal.audit.membership.counting import matching_buckets
from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.plan.plan import same_rows

MOST_PROPOSALS = 4_000_000
MOST_IN_VAIN = 400_000
_AT_ONCE = 20_000


def draw_fakes(contents: BucketContents, originals: CodeArray, n: int, rng: np.random.Generator) -> CodeArray:
    """Return (n_parts, at most n) fake tuples, independent of each other and uniform over all distinct ones.

    ``originals`` is (n_parts, n_tuples). A bucket is drawn in proportion to the tuples that it forms and one of
    these evenly; a tuple that m buckets form comes up m times as often, so it is kept with probability 1/m. There are
    fewer than n, or none, where fakes are so rare that they do not come up in time.
    """
    shown = np.log(contents.n_shown()).sum(axis=0)
    chance = np.exp(shown - shown.max())
    chance /= chance.sum()
    entries = [_by_bucket(part, contents.n_buckets) for part in contents.parts]
    known = originals[:, same_rows(list(originals))[0]] if originals.size else originals
    kept: list[CodeArray] = []
    n_kept = proposed = 0
    while n_kept < n and proposed < (MOST_PROPOSALS if n_kept else MOST_IN_VAIN):
        bucket = rng.choice(contents.n_buckets, size=_AT_ONCE, p=chance)
        proposals = np.empty((len(contents.parts), _AT_ONCE), dtype=np.int32)
        for row, (first, values) in zip(proposals, entries, strict=True):
            row[:] = values[first[bucket] + rng.integers(np.diff(first)[bucket])]
        accepted = rng.random(_AT_ONCE) * matching_buckets(contents, proposals) < 1
        fakes = proposals[:, accepted]
        fakes = fakes[:, ~among(known, fakes)]
        kept.append(fakes)
        n_kept += fakes.shape[1]
        proposed += _AT_ONCE
    return np.concatenate(kept, axis=1)[:, :n]


def _by_bucket(part: ValueBuckets, n_buckets: int) -> tuple[IntArray, CodeArray]:
    """Return the values of a part by bucket: bucket b shows those at ``first[b]:first[b + 1]``."""
    first, order = kernels.grouped(part.bucket, n_buckets)
    value_of = np.repeat(np.arange(part.n_values, dtype=np.int32), part.n_buckets_of)
    return first, value_of[order]


def among(known: CodeArray, tuples: CodeArray) -> BoolArray:
    """Return (n_tuples,) which tuples are among the known ones; both are (n_parts, ...) with codes from 0."""
    n_known = known.shape[1]
    both = np.concatenate([known, tuples], axis=1)
    if not both.shape[1]:
        return np.zeros(0, dtype=np.bool_)
    first, group = same_rows(list(both))
    return np.asarray(first[group[n_known:]] < n_known, dtype=np.bool_)

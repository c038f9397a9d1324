"""Fake tuples drawn at random, each of them equally likely, without listing them."""

from __future__ import annotations

import numpy as np

from shoal.arrays import BoolArray, CodeArray
from shoal.membership.contents import BucketContents
from shoal.membership.counting import matching_buckets
from shoal.plan import same_rows

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
    known = np.unique(originals, axis=1)
    kept: list[CodeArray] = []
    n_kept = proposed = 0
    while n_kept < n and proposed < (MOST_PROPOSALS if n_kept else MOST_IN_VAIN):
        bucket = rng.choice(contents.n_buckets, size=_AT_ONCE, p=chance)
        proposals = np.empty((len(contents.parts), _AT_ONCE), dtype=np.int32)
        for row, part in zip(proposals, contents.parts, strict=True):
            order = np.argsort(part.bucket, kind="stable")  # entries by bucket
            first = np.searchsorted(part.bucket[order], np.arange(contents.n_buckets + 1))
            entry = first[bucket] + rng.integers(np.diff(first)[bucket])
            row[:] = (np.searchsorted(part.first, order[entry], side="right") - 1).astype(np.int32)
        accepted = rng.random(_AT_ONCE) * matching_buckets(contents, proposals) < 1
        fakes = proposals[:, accepted]
        fakes = fakes[:, ~among(known, fakes)]
        kept.append(fakes)
        n_kept += fakes.shape[1]
        proposed += _AT_ONCE
    return np.concatenate(kept, axis=1)[:, :n]


def among(known: CodeArray, tuples: CodeArray) -> BoolArray:
    """Return (n_tuples,) which tuples are among the known ones; both are (n_parts, ...) with codes from 0."""
    n_known = known.shape[1]
    both = np.concatenate([known, tuples], axis=1)
    if not both.shape[1]:
        return np.zeros(0, dtype=np.bool_)
    first, group = same_rows(list(both))
    return np.asarray(first[group[n_known:]] < n_known, dtype=np.bool_)

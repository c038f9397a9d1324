"""Labels of a release by a plan: those around all points of the class, attribute by attribute."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.verify.covers import Covers
from shoal.verify.kernels import kernel


@kernel
def _spanned(
    owner: IntArray,
    begin: IntArray,
    end: IntArray,
    order: IntArray,
    first: IntArray,
    last: IntArray,
    covered: IntArray,
) -> None:
    """Widen each label by the values of its pieces; *order* lists values by their codes."""
    for piece in range(owner.shape[0]):
        label = owner[piece]
        for at in range(begin[piece], end[piece]):
            first[label] = min(first[label], order[at])
            last[label] = max(last[label], order[at])
        covered[label] += end[piece] - begin[piece]


def wrong_hulls(cover: Covers, values: pa.Array, points: CodeArray, class_of: CodeArray, labels: CodeArray) -> int:
    """Return how many classes bear a label that covers neither just their hull nor all values of the plan.

    *points* are the values of the plan's points, in its order; *labels* the one that each class bears, -1 for none.
    The hull of a class is everything from its first value to its last, in the order of the plan.
    """
    n_values, n_labels = len(values), len(cover.labels)
    codes = cover.places(values)
    order = np.argsort(codes, kind="stable")
    # One more label, the last, covers nothing: it is that of unknown texts.
    first = np.full(n_labels + 1, n_values, dtype=np.int64)
    last = np.full(n_labels + 1, -1, dtype=np.int64)
    covered = np.zeros(n_labels + 1, dtype=np.int64)
    owner = np.repeat(np.arange(n_labels, dtype=np.int64), np.diff(cover.start))
    begin, end = (np.searchsorted(codes[order], side) for side in (cover.low, cover.high))
    _spanned(owner, begin, end, order, first, last, covered)
    low = np.full(len(labels), n_values, dtype=np.int64)
    high = np.full(len(labels), -1, dtype=np.int64)
    np.minimum.at(low, class_of, points)
    np.maximum.at(high, class_of, points)
    hull = (first[labels] == low) & (last[labels] == high) & (covered[labels] == high - low + 1)
    return int((~(hull | (covered[labels] == n_values)))[labels >= 0].sum())

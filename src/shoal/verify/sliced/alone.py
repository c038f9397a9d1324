"""All tuples that the buckets could form: what can be said of a sliced release without its source."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.verify.kernels import kernel
from shoal.verify.sliced.postings import Postings
from shoal.verify.sliced.reading import SlicedRows
from shoal.verify.tally import Combinations

MOST = 2_000_000  # tuples that are worth forming


@kernel
def _products(starts: IntArray, values: CodeArray, n: int) -> CodeArray:
    """Return (n, n_parts) every combination of the parts' values, bucket by bucket.

    (n_parts, n_buckets + 1) *starts* tell where the values of each bucket begin in *values*.
    """
    n_parts, n_buckets = starts.shape[0], starts.shape[1] - 1
    out = np.empty((n, n_parts), dtype=np.int32)
    at = np.zeros(n_parts, dtype=np.int64)
    row = 0
    for bucket in range(n_buckets):
        at[:] = starts[:, bucket]
        while True:
            for part in range(n_parts):
                out[row, part] = values[at[part]]
            row += 1
            part = n_parts - 1
            while part >= 0:
                at[part] += 1
                if at[part] < starts[part, bucket + 1]:
                    break
                at[part] = starts[part, bucket]
                part -= 1
            if part < 0:
                break
    return out


def formable(released: SlicedRows) -> CodeArray | None:
    """Return (n, n_known_parts) the distinct tuples that some bucket matches, or None if they are too many.

    Tuples have values of all parts with quasi attributes, and agree where parts overlap.
    """
    n_buckets, n_parts = len(released.sizes), len(released.layout.known)
    starts = np.empty((n_parts, n_buckets + 1), dtype=np.int64)
    values, begin = [], 0
    for part in range(n_parts):
        value, bucket = _entries(released.lists, part)
        order = np.argsort(bucket, kind="stable")
        starts[part] = np.searchsorted(bucket[order], np.arange(n_buckets + 1)) + begin
        values.append(value[order])
        begin += len(value)
    widths = np.diff(starts, axis=1).astype(np.float64)
    if widths.prod(axis=0).sum() > MOST:
        return None
    total = int(np.diff(starts, axis=1).prod(axis=0).sum())
    rows = _products(starts, np.concatenate(values).astype(np.int32), total)
    rows = rows[_agreeing(released, rows)]
    first = released.lists.first
    numbers = Combinations(np.diff(first)[:n_parts].tolist())
    numbers.ids(list(rows.T), len(rows))
    return numbers.tuples()


def _entries(lists: Postings, part: int) -> tuple[IntArray, CodeArray]:
    low, high = lists.begin(part), lists.begin(part + 1)
    value = np.repeat(np.arange(lists.first[-1]), np.diff(lists.start))[low:high] - lists.first[part]
    return value, lists.bucket[low:high]


def _agreeing(released: SlicedRows, rows: CodeArray) -> BoolArray:
    """Return (n,) whether the values of overlapping parts agree in what they share."""
    agree = np.ones(len(rows), dtype=np.bool_)
    known = released.layout.known
    for separator, (first, second) in zip(released.layout.separators, released.shared_of, strict=True):
        if separator.first not in known or separator.second not in known:
            continue  # only the sensitive attribute is shared
        one, other = rows[:, known.index(separator.first)], rows[:, known.index(separator.second)]
        agree &= first[one] == second[other]
    return agree

"""The column of buckets: whole numbers from 1 on, ascending, none left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.verify.contents import is_textual
from shoal.verify.reading import coded


class BucketError(Exception):
    """The column of buckets is not what it should be; the message says what is wrong."""


def bucket_codes(column: pa.Array, n_buckets: int) -> CodeArray:
    """Return (n_rows,) buckets from 0 on, or raise BucketError if they are not whole numbers from 1 to n.

    >>> bucket_codes(pa.array(["1", "2", "2"]), 2).tolist()
    [0, 1, 1]
    """
    values, places = coded(column)
    if column.null_count:
        raise BucketError("rows have no bucket")
    try:
        numbers = values.cast(pa.int64()) if _may_count(values.type) else None
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or not values.cast(pa.string()).equals(numbers.cast(pa.string())):
        raise BucketError("buckets are not plain whole numbers")
    found = np.asarray(numbers, dtype=np.int64)
    if ((found < 1) | (found > n_buckets)).any():
        raise BucketError(f"buckets are not numbers from 1 to {n_buckets}, as the manifest says")
    return (found - 1).astype(np.int32)[places]


def _may_count(kind: pa.DataType) -> bool:
    return is_textual(kind) or bool(pa.types.is_integer(kind))


def grown_sizes(sizes: IntArray, buckets: CodeArray) -> IntArray:
    """Add rows to their buckets, or raise BucketError; since these ascend without gaps, memory is bounded by the rows.

    >>> grown_sizes(np.array([2]), np.array([0, 1, 1], dtype=np.int32)).tolist()
    [3, 2]
    """
    steps = np.diff(buckets, prepend=np.int32(len(sizes) - 1))
    if ((steps < 0) | (steps > 1)).any():
        raise BucketError("buckets are not in ascending order, or their numbers have gaps")
    more = np.bincount(buckets)
    more[: len(sizes)] += sizes
    return np.asarray(more, dtype=np.int64)

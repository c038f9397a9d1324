"""How easily records are found in a table, by the sizes of its classes or buckets."""

from __future__ import annotations

from typing import Any

from shoal.arrays import IntArray


def class_risks(sizes: IntArray) -> dict[str, Any]:
    """Return how easily records are found by their class, for two kinds of searchers.

    The prosecutor knows that the target is in the table: 1 / class size. The marketer wants as many as possible:
    the expected share found is the number of classes over that of records.
    """
    n_records = int(sizes.sum())
    return {
        "records": n_records,
        "classes": len(sizes),
        "smallest_class": int(sizes.min()),
        "unique_records": int((sizes == 1).sum()),
        "prosecutor_highest": 1.0 / int(sizes.min()),
        "prosecutor_mean": len(sizes) / n_records,
        "marketer": len(sizes) / n_records,
        "class_sizes": size_histogram(sizes),
    }


def bucket_risks(sizes: IntArray) -> dict[str, Any]:
    """Return among how many records the parts of a record hide.

    >>> import numpy as np
    >>> found = bucket_risks(np.array([4, 6]))
    >>> found["smallest_bucket"], found["mean_bucket"]
    (4, 5.0)
    """
    n_records = int(sizes.sum())
    return {
        "records": n_records,
        "buckets": len(sizes),
        "smallest_bucket": int(sizes.min()),
        "mean_bucket": n_records / len(sizes),
        "bucket_sizes": size_histogram(sizes, "buckets"),
    }


def size_histogram(sizes: IntArray, groups: str = "classes") -> list[dict[str, int]]:
    """Return *groups* and their records by size, in ranges that double.

    >>> import numpy as np
    >>> size_histogram(np.array([1, 1, 3, 9]))[1]
    {'from': 2, 'to': 3, 'classes': 1, 'records': 3}
    """
    bins = []
    low = 1
    while low <= int(sizes.max()):
        high = 2 * low - 1
        inside = sizes[(sizes >= low) & (sizes <= high)]
        bins.append({"from": low, "to": high, groups: len(inside), "records": int(inside.sum())})
        low = high + 1
    return bins

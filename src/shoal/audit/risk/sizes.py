"""How easily records are found in a table, by the sizes of its classes or buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.core.arrays import IntArray


def class_risks(sizes: IntArray, times: IntArray | None = None) -> dict[str, Any]:
    """Return how easily records are found by their class, for two kinds of searchers.

    With *times*, so many classes have each of the *sizes*.

    The prosecutor knows that the target is in the table: 1 / class size. The marketer wants as many as possible:
    the expected share found is the number of classes over that of records.
    """
    classes = np.ones(len(sizes), dtype=np.int64) if times is None else times
    n_records, n_classes = int((sizes * classes).sum()), int(classes.sum())
    return {
        "records": n_records,
        "classes": n_classes,
        "smallest_class": int(sizes.min()),
        "unique_records": int(classes[sizes == 1].sum()),
        "prosecutor_highest": 1.0 / int(sizes.min()),
        "prosecutor_mean": n_classes / n_records,
        "marketer": n_classes / n_records,
        "class_sizes": size_histogram(sizes, times=classes),
    }


def bucket_risks(sizes: IntArray) -> dict[str, Any]:
    """Return among how many records the parts of a record hide.

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


def size_histogram(sizes: IntArray, groups: str = "classes", times: IntArray | None = None) -> list[dict[str, int]]:
    """Return *groups* and their records by size, in ranges that double.

    >>> size_histogram(np.array([1, 1, 3, 9]))[1]
    {'from': 2, 'to': 3, 'classes': 1, 'records': 3}
    """
    bins = []
    low = 1
    while low <= int(sizes.max()):
        high = 2 * low - 1
        inside = (sizes >= low) & (sizes <= high)
        n_groups = int(inside.sum() if times is None else times[inside].sum())
        n_records = int((sizes[inside] * (1 if times is None else times[inside])).sum())
        bins.append({"from": low, "to": high, groups: n_groups, "records": n_records})
        low = high + 1
    return bins

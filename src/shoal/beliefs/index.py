"""Where the values of each part occur: for every value the buckets that have it, with counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.pairs import counted_pairs


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The buckets of each value, ascending: value v has the entries ``start[v]:start[v + 1]``.

    An entry is a *group*: the records of one bucket that share a value of one part.
    """

    start: IntArray  # (n_values + 1,)
    bucket: CodeArray  # (n_entries,)
    count: IntArray  # (n_entries,) records
    entry_of: IntArray  # (n_pieces,) the group of each piece

    @classmethod
    def of(cls, values: CodeArray, n_values: int, bucket: CodeArray, records: IntArray, n_buckets: int) -> Lists:
        """Collect the pieces' values.

        >>> codes = np.array([0, 1, 0, 0], dtype=np.int32)
        >>> lists = Lists.of(codes, 2, np.array([0, 0, 1, 1], dtype=np.int32), np.array([1, 2, 3, 4]), 2)
        >>> lists.start.tolist(), lists.bucket.tolist(), lists.count.tolist()
        ([0, 2, 3], [0, 1, 0], [1, 7, 2])
        """
        return cls(*counted_pairs(values, n_values, bucket, n_buckets, records))


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The lists of several parts one after another, so that compiled loops see plain arrays.

    Value v of part i is number ``offset[i] + v``; its entries are ``start[number]:stop[number]``.
    """

    offset: IntArray  # (n_parts,)
    start: IntArray  # (n_numbers,)
    stop: IntArray  # (n_numbers,)
    bucket: CodeArray  # (n_entries,)
    log_count: FloatArray  # (n_entries,)
    first_entry: IntArray  # (n_parts,) what to take from an entry's number to have that of its own list

    @classmethod
    def of(cls, lists: list[Lists]) -> Joined:
        """Put lists in a row."""
        values = np.array([len(one.start) - 1 for one in lists], dtype=np.int64)
        entries = np.array([len(one.bucket) for one in lists], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(entries)[:-1]]).astype(np.int64)
        return cls(
            offset=np.concatenate([[0], np.cumsum(values)[:-1]]).astype(np.int64),
            start=np.concatenate([one.start[:-1] + shift for one, shift in zip(lists, first, strict=True)]),
            stop=np.concatenate([one.start[1:] + shift for one, shift in zip(lists, first, strict=True)]),
            bucket=np.concatenate([one.bucket for one in lists]),
            log_count=np.log(np.concatenate([one.count for one in lists]).astype(np.float64)),
            first_entry=first,
        )

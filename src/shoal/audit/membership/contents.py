"""What each bucket of a sliced table shows of each part, turned round: the buckets in which a value stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.audit.membership import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.pairs import counted_pairs


@dataclass(frozen=True, slots=True, eq=False)
class ValueBuckets:
    """The buckets of every value of one part, ascending, and how often the value stands in each."""

    first: IntArray  # (n_values + 1,) value v has the entries first[v]:first[v + 1]
    bucket: CodeArray  # (n_entries,)
    count: IntArray  # (n_entries,) records

    @property
    def n_values(self) -> int:
        """Number of values, those that no bucket shows included."""
        return len(self.first) - 1

    @property
    def n_buckets_of(self) -> IntArray:
        """(n_values,) number of buckets that show each value."""
        return np.diff(self.first)

    @property
    def records_of(self) -> IntArray:
        """(n_values,) number of records with each value."""
        total = np.concatenate([[0], np.cumsum(self.count)])
        return np.asarray(total[self.first[1:]] - total[self.first[:-1]], dtype=np.int64)

    @classmethod
    def of(cls, values: AnyIntArray, bucket: AnyIntArray, records: AnyIntArray | None, n_buckets: int) -> ValueBuckets:
        """Count the records of every pair of value and bucket."""
        weights = np.ones(len(values), dtype=np.int64) if records is None else np.asarray(records, dtype=np.int64)
        n_values = int(values.max(initial=-1)) + 1
        codes, buckets = values.astype(np.int32), bucket.astype(np.int32)
        pairs = counted_pairs(codes, n_values, buckets, n_buckets, weights)
        return cls(pairs.start, pairs.second, pairs.records)


@dataclass(frozen=True, slots=True, eq=False)
class AllValues:
    """The values of all parts, numbered through: those of the j-th part from ``value_first[j]`` on."""

    value_first: IntArray  # (n_parts,)
    first: IntArray  # (n_values + 1,)
    bucket: CodeArray  # (n_entries,)
    count: IntArray  # (n_entries,)


@dataclass(frozen=True, slots=True, eq=False)
class BucketContents:
    """A sliced table as an adversary sees it who asks which buckets match a tuple: no linkage between parts.

    Li, Li, Zhang and Molloy, Definition 5: a bucket matches a tuple iff it shows the tuple's value of every part.

    >>> contents = BucketContents.of(np.array([0, 0, 1]), [np.array([0, 1, 1]), np.array([0, 1, 0])])
    >>> contents.sizes.tolist(), [part.n_buckets_of.tolist() for part in contents.parts]
    ([2, 1], [[1, 2], [2, 1]])
    """

    sizes: IntArray  # (n_buckets,) records
    parts: tuple[ValueBuckets, ...]

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return len(self.sizes)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.sizes.sum())

    @classmethod
    def of(
        cls, bucket: AnyIntArray, values: Sequence[AnyIntArray], records: AnyIntArray | None = None
    ) -> BucketContents:
        """Build from rows: the bucket of each, its value of each part and, if rows are many records, how many.

        Each part's values may stand in an order of their own within a bucket.
        """
        weights = None if records is None else np.asarray(records, dtype=np.float64)
        sizes = np.bincount(bucket, weights=weights).astype(np.int64)  # exact below 2**53 records
        return cls(sizes, tuple(ValueBuckets.of(part, bucket, records, len(sizes)) for part in values))

    def flat(self) -> AllValues:
        """Return the values of all parts as one list."""
        value_first = np.cumsum([0, *(part.n_values for part in self.parts)])[:-1].astype(np.int64)
        sizes = np.concatenate([part.n_buckets_of for part in self.parts])
        return AllValues(
            value_first,
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([part.bucket for part in self.parts]),
            np.concatenate([part.count for part in self.parts]),
        )

    def known(self, tuples: AnyIntArray) -> CodeArray:
        """Return (n_parts, n_tuples) the same values, but -1 for those that no bucket can show."""
        n_values = np.array([part.n_values for part in self.parts])[:, np.newaxis]
        return np.where((tuples >= 0) & (tuples < n_values), tuples, -1).astype(np.int32)

    def n_shown(self) -> IntArray:
        """(n_parts, n_buckets) how many distinct values each bucket shows of each part."""
        shown = [np.bincount(part.bucket, minlength=self.n_buckets) for part in self.parts]
        return np.array(shown, dtype=np.int64).reshape(len(self.parts), self.n_buckets)


@dataclass(frozen=True, slots=True, eq=False)
class BucketSets:
    """The values of one part that stand in just the same buckets, put together: sets of buckets with their weight."""

    first: IntArray  # (n_sets + 1,)
    bucket: CodeArray  # (n_entries,) ascending within a set
    weight: IntArray  # (n_sets,) values that have it

    @classmethod
    def of(cls, part: ValueBuckets) -> BucketSets:
        """Gather values by their buckets; a value that no bucket shows is left out."""
        keys = kernels.set_keys(part.first, part.bucket)
        order = np.lexsort((keys, part.n_buckets_of))
        order = order[part.n_buckets_of[order] > 0]
        same = kernels.same_sets(part.first, part.bucket, order)
        heads = np.flatnonzero(~same)
        weight = np.diff(heads, append=len(order)).astype(np.int64)
        kept = order[heads]
        first = np.concatenate([[0], np.cumsum(part.n_buckets_of[kept])]).astype(np.int64)
        return cls(first, kernels.gathered(part.first, part.bucket, kept, first), weight)

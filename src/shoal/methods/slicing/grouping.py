"""Groupings of records into buckets of a given size, for slicings that make it harder to tell who is in the table.

Whoever looks a person up in a sliced table learns something wherever members and strangers with equally frequent values
match the buckets differently. Two things make them alike. If the records of every value are spread evenly, a value with
as many records as there are buckets stands in all of them, and a tuple with such a value matches as many buckets as
its other values have, whether or not it is in the data. What is left are tuples of rare values only: a member
matches its own bucket, a stranger most likely none. So records of rare values are put into buckets of their own, where
rare values meet each other far more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import kernel
from shoal.plan.slices import Pieces

CANDIDATES = 10  # buckets that are compared for a record; more of them change little


def group_at_random(counts: IntArray, size: int, rng: np.random.Generator) -> Pieces:
    """Deal all records to buckets of *size* at random; if that leaves some over, buckets have some more, none fewer.

    Li, Li, Zhang and Molloy, section 6.3.

    >>> pieces = group_at_random(np.array([3, 4]), 3, np.random.default_rng(0))
    >>> np.bincount(pieces.bucket, weights=pieces.records).tolist(), int(pieces.records[pieces.cell == 0].sum())
    ([4.0, 3.0], 3)
    """
    sizes = bucket_sizes(int(counts.sum()), size)
    cell = np.repeat(np.arange(len(counts)), counts)
    bucket = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return join_pieces(rng.permutation(cell), bucket, np.ones_like(cell))


def gather_rare(parts_values: Sequence[CodeArray], counts: IntArray, size: int, rng: np.random.Generator) -> Pieces:
    """Gather records of rare values in one half of the buckets, and spread the records of each value within a half.

    ``parts_values`` are the values of every cell in each part, from 0. A record is the rarer, the smaller the
    product of the frequencies of its values. Bucket sizes are those of :func:`group_at_random`; the rest is random.
    """
    sizes = bucket_sizes(int(counts.sum()), size)
    cell = np.repeat(np.arange(len(counts)), counts)
    rarity = np.zeros(len(counts))
    for values in parts_values:
        frequency = np.bincount(values, weights=counts)[values]  # (n_cells,) the records that share each cell's value
        rarity += np.log(np.maximum(frequency, 1.0))
    order = np.lexsort((rng.random(len(cell)), rarity[cell]))
    numbers = rng.permutation(len(sizes)).astype(np.int32)
    n_rare = len(sizes) // 2
    cells, buckets, edge = [], [], 0
    for some in (numbers[:n_rare], numbers[n_rare:]):
        n_records = int(sizes[some].sum())
        records = rng.permutation(cell[order[edge : edge + n_records]])
        edge += n_records
        cells.append(records)
        buckets.append(some[_spread([values[records] for values in parts_values], sizes[some], rng)])
    return join_pieces(np.concatenate(cells), np.concatenate(buckets), np.ones_like(cell))


def bucket_sizes(n_records: int, size: int) -> IntArray:
    """Return (n_buckets,) as many buckets of at least *size* records as there can be, alike up to one record.

    >>> bucket_sizes(23, 5)
    array([6, 6, 6, 5])
    """
    if size < 1:
        raise UsageError(f"a bucket has at least one record, but a size of {size} was asked for")
    if not n_records:
        raise UsageError("there are no records to group")
    n_buckets = max(n_records // size, 1)
    sizes = np.full(n_buckets, n_records // n_buckets, dtype=np.int64)
    sizes[: n_records % n_buckets] += 1
    return sizes


def _spread(parts_values: Sequence[AnyIntArray], sizes: IntArray, rng: np.random.Generator) -> CodeArray:
    """Return (n_records,) buckets in which no value of any part stands much oftener than in others."""
    n_records = int(sizes.sum())
    starts = np.cumsum([0, *(int(values.max(initial=-1)) + 1 for values in parts_values)])
    values = np.stack([part + start for part, start in zip(parts_values, starts, strict=False)]).astype(np.int64)
    records_of = np.bincount(values.reshape(-1), minlength=int(starts[-1])).astype(np.float64)
    slots = 1 << int(2 * max(values.size, 1)).bit_length()
    drawn = rng.integers(1 << 31, size=(2, n_records))
    return spread(values, records_of, sizes.copy(), drawn, slots, CANDIDATES)


def merge_groups(pieces: Pieces, keys: CodeArray, failing: BoolArray, rng: np.random.Generator) -> Pieces:
    """Return the pieces with every failing group in the bucket of another group with its key, if there is one.

    A group is what one bucket has of one key; it fails if a piece of it does. Failing groups join each other two by
    two, in random order; one that is left over joins a group that holds.

    >>> pieces = Pieces(np.arange(4), np.array([0, 1, 2, 2], dtype=np.int32), np.ones(4, dtype=np.int64))
    >>> keys, failing = np.array([5, 5, 5, 7], dtype=np.int32), np.array([True, False, False, False])
    >>> merge_groups(pieces, keys, failing, np.random.default_rng(0)).bucket.tolist() in ([1, 1, 2, 2], [2, 1, 2, 2])
    True
    """
    n_buckets = int(pieces.bucket.max()) + 1
    pairs, group = np.unique(keys.astype(np.int64) * n_buckets + pieces.bucket, return_inverse=True)
    key, bucket = np.divmod(pairs, n_buckets)
    fails = np.zeros(len(pairs), dtype=np.bool_)
    group = group.reshape(-1)
    fails[group[failing]] = True
    order = np.lexsort((rng.random(len(pairs)), ~fails, key))
    rank = np.arange(len(order)) - np.searchsorted(key[order], key[order])
    joins = np.flatnonzero(fails[order[:-1]] & (rank[:-1] % 2 == 0) & (np.diff(key[order]) == 0))
    bucket[order[joins]] = bucket[order[joins + 1]]
    return Pieces(pieces.cell, bucket[group].astype(np.int32), pieces.records)


def join_pieces(cell: IntArray, bucket: CodeArray, records: IntArray) -> Pieces:
    """Put the records of a cell in one bucket together, and number the buckets without gaps."""
    occurring, number = np.unique(bucket, return_inverse=True)
    pair, place = np.unique(cell * len(occurring) + number.reshape(-1), return_inverse=True)
    where, which = np.divmod(pair, len(occurring))
    total = np.bincount(place.reshape(-1), weights=records).astype(np.int64)
    return Pieces(where, which.astype(np.int32), total)


@kernel
def spread(
    values: IntArray, records_of: FloatArray, free: IntArray, drawn: IntArray, slots: int, candidates: int
) -> CodeArray:
    """Return the bucket of each record: of some buckets with free places, the one that has its values least often.

    ``values`` is (n_parts, n_records), numbered through all parts; ``drawn`` is (2, n_records) random numbers. Counts
    are relative to an even spread, so that to repeat a rare value counts more than to repeat a frequent one. *slots* is
    a power of two above the number of pairs of value and bucket; ``free`` places are used up.
    """
    n_parts, n_records = values.shape
    n_buckets = len(free)
    keys = np.full(slots, -1, dtype=np.int64)
    count = np.zeros(slots, dtype=np.int32)
    mask = slots - 1
    open_buckets = np.arange(n_buckets)
    n_open = n_buckets
    chosen = np.empty(n_records, dtype=np.int32)
    for record in range(n_records):
        least = np.inf
        best = 0
        stride = 1 if n_open <= candidates else 1 + drawn[1, record] % (n_open - 1)
        for trial in range(min(candidates, n_open)):
            place = (drawn[0, record] + trial * stride) % n_open
            bucket = open_buckets[place]
            cost = 0.0
            for part in range(n_parts):
                value = values[part, record]
                slot = slot_of(keys, value * n_buckets + bucket, mask)
                if keys[slot] >= 0:
                    cost += count[slot] / records_of[value]
            if cost < least:
                least, best = cost, place
        bucket = open_buckets[best]
        chosen[record] = bucket
        for part in range(n_parts):
            key = values[part, record] * n_buckets + bucket
            slot = slot_of(keys, key, mask)
            keys[slot] = key
            count[slot] += 1
        free[bucket] -= 1
        if free[bucket] == 0:
            n_open -= 1
            open_buckets[best] = open_buckets[n_open]
    return chosen


@kernel
def slot_of(keys: IntArray, key: int, mask: int) -> Any:
    """Return the slot that has the key, or the empty one where it belongs."""
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot

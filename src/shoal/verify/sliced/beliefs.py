"""What an adversary believes of a tuple: the buckets that match it, found in inverted lists, and their mixture.

p(t,s) = sum over buckets of p(t,B) D(t,B)[s], Li, Li, Zhang and Molloy, Equations (2) to (4). Tuples that only one
bucket matches need no mixture: what is believed of them are the whole numbers of one group.

Where several parts have the sensitive attribute an adversary joins them through it. Within a bucket the expected
number of records with quasi values q and sensitive value s is then the product of the counts of (q_i, s) in the parts
that have the attribute and of q_i in the others, over the counts of what parts share. So what is believed of s is the
weight of the tuple (q, s), matched like any other tuple against lists of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.verify.kernels import inlined, kernel, paired

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ROOM = 1 << 24  # entries that are spread out
_SEARCHED = 4  # a list so short is searched as fast
_ENTRIES = 1 << 20  # of the mixtures that are held at a time
_TINY, _HUGE = 1e-250, 1e250  # between these, products of many shares have not lost digits


class Postings(NamedTuple):
    """The lists of several parts, one after the other; value v of list i is number ``first[i] + v``."""

    first: IntArray  # (n_lists + 1,)
    start: IntArray  # (n_values + 1,) of all lists together
    bucket: CodeArray  # (n_entries,)
    times: IntArray  # (n_entries,)
    dense: IntArray  # (n_values,) where the row of a value begins in ``entry``; -1: its list is to be searched
    entry: CodeArray  # rows of n_buckets: the entry of a value in each bucket, or -1

    @classmethod
    def of(cls, counted: Sequence[tuple[KeyArray, IntArray]], n_values: Sequence[int]) -> Postings:
        """Build from the counts of keys value << 32 | bucket of each list; keys ascend.

        >>> keys = np.array([0 << 32 | 1, 1 << 32 | 0, 1 << 32 | 1], dtype=np.uint64)
        >>> lists = Postings.of([(keys, np.array([3, 2, 1]))], [2])
        >>> lists.start.tolist(), lists.bucket.tolist()
        ([0, 1, 3], [1, 0, 1])
        """
        first = np.cumsum([0, *n_values], dtype=np.int64)
        numbers = [
            (keys >> _SHIFT).astype(np.int64) + offset for (keys, _), offset in zip(counted, first[:-1], strict=True)
        ]
        values = np.concatenate(numbers)
        start = np.searchsorted(values, np.arange(first[-1] + 1)).astype(np.int64)
        buckets = np.concatenate([(keys & _LOW).astype(np.int32) for keys, _ in counted])
        dense, entry = _spread(start, values, buckets)
        return cls(first, start, buckets, np.concatenate([counts for _, counts in counted]), dense, entry)

    def totals(self, number: int) -> IntArray:
        """Return (n_values,) how often each value of a list occurs in the table."""
        sums = np.append(0, np.cumsum(self.times))[self.start]
        return np.diff(sums[self.first[number] : self.first[number + 1] + 1])

    def keys_of(self, number: int) -> KeyArray:
        """Return the keys value << 32 | bucket of one list's entries, ascending."""
        low, high = self.start[self.first[number]], self.start[self.first[number + 1]]
        value = np.repeat(np.arange(self.first[-1]), np.diff(self.start))[low:high] - self.first[number]
        return paired(value.astype(np.int32), self.bucket[low:high])

    def begin(self, number: int) -> int:
        """Return where the entries of a list begin."""
        return int(self.start[self.first[number]])


def _spread(start: IntArray, values: IntArray, buckets: CodeArray) -> tuple[IntArray, CodeArray]:
    """Return rows that tell the entries of values in many buckets at once, as far as there is room for them."""
    n_buckets = int(buckets.max(initial=-1)) + 1
    lengths = np.diff(start)
    often = np.argsort(-lengths, kind="stable")[: _ROOM // max(1, n_buckets)]
    often = often[lengths[often] > _SEARCHED]
    dense = np.full(len(lengths), -1, dtype=np.int64)
    dense[often] = np.arange(len(often)) * n_buckets
    entry = np.full(len(often) * n_buckets, -1, dtype=np.int32)
    listed = np.flatnonzero(dense[values] >= 0)
    entry[dense[values[listed]] + buckets[listed]] = listed
    return dense, entry


@inlined
def entry_of(start: IntArray, buckets: CodeArray, dense: IntArray, entry: CodeArray, value: int, bucket: int) -> int:
    """Return where the list of a value has this bucket, or -1.

    The fields of Postings come one by one: kernels are slow to take them from a tuple again and again.
    """
    row = dense[value]
    if row >= 0:
        found = int(entry[row + bucket])
    else:
        low, high = start[value], start[value + 1]
        while low < high:
            middle = (low + high) // 2
            if buckets[middle] < bucket:
                low = middle + 1
            else:
                high = middle
        found = -1
        if low < start[value + 1] and buckets[low] == bucket:
            found = int(low)
    return found


@inlined
def shortest_of(start: IntArray, values: CodeArray, row: int, n_parts: int) -> int:
    """Return the part whose value is in the fewest buckets, or -1 if a value is in none."""
    best, fewest = -1, np.int64(2**62)
    for part in range(n_parts):
        value = values[row, part]
        if value < 0:
            best = -1
            break
        length = start[value + 1] - start[value]
        if length < fewest:
            best, fewest = part, length
    return best


def number_values(lists: Postings, values: CodeArray) -> CodeArray:
    """Return (n, n_parts) numbers of values in the lists; values that a part does not have become -1."""
    out = np.empty(values.shape, dtype=np.int32)
    for part in range(values.shape[1]):
        column = values[:, part]
        known = (column >= 0) & (column < lists.first[part + 1] - lists.first[part])
        out[:, part] = np.where(known, column + lists.first[part], -1)
    return out


@kernel
def count_bounds(
    lists: Postings, values: CodeArray, records: IntArray, forced: IntArray, available: IntArray
) -> tuple[int, int]:
    """Add to every entry the records that may be in it, and those that can be nowhere else.

    (n, n_parts) *values* are the contents of kinds of source rows, *records* how many rows there are of each. Returns
    how many rows no bucket can hold, and how many only one can.
    """
    start, buckets, dense, entry = lists.start, lists.bucket, lists.dense, lists.entry
    n, n_parts = values.shape
    entries = np.empty(n_parts, dtype=np.int64)
    only = np.empty(n_parts, dtype=np.int64)
    lost = settled = 0
    for row in range(n):
        shortest = shortest_of(start, values, row, n_parts)
        matches = 0
        if shortest >= 0:
            value = values[row, shortest]
            for e in range(start[value], start[value + 1]):
                bucket = buckets[e]
                inside = True
                for part in range(n_parts):
                    entries[part] = (
                        e if part == shortest else entry_of(start, buckets, dense, entry, values[row, part], bucket)
                    )
                    if entries[part] < 0:
                        inside = False
                        break
                if inside:
                    matches += 1
                    for part in range(n_parts):
                        available[entries[part]] += records[row]
                        only[part] = entries[part]
        if matches == 0:
            lost += records[row]
        elif matches == 1:
            settled += records[row]
            for part in range(n_parts):
                forced[only[part]] += records[row]
    return lost, settled


class World(NamedTuple):
    """What matching needs: the lists of parts with quasi attributes, those of separators, and sizes of buckets."""

    lists: Postings
    n_parts: int  # lists of parts come first, then those of separators
    sizes: IntArray  # (n_buckets,)
    free_factors: int  # how often the size of the bucket divides the expected number of records


class Groups(NamedTuple):
    """Sensitive values of every (bucket, quasi values of the sensitive part), sparse like ``Histograms``."""

    list_number: int  # of the sensitive part, whose entries are the groups; -1: the buckets are
    begin: int  # of that list
    start: IntArray
    value: IntArray
    times: IntArray
    sizes: IntArray


class Block(NamedTuple):
    """Mixtures of some tuples: tuple i believes ``share[start[i]:start[i + 1]]`` of these values."""

    start: IntArray  # (n + 1,)
    value: IntArray  # (n_entries,)
    share: FloatArray  # (n_entries,) sums of 1 for every tuple
    exact: BoolArray  # (n_promises, n) whether all groups of the tuple hold


class Beliefs(NamedTuple):
    """Where the judging of tuples stands."""

    matches: IntArray  # (n_tuples,) how many buckets match
    group: IntArray  # (n_tuples,) the only group, where one bucket matches


@kernel
def _log_weight(world: World, tuples: CodeArray, t: int, bucket: int) -> float:
    """Return the logarithm of the expected number of records over the size of a bucket that matches tuple *t*."""
    lists = world.lists
    found = -world.free_factors * np.log(world.sizes[bucket])
    for i in range(tuples.shape[1]):
        entry = entry_of(lists.start, lists.bucket, lists.dense, lists.entry, tuples[t, i], bucket)
        term = np.log(lists.times[entry])
        found += term if i < world.n_parts else -term
    return float(found)


@kernel
def _mix(
    world: World,
    groups: Groups,
    tuples: CodeArray,
    first: int,
    holds: BoolArray,
    beliefs: Beliefs,
    room: tuple[IntArray, IntArray, FloatArray],
    block: Block,
    mixed: FloatArray,
    touched: IntArray,
) -> tuple[int, int, int]:
    """Judge tuples from *first* on until the block is full; return the next, the mixtures and their entries."""
    start, buckets, times = world.lists.start, world.lists.bucket, world.lists.times
    dense, entries = world.lists.dense, world.lists.entry
    group_start, group_value, group_times, group_sizes = groups.start, groups.value, groups.times, groups.sizes
    sizes, n_parts, free_factors = world.sizes, world.n_parts, world.free_factors
    found, within, weight = room
    n_lists = tuples.shape[1]
    n_mixed = n_entries = 0
    for t in range(first, tuples.shape[0]):
        shortest = shortest_of(start, tuples, t, n_parts)
        matches, total, least = 0, 0.0, np.inf
        if shortest >= 0:
            value = tuples[t, shortest]
            for e in range(start[value], start[value + 1]):
                bucket = buckets[e]
                expected, inside = 1.0, True
                group = int(bucket)
                for i in range(n_lists):
                    entry = e
                    if i != shortest:
                        entry = entry_of(start, buckets, dense, entries, tuples[t, i], bucket)
                        if entry < 0:
                            inside = False
                            break
                    if i == groups.list_number:
                        group = entry - groups.begin
                    expected = expected * times[entry] if i < n_parts else expected / times[entry]
                if inside:
                    for _ in range(free_factors):
                        expected /= sizes[bucket]
                    found[matches], within[matches], weight[matches] = group, bucket, expected
                    total += expected
                    least = min(least, expected)
                    matches += 1
        if matches > 1:
            if not (least > _TINY and total < _HUGE):
                # Very many parts: weights are only comparable as logarithms, against the largest.
                for m in range(matches):
                    weight[m] = _log_weight(world, tuples, t, within[m])
                weight[:matches] = np.exp(weight[:matches] - weight[:matches].max())
                total = weight[:matches].sum()
            n_touched = 0
            for m in range(matches):
                g = found[m]
                part = weight[m] / total / group_sizes[g]
                if part == 0.0:
                    continue  # to leave a value out makes no belief look better
                for e in range(group_start[g], group_start[g + 1]):
                    if mixed[group_value[e]] == 0.0:
                        touched[n_touched] = group_value[e]
                        n_touched += 1
                    mixed[group_value[e]] += part * group_times[e]
            if n_mixed == block.exact.shape[1] or n_entries + n_touched > block.value.shape[0]:
                for i in range(n_touched):
                    mixed[touched[i]] = 0.0
                return t, n_mixed, n_entries
            for i in range(n_touched):
                block.value[n_entries], block.share[n_entries] = touched[i], mixed[touched[i]]
                mixed[touched[i]] = 0.0
                n_entries += 1
            for p in range(holds.shape[0]):
                exact = True
                for m in range(matches):
                    exact &= holds[p, found[m]]
                block.exact[p, n_mixed] = exact
            n_mixed += 1
            block.start[n_mixed] = n_entries
        elif matches == 1:
            beliefs.group[t] = found[0]
        beliefs.matches[t] = matches
    return tuples.shape[0], n_mixed, n_entries


def mix(
    world: World, groups: Groups, n_values: int, tuples: CodeArray, holds: BoolArray, beliefs: Beliefs
) -> Iterator[Block]:
    """Fill in *beliefs* of all tuples, and yield the mixtures of those that several buckets match.

    *tuples*: (n, n_lists) numbers of their values in the lists; *holds*: (n_promises, n_groups).
    """
    longest = max(1, int(np.diff(world.lists.start).max()))
    room = (np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.float64))
    n_entries = max(_ENTRIES, n_values)
    block = Block(
        start=np.zeros(_ENTRIES + 1, dtype=np.int64),
        value=np.empty(n_entries, dtype=np.int64),
        share=np.empty(n_entries, dtype=np.float64),
        exact=np.empty((holds.shape[0], _ENTRIES), dtype=np.bool_),
    )
    mixed, touched = np.zeros(n_values), np.empty(n_values, dtype=np.int64)
    done = 0
    while done < tuples.shape[0]:
        done, n, filled = _mix(world, groups, tuples, done, holds, beliefs, room, block, mixed, touched)
        if n:
            yield Block(block.start[: n + 1], block.value[:filled], block.share[:filled], block.exact[:, :n])


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Lists of values, in informed parts and separators of pairs (value, sensitive value), by bucket."""

    lists: Postings
    pairs: tuple[tuple[KeyArray, IntArray] | None, ...]  # keys of each list's pairs and their numbers; None: no pairs
    n_parts: int
    n_values: int  # of the sensitive attribute

    def numbers(self, columns: Sequence[CodeArray], sensitive: int) -> CodeArray:
        """Return (n, n_lists) numbers of the tuples' values, joined with one sensitive value, in the lists."""
        found = [
            column if pairs is None else _place(pairs, column, sensitive)
            for column, pairs in zip(columns, self.pairs, strict=True)
        ]
        return number_values(self.lists, np.stack(found, axis=1))


def _place(pairs: tuple[KeyArray, IntArray], column: CodeArray, sensitive: int) -> CodeArray:
    """Return (n,) the number of each pair, or -1."""
    keys, numbers = pairs
    wanted = paired(np.maximum(column, 0), np.full(len(column), sensitive, dtype=np.int32))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (column >= 0), numbers[place], -1).astype(np.int32)


@kernel
def weigh(world: World, tuples: CodeArray) -> FloatArray:
    """Return (n,) the sum over buckets of the expected number of records, over the size of the bucket.

    It is not a number where so many parts are multiplied that digits would be lost; then no promise is believed.
    """
    start, buckets, times = world.lists.start, world.lists.bucket, world.lists.times
    dense, entries = world.lists.dense, world.lists.entry
    n, n_lists = tuples.shape
    out = np.zeros(n)
    for t in range(n):
        shortest = shortest_of(start, tuples, t, world.n_parts)
        if shortest < 0:
            continue
        value = tuples[t, shortest]
        for e in range(start[value], start[value + 1]):
            expected, inside = 1.0, True
            for i in range(n_lists):
                entry = e
                if i != shortest:
                    entry = entry_of(start, buckets, dense, entries, tuples[t, i], buckets[e])
                    if entry < 0:
                        inside = False
                        break
                expected = expected * times[entry] if i < world.n_parts else expected / times[entry]
            if inside:
                for _ in range(world.free_factors):
                    expected /= world.sizes[buckets[e]]
                out[t] += expected if _TINY < expected < _HUGE else np.nan
    return out


def join_beliefs(joined: Joined, world: World, columns: Sequence[CodeArray], n_promises: int) -> Block | None:
    """Return what is believed of tuples, given by their values of the joined lists; None if no tuple can be there.

    Tuples that no bucket could form are left out. No group alone tells what is believed, so none is settled exactly.
    """
    weights = np.stack([weigh(world, joined.numbers(columns, value)) for value in range(joined.n_values)], axis=1)
    weights = weights[(weights != 0).any(axis=1)]
    if not len(weights):
        return None
    owner, value = np.nonzero(weights)
    return Block(
        start=np.searchsorted(owner, np.arange(len(weights) + 1)).astype(np.int64),
        value=value.astype(np.int64),
        share=(weights / weights.sum(axis=1, keepdims=True))[owner, value],
        exact=np.zeros((n_promises, len(weights)), dtype=np.bool_),
    )

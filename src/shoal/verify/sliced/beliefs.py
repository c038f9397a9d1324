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

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import compiled
from shoal.verify.exact import Histograms
from shoal.verify.kernels import inlined, paired

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ROOM = 1 << 24  # entries that are spread out
_SEARCHED = 4  # a list so short is searched as fast
_MATCHES = 1 << 20  # that are held at a time
_SHARES = 1 << 22  # of beliefs that are held at a time
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


class World(NamedTuple):
    """What matching needs: the lists of parts with quasi attributes, those of separators, and sizes of buckets."""

    lists: Postings
    n_parts: int  # lists of parts come first, then those of separators
    sizes: IntArray  # (n_buckets,)
    free_factors: int  # how often the size of the bucket divides the expected number of records


class Matches(NamedTuple):
    """The buckets that match some tuples: tuple i those of ``start[i]:start[i + 1]``, and its entries in all lists."""

    start: IntArray  # (n + 1,)
    bucket: CodeArray  # (n_matches,)
    entry: CodeArray  # (n_matches, n_lists)

    @property
    def times(self) -> IntArray:
        """(n,) how many buckets match each tuple."""
        return np.diff(self.start)

    @property
    def owner(self) -> IntArray:
        """(n_matches,) the tuple of each match."""
        return np.repeat(np.arange(len(self.start) - 1), self.times)


@compiled
def _match(lists: Postings, n_parts: int, tuples: CodeArray, first: int, found: Matches) -> int:
    """Find the buckets of tuples from *first* on until there is no room for those of one more; return its number."""
    start, buckets, dense, entries = lists.start, lists.bucket, lists.dense, lists.entry
    filled = 0
    for t in range(first, min(tuples.shape[0], first + found.start.shape[0] - 1)):
        shortest = shortest_of(start, tuples, t, n_parts)
        if shortest >= 0:
            value = tuples[t, shortest]
            if filled + start[value + 1] - start[value] > found.bucket.shape[0]:
                return t
            for e in range(start[value], start[value + 1]):
                inside = True
                for i in range(tuples.shape[1]):
                    entry = e
                    if i != shortest:
                        entry = entry_of(start, buckets, dense, entries, tuples[t, i], buckets[e])
                        if entry < 0:
                            inside = False
                            break
                    found.entry[filled, i] = entry
                if inside:
                    found.bucket[filled] = buckets[e]
                    filled += 1
        found.start[t - first + 1] = filled
    return int(min(tuples.shape[0], first + found.start.shape[0] - 1))


def match_tuples(lists: Postings, n_parts: int, tuples: CodeArray, most: int = _MATCHES) -> Iterator[Matches]:
    """Yield matches of at most *most* tuples after the other; (n, n_lists) *tuples* are numbers in the lists."""
    room = max(_MATCHES, int(np.diff(lists.start).max(initial=0)))
    held = Matches(
        start=np.zeros(min(most, len(tuples)) + 1, dtype=np.int64),
        bucket=np.empty(room, dtype=np.int32),
        entry=np.empty((room, tuples.shape[1]), dtype=np.int32),
    )
    done = 0
    while done < len(tuples):
        following = _match(lists, n_parts, tuples, done, held)
        start = held.start[: following - done + 1]
        yield Matches(start, held.bucket[: start[-1]], held.entry[: start[-1]])
        done = following


def expect_records(world: World, found: Matches) -> FloatArray:
    """Return (n_matches,) the expected number of records of the tuple in the bucket, over the size of the bucket.

    It is not a number where so many parts are multiplied that digits would be lost.
    """
    times = world.lists.times[found.entry].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        expected = times[:, : world.n_parts].prod(axis=1) / times[:, world.n_parts :].prod(axis=1)
        expected /= world.sizes[found.bucket].astype(np.float64) ** world.free_factors
    return np.where((expected > _TINY) & (expected < _HUGE), expected, np.nan)


def share_buckets(world: World, found: Matches) -> FloatArray:
    """Return (n_matches,) the share p(t, B) of each bucket in what is believed of its tuple."""
    owner, n = found.owner, len(found.start) - 1
    expected = expect_records(world, found)
    if np.isnan(expected).any():
        # Very many parts: weights are only comparable as logarithms, against the largest.
        logs = np.log(world.lists.times[found.entry])
        logs[:, world.n_parts :] *= -1
        total = logs.sum(axis=1) - world.free_factors * np.log(world.sizes[found.bucket])
        most = np.full(n, -np.inf)
        np.maximum.at(most, owner, total)
        expected = np.exp(total - most[owner])
    return np.asarray(expected / np.bincount(owner, expected, n)[owner], dtype=np.float64)


@compiled
def _mix(found: Matches, weight: FloatArray, group: IntArray, groups: Groups, out: FloatArray) -> None:
    for t in range(out.shape[0]):
        for m in range(found.start[t], found.start[t + 1]):
            part = weight[m] / groups.sizes[group[m]]
            for e in range(groups.start[group[m]], groups.start[group[m] + 1]):
                out[t, groups.value[e]] += part * groups.times[e]


class Groups(NamedTuple):
    """Sensitive values of every (bucket, quasi values of the sensitive part), sparse like ``Histograms``."""

    start: IntArray
    value: IntArray
    times: IntArray
    sizes: IntArray


def mix_groups(world: World, found: Matches, group: IntArray, groups: Histograms) -> FloatArray:
    """Return (n, n_values) what is believed of tuples, of which each match is with a group."""
    shares = np.zeros((len(found.start) - 1, groups.n_values))
    held = Groups(groups.start, groups.value, groups.count, groups.sizes)
    _mix(found, share_buckets(world, found), group, held, shares)
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Lists of values, in informed parts and separators of pairs (value, sensitive value), by bucket."""

    lists: Postings
    pairs: tuple[KeyArray | None, ...]  # the keys of each list's pairs, in the order of their numbers; None: no pairs
    n_parts: int
    n_values: int  # of the sensitive attribute

    def numbers(self, columns: Sequence[CodeArray], sensitive: int) -> CodeArray:
        """Return (n, n_lists) numbers of the tuples' values, joined with one sensitive value, in the lists."""
        found = [
            column if pairs is None else _find_pairs(pairs, column, sensitive)
            for column, pairs in zip(columns, self.pairs, strict=True)
        ]
        return number_values(self.lists, np.stack(found, axis=1))


def _find_pairs(keys: KeyArray, column: CodeArray, sensitive: int) -> CodeArray:
    """Return (n,) the number of each pair, or -1."""
    wanted = paired(np.maximum(column, 0), np.full(len(column), sensitive, dtype=np.int32))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (column >= 0), place, -1).astype(np.int32)


def join_beliefs(joined: Joined, world: World, columns: Sequence[CodeArray]) -> FloatArray:
    """Return (n, n_values) what is believed of tuples, given by their values of the joined lists; 0 if nothing is.

    It is not a number where digits would be lost; then no promise is believed.
    """
    weights = np.zeros((len(columns[0]), joined.n_values))
    for value in range(joined.n_values):
        done = 0
        for found in match_tuples(world.lists, world.n_parts, joined.numbers(columns, value)):
            n = len(found.start) - 1
            weights[done : done + n, value] = np.bincount(found.owner, expect_records(world, found), n)
            done += n
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total != 0))

"""What an adversary believes: p(t, .) as a mixture over the buckets that match t.

p(t,s) = sum over buckets of p(t,B) D(t,B)[s], Li, Li, Zhang and Molloy, Equations (2) to (4). Tuples that only one
bucket matches need no mixture: what is believed of them are the whole numbers of one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.verify.kernels import kernel
from shoal.verify.sliced.postings import Postings, entry_of, shortest_of

_ENTRIES = 1 << 20  # of the mixtures that are held at a time
TINY, HUGE = 1e-250, 1e250  # between these, products of many shares have not lost digits


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
            if not (least > TINY and total < HUGE):
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


def mixtures(
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

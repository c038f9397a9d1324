"""Compiled loops over tuples and the buckets that they match."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled, inlined
from shoal.core.pairs import place_of

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_RESCALE = 300.0


@inlined
def _shortest(numbers: Ints, start: Ints, stop: Ints, n_parts: int) -> int:
    """Return the part of which the tuple's value occurs in the fewest buckets."""
    best = 0
    for part in range(1, n_parts):
        if stop[numbers[part]] - start[numbers[part]] < stop[numbers[best]] - start[numbers[best]]:
            best = part
    return best


@compiled
def matched(
    rows: Ints, numbers: Ints, start: Ints, stop: Ints, bucket: Codes, chosen: int, figures: Floats
) -> tuple[Ints, Floats]:
    """Return for tuples how many buckets they match, and the least figure of the groups that they match there.

    ``numbers[t]`` are tuple t's values; the entries of part *chosen* are the groups, each with its figure.
    """
    n_parts = numbers.shape[1]
    matches = np.zeros(len(rows), dtype=np.int64)
    least = np.full(len(rows), np.inf, dtype=np.float64)
    for row in range(len(rows)):
        mine = numbers[rows[row]]
        shortest = _shortest(mine, start, stop, n_parts)
        for entry in range(start[mine[shortest]], stop[mine[shortest]]):
            here = bucket[entry]
            group = entry if shortest == chosen else -1
            there = True
            for part in range(n_parts):
                if part == shortest:
                    continue
                found = place_of(bucket, start[mine[part]], stop[mine[part]], here)
                if found < 0:
                    there = False
                    break
                if part == chosen:
                    group = found
            if there:
                matches[row] += 1
                least[row] = min(least[row], figures[group])
    return matches, least


@compiled
def touched(
    rows: Ints, numbers: Ints, start: Ints, stop: Ints, bucket: Codes, among: Bools, every: bool
) -> tuple[Bools, Bools]:
    """Return which tuples match some bucket *among* those given, and which of these they match.

    Unless *every* such bucket is wanted, a tuple shows only the first that it matches.
    """
    n_parts = numbers.shape[1]
    tuples = np.zeros(len(rows), dtype=np.bool_)
    buckets = np.zeros(len(among), dtype=np.bool_)
    for row in range(len(rows)):
        mine = numbers[rows[row]]
        shortest = _shortest(mine, start, stop, n_parts)
        for entry in range(start[mine[shortest]], stop[mine[shortest]]):
            here = bucket[entry]
            if not among[here]:
                continue
            there = True
            for part in range(n_parts):
                if part != shortest and place_of(bucket, start[mine[part]], stop[mine[part]], here) < 0:
                    there = False
                    break
            if there:
                tuples[row] = True
                buckets[here] = True
                if not every:
                    break
    return tuples, buckets


@compiled
def mixed(
    rows: Ints,
    numbers: Ints,
    separators: Ints,
    start: Ints,
    stop: Ints,
    bucket: Codes,
    log_count: Floats,
    log_size: Floats,
    n_sizes: int,
    informed: Ints,
    between: Ints,
    group_start: Ints,
    group_value: Codes,
    group_count: Ints,
    n_values: int,
) -> Floats:
    """Return (n_rows, n_values) what an adversary believes of tuples, up to a factor for each.

    A bucket counts by the expected number of its records that equal the tuple: counts of the parts' values over those
    of separators, *n_sizes* times over the bucket's size. Parts (columns of *numbers*) and separators that hold the
    sensitive attribute are *informed* and *between*: their counts are taken for each value by itself, from
    ``group_start``, ``group_value`` (ascending) and ``group_count`` of their entries.
    """
    n_parts, n_separators = numbers.shape[1], separators.shape[1]
    out = np.zeros((len(rows), n_values), dtype=np.float64)
    entries = np.empty(n_parts, dtype=np.int64)
    links = np.empty(n_separators, dtype=np.int64)
    for row in range(len(rows)):
        mine, joints = numbers[rows[row]], separators[rows[row]]
        shortest = _shortest(mine, start, stop, n_parts)
        reference = 0.0
        first = True
        for entry in range(start[mine[shortest]], stop[mine[shortest]]):
            here = bucket[entry]
            there = True
            for part in range(n_parts):
                found = entry
                if part != shortest:
                    found = place_of(bucket, start[mine[part]], stop[mine[part]], here)
                    if found < 0:
                        there = False
                        break
                entries[part] = found
            if not there:
                continue
            log_weight = -n_sizes * log_size[here]
            for part in range(n_parts):
                if informed[part] == 0:
                    log_weight += log_count[entries[part]]
            for joint in range(n_separators):
                links[joint] = place_of(bucket, start[joints[joint]], stop[joints[joint]], here)
                if between[joint] == 0:
                    log_weight -= log_count[links[joint]]
            if first:
                reference = log_weight
                first = False
            elif log_weight - reference > _RESCALE:
                factor = math.exp(reference - log_weight)
                for value in range(n_values):
                    out[row, value] *= factor
                reference = log_weight
            weight = math.exp(log_weight - reference)
            lead = 0
            while informed[lead] == 0:
                lead += 1
            for item in range(group_start[entries[lead]], group_start[entries[lead] + 1]):
                value = group_value[item]
                share = weight * group_count[item]
                for part in range(lead + 1, n_parts):
                    if informed[part] == 1:
                        group = entries[part]
                        found = place_of(group_value, group_start[group], group_start[group + 1], value)
                        share = 0.0 if found < 0 else share * group_count[found]
                for joint in range(n_separators):
                    if between[joint] == 1 and share > 0.0:
                        group = links[joint]
                        found = place_of(group_value, group_start[group], group_start[group + 1], value)
                        share /= group_count[found]
                out[row, value] += share
    return out

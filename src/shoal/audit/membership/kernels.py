"""Compiled loops over sets of buckets, which count the tuples that they form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled, inlined

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

EXHAUSTED = -1
MOST_SUBSETS = 12  # buckets, all subsets of which are gone through


@compiled
def set_keys(first: Ints, bucket: Codes) -> Words:
    """Return a key of each value's set of buckets; different sets may share one, by chance."""
    keys = np.empty(len(first) - 1, dtype=np.uint64)
    for value in range(len(keys)):
        key = np.uint64(0)
        for entry in range(first[value], first[value + 1]):
            mixed = (np.uint64(bucket[entry]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            key += mixed ^ (mixed >> np.uint64(32))
        keys[value] = key
    return keys


@compiled
def same_sets(first: Ints, bucket: Codes, order: Ints) -> NDArray[np.bool_]:
    """Return for each value, in the given order, whether it has exactly the buckets of the one before."""
    same = np.zeros(len(order), dtype=np.bool_)
    for place in range(1, len(order)):
        one, other = first[order[place - 1]], first[order[place]]
        size = first[order[place] + 1] - other
        if first[order[place - 1] + 1] - one != size:
            continue
        equal = True
        for step in range(size):
            if bucket[one + step] != bucket[other + step]:
                equal = False
                break
        same[place] = equal
    return same


@compiled
def gathered(first: Ints, bucket: Codes, kept: Ints, starts: Ints) -> Codes:
    """Return the buckets of the kept values, one after another."""
    out = np.empty(starts[-1], dtype=np.int32)
    for place in range(len(kept)):
        begin = first[kept[place]]
        for step in range(starts[place + 1] - starts[place]):
            out[starts[place] + step] = bucket[begin + step]
    return out


@inlined
def ones(word: np.uint64) -> int:
    """Return how many bits are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def count_by_subsets(
    buckets: Codes,
    part: int,
    times: int,
    weight: Ints,
    shown_first: Ints,
    shown: Ints,
    modulus: int,
    members: Codes,
    touched: Ints,
    tally: Ints,
    together: Ints,
    histogram: Ints,
) -> int:
    """Add the tuples that few buckets form in the parts from *part* on, each *times* times; return the steps taken.

    Inclusion and exclusion: a tuple matches all buckets of a subset iff each of its values stands in all of them,
    which is a product over the parts. ``members`` must be zero, and is left so.
    """
    n = len(buckets)
    n_subsets = 1 << n
    steps = 0
    together[:n_subsets] = times
    for d in range(part, shown_first.shape[0]):
        tally[:n_subsets] = 0
        n_touched = 0
        for place in range(n):
            b = buckets[place]
            for entry in range(shown_first[d, b], shown_first[d, b + 1]):
                number = shown[entry]
                if members[number] == 0:
                    touched[n_touched] = number
                    n_touched += 1
                members[number] |= 1 << place
            steps += shown_first[d, b + 1] - shown_first[d, b]
        for item in range(n_touched):
            tally[members[touched[item]]] += weight[touched[item]]
            members[touched[item]] = 0
        for place in range(n):
            for subset in range(n_subsets):
                if subset & (1 << place) == 0:
                    tally[subset] += tally[subset | (1 << place)]
        for subset in range(n_subsets):
            together[subset] = together[subset] * tally[subset] % modulus
        steps += n_subsets * n
    for place in range(n):
        for subset in range(n_subsets):
            if subset & (1 << place) == 0:
                together[subset] = (together[subset] - together[subset | (1 << place)]) % modulus
    for subset in range(1, n_subsets):
        m = ones(np.uint64(subset))
        histogram[m] = (histogram[m] + together[subset]) % modulus
    return steps


@compiled
def count_tuples(
    weight: Ints,
    shown_first: Ints,
    shown: Ints,
    products: Ints,
    work: Floats,
    modulus: int,
    budget: int,
    histogram: Ints,
) -> int:
    """Add to ``histogram[m]`` the tuples with exactly m matching buckets, modulo *modulus*; return the steps taken.

    Sets of all parts are numbered through: bucket b shows ``shown[shown_first[d, b]:shown_first[d, b + 1]]`` of the
    d-th part, and ``products[d, b]`` is the number of combinations of its values in the parts from d on, ``work[d, b]``
    of its sets. A prefix of values is followed only while it matches several buckets: with one bucket left, the product
    tells the rest; with few, their subsets do, if that is less work. Returns EXHAUSTED, with a histogram of no meaning,
    where more steps than the budget would be needed.
    """
    n_parts, n_buckets = shown_first.shape[0], shown_first.shape[1] - 1
    matches = np.zeros(len(weight), dtype=np.int32)
    place_of = np.zeros(len(weight), dtype=np.int64)
    longest = n_buckets
    for d in range(n_parts):
        longest = max(longest, shown_first[d, -1] - shown_first[d, 0])
    # before part d: the sets that go on, their buckets one after another, and where we are among them
    child = np.empty((n_parts, longest), dtype=np.int64)
    begin = np.zeros((n_parts, longest + 1), dtype=np.int64)
    buckets = np.empty((n_parts, longest), dtype=np.int32)
    touched = np.empty(longest, dtype=np.int64)
    tally = np.empty(1 << MOST_SUBSETS, dtype=np.int64)
    together = np.empty(1 << MOST_SUBSETS, dtype=np.int64)
    n_children = np.zeros(n_parts, dtype=np.int64)
    current = np.zeros(n_parts, dtype=np.int64)
    times = np.ones(n_parts + 1, dtype=np.int64)  # prefixes that the current one before each part stands for
    steps = 0

    n_children[0] = 1  # the empty prefix, which all buckets match
    begin[0, 1] = n_buckets
    buckets[0, :n_buckets] = np.arange(n_buckets)
    d = 0
    while d >= 0:
        if current[d] == n_children[d]:
            d -= 1
            if d >= 0:
                current[d] += 1
            continue
        if steps > budget:
            return EXHAUSTED
        start, stop = begin[d, current[d]], begin[d, current[d] + 1]
        if d > 0:
            times[d] = times[d - 1] * weight[child[d, current[d]]] % modulus
        if d < n_parts - 1 and stop - start <= MOST_SUBSETS:
            here = buckets[d, start:stop]
            enumerating = 0.0
            for b in here:
                enumerating += work[d, b]
            each = (1 << (stop - start)) * (stop - start) + shown_first[d, 1] - shown_first[d, 0]
            if each * (n_parts - d) < enumerating:
                steps += count_by_subsets(
                    here, d, times[d], weight, shown_first, shown, modulus, matches, touched, tally, together, histogram
                )
                current[d] += 1
                continue
        n_touched = 0
        for item in range(start, stop):
            b = buckets[d, item]
            for entry in range(shown_first[d, b], shown_first[d, b + 1]):
                number = shown[entry]
                if matches[number] == 0:
                    touched[n_touched] = number
                    n_touched += 1
                    place_of[number] = b
                matches[number] += 1
            steps += shown_first[d, b + 1] - shown_first[d, b]
        if d == n_parts - 1:
            for item in range(n_touched):
                number = touched[item]
                m = matches[number]
                histogram[m] = (histogram[m] + times[d] * weight[number]) % modulus
                matches[number] = 0
            current[d] += 1
            continue
        n_going_on = 0
        end = 0
        for item in range(n_touched):
            number = touched[item]
            if matches[number] == 1:
                more = times[d] * weight[number] % modulus * products[d + 1, place_of[number]] % modulus
                histogram[1] = (histogram[1] + more) % modulus
                matches[number] = 0
            else:
                child[d + 1, n_going_on] = number
                begin[d + 1, n_going_on] = end
                place_of[number] = end
                end += matches[number]
                n_going_on += 1
        begin[d + 1, n_going_on] = end
        for item in range(start, stop):
            b = buckets[d, item]
            for entry in range(shown_first[d, b], shown_first[d, b + 1]):
                number = shown[entry]
                if matches[number] > 0:
                    buckets[d + 1, place_of[number]] = b
                    place_of[number] += 1
        for item in range(n_going_on):
            matches[child[d + 1, item]] = 0
        d += 1
        n_children[d] = n_going_on
        current[d] = 0
    return steps

"""Compiled loops over sets of buckets: they count the tuples that buckets form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel

EXHAUSTED = -1
MOST_SUBSETS = 12  # buckets, all subsets of which are gone through


@inline_kernel
def ones(word: np.uint64) -> int:
    """Return how many bits are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


class ShownSets(NamedTuple):
    """Sets of buckets of all parts, numbered through: values of a part that stand in the same buckets are one set.

    Bucket b shows ``shown[shown_first[d, b]:shown_first[d, b + 1]]`` of the d-th part; ``products[d, b]`` is the number
    of combinations of its values in the parts from d on, ``work[d, b]`` of its sets.
    """

    weight: IntArray  # (n_sets,) values of each
    shown_first: IntArray  # (n_parts, n_buckets + 1)
    shown: IntArray  # (n_entries,)
    products: IntArray  # (n_parts + 1, n_buckets) modulo the modulus
    work: FloatArray  # (n_parts + 1, n_buckets)


class Scratch(NamedTuple):
    """Arrays that are used again and again; *matches* is zero between steps."""

    matches: CodeArray  # (n_sets,) of the buckets that are looked at: how many, or which as bits
    place_of: IntArray  # (n_sets,)
    touched: IntArray  # (longest,) sets with matches
    tally: IntArray  # (2**MOST_SUBSETS,)
    together: IntArray  # (2**MOST_SUBSETS,)
    histogram: IntArray  # (n_buckets + 1,) what is counted

    @classmethod
    def of(cls, sets: ShownSets) -> Scratch:
        """Return arrays for these sets, with nothing counted."""
        n_sets, n_buckets = len(sets.weight), sets.shown_first.shape[1] - 1
        subsets = 1 << MOST_SUBSETS
        return cls(
            np.zeros(n_sets, dtype=np.int32),
            np.zeros(n_sets, dtype=np.int64),
            np.empty(longest_list(sets), dtype=np.int64),
            np.empty(subsets, dtype=np.int64),
            np.empty(subsets, dtype=np.int64),
            np.zeros(n_buckets + 1, dtype=np.int64),
        )


class Prefixes(NamedTuple):
    """Before each part: the sets that go on, and the buckets that match each of them, one after another."""

    child: IntArray  # (n_parts, longest)
    begin: IntArray  # (n_parts, longest + 1)
    buckets: CodeArray  # (n_parts, longest)

    @classmethod
    def of(cls, sets: ShownSets) -> Prefixes:
        """Return the empty prefix, which all buckets match."""
        n_parts, n_buckets = sets.shown_first.shape[0], sets.shown_first.shape[1] - 1
        longest = longest_list(sets)
        begin = np.zeros((n_parts, longest + 1), dtype=np.int64)
        buckets = np.empty((n_parts, longest), dtype=np.int32)
        begin[0, 1] = n_buckets
        buckets[0, :n_buckets] = np.arange(n_buckets)
        return cls(np.empty((n_parts, longest), dtype=np.int64), begin, buckets)


def longest_list(sets: ShownSets) -> int:
    """Return how many sets, or buckets, are listed before one part at most."""
    of_parts = sets.shown_first[:, -1] - sets.shown_first[:, 0]
    return int(max(sets.shown_first.shape[1] - 1, of_parts.max()))


@kernel
def count_by_subsets(buckets: CodeArray, part: int, times: int, sets: ShownSets, modulus: int, scratch: Scratch) -> int:
    """Add the tuples that few buckets form in the parts from *part* on, each *times* times; return the steps taken.

    Inclusion and exclusion: a tuple matches all buckets of a subset iff each of its values stands in all of them,
    which is a product over the parts.
    """
    members, touched, tally, together = scratch.matches, scratch.touched, scratch.tally, scratch.together
    n = len(buckets)
    n_subsets = 1 << n
    steps = 0
    together[:n_subsets] = times
    for d in range(part, sets.shown_first.shape[0]):
        # Which of the buckets show each set, as bits; then how many values stand in exactly these.
        tally[:n_subsets] = 0
        n_touched = 0
        for place in range(n):
            b = buckets[place]
            for entry in range(sets.shown_first[d, b], sets.shown_first[d, b + 1]):
                number = sets.shown[entry]
                if members[number] == 0:
                    touched[n_touched] = number
                    n_touched += 1
                members[number] |= 1 << place
            steps += sets.shown_first[d, b + 1] - sets.shown_first[d, b]
        for item in range(n_touched):
            tally[members[touched[item]]] += sets.weight[touched[item]]
            members[touched[item]] = 0
        # Values that stand in all buckets of a subset, and perhaps in more.
        for place in range(n):
            for subset in range(n_subsets):
                if subset & (1 << place) == 0:
                    tally[subset] += tally[subset | (1 << place)]
        for subset in range(n_subsets):
            together[subset] = together[subset] * tally[subset] % modulus
        steps += n_subsets * n
    # Tuples that match exactly the buckets of a subset.
    for place in range(n):
        for subset in range(n_subsets):
            if subset & (1 << place) == 0:
                together[subset] = (together[subset] - together[subset | (1 << place)]) % modulus
    for subset in range(1, n_subsets):
        m = ones(np.uint64(subset))
        scratch.histogram[m] = (scratch.histogram[m] + together[subset]) % modulus
    return steps


@inline_kernel
def _subsets_are_less_work(sets: ShownSets, d: int, here: CodeArray) -> bool:
    """Whether going through all subsets of some buckets is less work than following their sets one by one."""
    n_parts, n = sets.shown_first.shape[0], len(here)
    if d == n_parts - 1 or n > MOST_SUBSETS:
        return False
    enumerating = 0.0
    for b in here:
        enumerating += sets.work[d, b]
    each = (1 << n) * n + sets.shown_first[d, 1] - sets.shown_first[d, 0]
    return bool(each * (n_parts - d) < enumerating)


@inline_kernel
def _match(sets: ShownSets, d: int, here: CodeArray, scratch: Scratch) -> tuple[int, int]:
    """Count how many of some buckets show each set of a part; return how many sets there are, and the steps taken."""
    n_touched, steps = 0, 0
    for b in here:
        for entry in range(sets.shown_first[d, b], sets.shown_first[d, b + 1]):
            number = sets.shown[entry]
            if scratch.matches[number] == 0:
                scratch.touched[n_touched] = number
                n_touched += 1
                scratch.place_of[number] = b
            scratch.matches[number] += 1
        steps += sets.shown_first[d, b + 1] - sets.shown_first[d, b]
    return n_touched, steps


@inline_kernel
def _follow(
    sets: ShownSets, d: int, here: CodeArray, scratch: Scratch, prefixes: Prefixes, n_touched: int, times: int,
    modulus: int,
) -> int:  # fmt: skip
    """List the sets of part d that several buckets match, with these, and return how many go on so.

    With one bucket left, the product tells the rest, which is counted at once.
    """
    matches, place_of, histogram = scratch.matches, scratch.place_of, scratch.histogram
    child, begin, buckets = prefixes
    n_going_on, end = 0, 0
    for item in range(n_touched):
        number = scratch.touched[item]
        if matches[number] == 1:
            more = times * sets.weight[number] % modulus * sets.products[d + 1, place_of[number]] % modulus
            histogram[1] = (histogram[1] + more) % modulus
            matches[number] = 0
        else:
            child[d + 1, n_going_on] = number
            begin[d + 1, n_going_on] = end
            place_of[number] = end
            end += matches[number]
            n_going_on += 1
    begin[d + 1, n_going_on] = end
    for b in here:
        for entry in range(sets.shown_first[d, b], sets.shown_first[d, b + 1]):
            number = sets.shown[entry]
            if matches[number] > 0:
                buckets[d + 1, place_of[number]] = b
                place_of[number] += 1
    for item in range(n_going_on):
        matches[child[d + 1, item]] = 0
    return n_going_on


@kernel
def count_tuples(sets: ShownSets, scratch: Scratch, prefixes: Prefixes, modulus: int, budget: int) -> int:
    """Add to ``histogram[m]`` the tuples with exactly m matching buckets, modulo *modulus*; return the steps taken.

    A prefix of values is followed only while it matches several buckets: with one bucket left, the product tells the
    rest; with few, their subsets do, if that is less work. Returns EXHAUSTED, with a histogram of no meaning, where
    more steps than the budget would be needed.
    """
    n_parts, histogram = sets.shown_first.shape[0], scratch.histogram
    n_children = np.zeros(n_parts, dtype=np.int64)
    current = np.zeros(n_parts, dtype=np.int64)
    times = np.ones(n_parts + 1, dtype=np.int64)  # prefixes that the current one before each part stands for
    steps = 0
    n_children[0] = 1
    d = 0
    while d >= 0:
        if current[d] == n_children[d]:
            d -= 1
            if d >= 0:
                current[d] += 1
            continue
        if steps > budget:
            return EXHAUSTED
        here = prefixes.buckets[d, prefixes.begin[d, current[d]] : prefixes.begin[d, current[d] + 1]]
        if d > 0:
            times[d] = times[d - 1] * sets.weight[prefixes.child[d, current[d]]] % modulus
        if _subsets_are_less_work(sets, d, here):
            steps += count_by_subsets(here, d, times[d], sets, modulus, scratch)
            current[d] += 1
            continue
        n_touched, taken = _match(sets, d, here, scratch)
        steps += taken
        if d == n_parts - 1:
            for item in range(n_touched):
                number = scratch.touched[item]
                m = scratch.matches[number]
                histogram[m] = (histogram[m] + times[d] * sets.weight[number]) % modulus
                scratch.matches[number] = 0
            current[d] += 1
            continue
        n_going_on = _follow(sets, d, here, scratch, prefixes, n_touched, times[d], modulus)
        d += 1
        n_children[d] = n_going_on
        current[d] = 0
    return steps

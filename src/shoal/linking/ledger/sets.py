"""Which sets of releases are looked at, and what each of them leaves to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shoal.core.arrays import BoolArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.linking.everybody import left_for, trees
from shoal.linking.linking import people_queries
from shoal.linking.space import Space
from shoal.sources.base import Source

EXHAUSTIVE = 7  # of so many releases, every set is looked at
_BLOCK = 2**22  # counts that are held at a time
_MOST_WORDS = 2**27

Set = tuple[int, ...]


def sets_with(newest: int, earlier: Sequence[int]) -> list[Set]:
    """Return the sets that have one release: all of them, or of many releases those of up to three, and all together.

    >>> sets_with(3, [1, 2])
    [(3,), (1, 3), (2, 3), (1, 2, 3)]
    """
    sizes = range(len(earlier) + 1) if len(earlier) < EXHAUSTIVE else (0, 1, 2, len(earlier))
    return [(*others, newest) for size in sizes for others in combinations(earlier, size)]


def sets_among(releases: Sequence[int]) -> list[Set]:
    """Return all sets of releases, or of many those of up to three, and all together.

    >>> sets_among([1, 2])
    [(1,), (2,), (1, 2)]
    """
    n = len(releases)
    sizes = range(1, n + 1) if n <= EXHAUSTIVE else (1, 2, 3, n)
    return [chosen for size in sizes for chosen in combinations(releases, size)]


def is_complete(n_releases: int) -> bool:
    """Whether :func:`sets_with` and :func:`sets_among` return every set of so many releases."""
    return n_releases <= EXHAUSTIVE


@dataclass(frozen=True, slots=True, eq=False)
class Anyset:
    """The least that any set of releases leaves to anybody, whichever set it is."""

    l: int
    below: int  # people
    worst: Set  # a set that leaves l, none of whose releases could be missing


@dataclass(frozen=True, slots=True, eq=False)
class LeftToPeople:
    """Which sensitive values each release leaves to whom.

    Of a set of releases those values remain that all of them leave. Somebody may be in any of the sets that leave
    something: who has the value v is at most in the releases that leave v, and the more of them, the less remains.
    So of all 2^n sets only one for each value need be looked at, and :meth:`anyset` knows the least of all.
    """

    numbers: Set  # (n_releases,)
    bits: KeyArray  # (n_releases, n_queries, n_words) the values that remain
    rows: IntArray  # (n_queries,) people with these quasi values

    @classmethod
    def of(cls, numbers: Set, space: Space, people: Source) -> LeftToPeople:
        """Look up the quasi values of all people in each release."""
        queries, whose = people_queries(space, people)
        n_words = -(-len(space.values) // 64)
        if len(numbers) * len(queries) * n_words > _MOST_WORDS:
            raise UsageError("the releases have too many values, or there are too many people, to link them all")
        bits = np.zeros((len(numbers), len(queries), n_words), dtype=np.uint64)
        indexes = trees(space)
        size = max(1, _BLOCK // len(space.values))
        for begin in range(0, len(queries), size):
            block = slice(begin, begin + size)
            sums, _ = left_for(space, indexes, queries[block])
            for place, counts in enumerate(sums):
                packed = np.packbits(counts > 0, axis=1, bitorder="little")  # (n_block, n_bytes)
                bits[place, block].view(np.uint8)[:, : packed.shape[1]] = packed
        return cls(numbers, bits, np.bincount(whose, minlength=len(queries)).astype(np.int64))

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.rows.sum())

    def remaining(self, chosen: Set) -> IntArray:
        """(n_queries,) how many values a set of releases leaves; 0 to those who cannot be in all of them."""
        places = [self.numbers.index(number) for number in chosen]
        return _counted(np.bitwise_and.reduce(self.bits[places], axis=0))

    def counted(self, chosen: Set, floor: int) -> tuple[int | None, int, int]:
        """Return the least that a set leaves to anybody, how many people can be in it, and how many are below."""
        left = self.remaining(chosen)
        linked = left > 0
        least = int(left[linked].min()) if linked.any() else None
        return least, int(self.rows[linked].sum()), int(self.rows[linked & (left < floor)].sum())

    def anyset(self, floor: int, newest: int | None = None) -> Anyset | None:
        """Return the least of all sets, of those with *newest* if it is given; None if nobody is in any release."""
        start = np.bitwise_or.reduce(self.bits, axis=0) if newest is None else self.bits[self.numbers.index(newest)]
        if not start.any():
            return None
        below = np.zeros(len(self.rows), dtype=np.bool_)
        least, worst = np.iinfo(np.int64).max, (0, 0)
        for value in range(64 * start.shape[1]):
            queries = np.flatnonzero(_has(start, value))
            if not len(queries):
                continue
            left = _counted(self._with_value(queries, value))
            below[queries] |= left < floor
            place = int(left.argmin())
            if left[place] < least:
                least, worst = int(left[place]), (int(queries[place]), value)
        return Anyset(least, int(self.rows[below].sum()), self._needed(*worst, newest))

    def _with_value(self, queries: IntArray, value: int) -> KeyArray:
        """(n_chosen, n_words) what all releases leave together that leave this value."""
        left = np.full((len(queries), self.bits.shape[2]), np.iinfo(np.uint64).max, dtype=np.uint64)
        for each in self.bits:
            own = each[queries]
            left &= np.where(_has(own, value)[:, None], own, np.iinfo(np.uint64).max)
        return left

    def _needed(self, query: int, value: int, newest: int | None) -> Set:
        """Return releases that leave the same as all those that leave the value, none of them in vain."""
        chosen = [place for place in range(len(self.numbers)) if _has(self.bits[place, query][None], value)[0]]
        least = int(_counted(np.bitwise_and.reduce(self.bits[chosen, query], axis=0)[None])[0])
        for place in list(chosen):
            fewer = [other for other in chosen if other != place]
            if not fewer or self.numbers[place] == newest:
                continue
            if int(_counted(np.bitwise_and.reduce(self.bits[fewer, query], axis=0)[None])[0]) == least:
                chosen = fewer
        return tuple(self.numbers[place] for place in chosen)


def _counted(bits: KeyArray) -> IntArray:
    """(n,) how many bits the words of each row have."""
    counts: IntArray = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts


def _has(bits: KeyArray, value: int) -> BoolArray:
    """(n,) whether each row has this bit."""
    word, place = divmod(value, 64)
    return (bits[:, word] >> np.uint64(place)) & np.uint64(1) > 0

"""What releases leave to given people: which values remain, and what is believed of whoever shares their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.linking.beliefs import BeliefJudge
from shoal.linking.kernels import stack_counts
from shoal.linking.space import Space
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source

_MOST_WORDS = 2**27
Set = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Anyset:
    """The least that any set of releases leaves to anybody, whichever set it is."""

    l: int
    below: int  # people
    worst: Set  # a set that leaves l, none of whose releases could be missing


@dataclass(frozen=True, slots=True, eq=False)
class LeftToPeople:
    """Which sensitive values each release leaves to whom, and in which of its classes people are.

    Of a set of releases those values remain that all of them leave. Somebody may be in any of the sets that leave
    something: who has the value v is at most in the releases that leave v, and the more of them, the less remains.
    So of all 2^n sets only one for each value need be looked at, and :meth:`anyset` knows the least of all.
    """

    numbers: Set  # (n_releases,)
    bits: KeyArray  # (n_releases, n_queries, n_words) the values that remain
    rows: IntArray  # (n_queries,) people with these quasi values
    queries: CodeArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int32))
    boxes: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))  # (n_releases, n_queries) or -1

    @classmethod
    def of(cls, numbers: Set, space: Space, people: Source, columns_of: Mapping[str, str]) -> LeftToPeople:
        """Look up the quasi values of all people in each release."""
        queries, whose = space.queries_of(people, columns_of)
        n_words = -(-len(space.values) // 64)
        if len(numbers) * len(queries) * n_words > _MOST_WORDS:
            raise UsageError("the releases have too many values, or there are too many people, to link them all")
        bits = np.zeros((len(numbers), len(queries), n_words), dtype=np.uint64)
        indexes = space.index()
        boxes = np.empty((len(numbers), len(queries)), dtype=np.int64)

        def keep(block: slice, sums: list[IntArray], found: list[IntArray]) -> None:
            boxes[:, block] = found
            for place, counts in enumerate(sums):
                packed = np.packbits(counts > 0, axis=1, bitorder="little")  # (n_block, n_bytes)
                bits[place, block].view(np.uint8)[:, : packed.shape[1]] = packed

        space.look_up_all(indexes, queries, keep)
        rows = np.bincount(whose, minlength=len(queries)).astype(np.int64)
        return cls(numbers, bits, rows, queries, boxes)

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.rows.sum())

    def remaining(self, chosen: Set) -> IntArray:
        """(n_queries,) how many values a set of releases leaves; 0 to those who cannot be in all of them."""
        return count_bits(np.bitwise_and.reduce(self.bits[self.find_places(chosen)], axis=0))

    def find_places(self, chosen: Set) -> list[int]:
        """Return where releases stand among all of them."""
        return [self.numbers.index(number) for number in chosen]

    def count(self, chosen: Set, floor: int) -> tuple[int | None, int, int]:
        """Return the least that a set leaves to anybody, how many people can be in it, and how many are below."""
        left = self.remaining(chosen)
        linked = left > 0
        least = int(left[linked].min()) if linked.any() else None
        return least, int(self.rows[linked].sum()), int(self.rows[linked & (left < floor)].sum())

    def judge(self, whole: Space, chosen: Set, judge: BeliefJudge) -> tuple[int, float]:
        """Return to how many people a set keeps no promise, and the largest belief.

        Where labels overlap, people are in the class with the narrowest one; where these have no value in common, in
        all that cover them. A class with more or fewer records than there are people for it has others than these: so
        many of those who seem to share classes may not.
        """
        places, some = self.find_places(chosen), np.flatnonzero(self.remaining(chosen) > 0)
        space = replace(whole, releases=tuple(whole.releases[place] for place in places))
        boxes = self.boxes[places]
        owners = [each.owner[own] for each, own in zip(space.releases, boxes, strict=True)]
        group, first = number_rows([owner[some] for owner in owners], len(some))
        sharing = np.bincount(group, weights=self.rows[some]).astype(np.int64)
        example = some[first]
        others = np.zeros(len(example), dtype=np.int64)
        for each, own, owner in zip(space.releases, boxes, owners, strict=True):
            inside = np.where(own < 0, 0, self.rows)
            people = np.bincount(owner, weights=inside, minlength=int(each.owner.max()) + 1).astype(np.int64)
            records = np.add.reduceat(each.histograms.counts, each.histograms.start[:-1])
            others += np.abs(people[owner[example]] - records[own[example]])
        unkept, belief = 0, 0.0
        for block in space.blocks(len(example)):
            whom = example[block]
            left = stack_counts(space.releases, boxes[:, whom], len(space.values))
            apart = np.flatnonzero(left.min(axis=0).sum(axis=1) == 0)
            if len(apart):
                left[:, apart] = np.stack(space.look_up(space.index(), self.queries[whom[apart]])[0])
            kept, largest = judge.judge(left, np.maximum(sharing[block] - others[block], 1), sharing[block])
            unkept += int(sharing[block][~kept].sum())
            belief = max(belief, float(largest.max()))
        return unkept, belief

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
            left = count_bits(self._with_value(queries, value))
            below[queries] |= left < floor
            place = int(left.argmin())
            if left[place] < least:
                least, worst = int(left[place]), (int(queries[place]), value)
        return Anyset(least, int(self.rows[below].sum()), self._minimal_set(*worst, newest))

    def _with_value(self, queries: IntArray, value: int) -> KeyArray:
        """(n_chosen, n_words) what all releases leave together that leave this value."""
        left = np.full((len(queries), self.bits.shape[2]), np.iinfo(np.uint64).max, dtype=np.uint64)
        for each in self.bits:
            own = each[queries]
            left &= np.where(_has(own, value)[:, None], own, np.iinfo(np.uint64).max)
        return left

    def _minimal_set(self, query: int, value: int, newest: int | None) -> Set:
        """Return releases that leave the same as all those that leave the value, none of them in vain."""
        chosen = [place for place in range(len(self.numbers)) if _has(self.bits[place, query][None], value)[0]]
        least = int(count_bits(np.bitwise_and.reduce(self.bits[chosen, query], axis=0)[None])[0])
        for place in list(chosen):
            fewer = [other for other in chosen if other != place]
            if not fewer or self.numbers[place] == newest:
                continue
            if int(count_bits(np.bitwise_and.reduce(self.bits[fewer, query], axis=0)[None])[0]) == least:
                chosen = fewer
        return tuple(self.numbers[place] for place in chosen)


def count_bits(bits: KeyArray) -> IntArray:
    """(n,) how many bits the words of each row have."""
    counts: IntArray = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts


def _has(bits: KeyArray, value: int) -> BoolArray:
    """(n,) whether each row has this bit."""
    word, place = divmod(value, 64)
    return (bits[:, word] >> np.uint64(place)) & np.uint64(1) > 0

"""Comparing the classes of releases: the people in them, their differences, and the remaining values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import gather_entries
from shoal.linking.beliefs import BeliefJudge
from shoal.linking.kernels import Boxes
from shoal.linking.space import Candidacy, Space
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source

MOST_ENTRIES = 2**24  # combinations of people and classes of several releases
_MOST_WORDS = 2**27
_BLOCK = 2**22  # counts of values that are held at a time
Set = tuple[int, ...]  # releases by their numbers


class OccupiedClasses(NamedTuple):
    """The classes of one release, and the people who may be in them: query i in ``owner[start[i]:start[i + 1]]``."""

    start: IntArray  # (n_queries + 1,)
    owner: IntArray  # (n_entries,) a class
    query: IntArray  # (n_entries,)
    records: IntArray  # (n_classes,)
    people: IntArray  # (n_classes,)
    boxes: Boxes

    @classmethod
    def of(cls, found: Candidacy, boxes: Boxes, records_of: IntArray, rows: IntArray) -> OccupiedClasses:
        """Count the records of classes, given the records of each box, and their people.

        Query i has ``rows[i]`` people.
        """
        records = np.zeros(int(boxes.owner.max()) + 1, dtype=np.int64)
        records[boxes.owner] = records_of
        owner, query = boxes.owner[found.boxes], found.query
        people = np.bincount(owner, weights=rows[query], minlength=len(records)).astype(np.int64)
        return cls(found.start, owner, query, records, people, boxes)

    def count_values(self, n_values: int) -> Any:
        """Return (n_classes, n_values) the counts of values as a sparse matrix."""
        from scipy.sparse import csr_array

        classes, box = np.unique(self.boxes.owner, return_index=True)
        counts = self.boxes.histograms.merge(box, classes, len(self.records), n_values)
        return csr_array((counts.counts, counts.value, counts.start), shape=(len(self.records), n_values))


def count_sharing(
    releases: Sequence[OccupiedClasses], query: AnyIntArray, rows: IntArray, split: AnyIntArray
) -> IntArray:
    """Return (n,) with how many people each of these people shares the classes of all releases; 0 if not in all.

    *query*, *rows* and *split* have the quasi values, the number and the values of common columns of equal people.
    Common columns join records, so they split classes too, unless the classes are the same in all releases: then
    joining adds nothing. A class may have more records than people resolve to it. If that is so in every release,
    people without a class may be in it.
    """
    item, key = np.arange(len(query)), np.zeros(len(query), dtype=np.int64)
    spare, largest = np.full(len(query), np.iinfo(np.int64).max), np.zeros(len(query), dtype=np.int64)
    for each in releases:
        if int(np.diff(each.start)[query[item]].sum()) > MOST_ENTRIES:
            raise UsageError("people may be in too many classes of the releases; link fewer of them")
        place, entry = gather_entries(each.start, query[item])
        owner = each.owner[entry]
        item, key = item[place], number_rows([key[place], owner], len(place))[0].astype(np.int64)
        spare = np.minimum(spare[place], np.maximum(each.records - each.people, 0)[owner])
        largest = np.maximum(largest[place], each.people[owner])
    sharing = np.bincount(key, weights=rows[item]).astype(np.int64)[key]
    joint = number_rows([key, split[item]], len(key))[0]
    joined = np.bincount(joint, weights=rows[item]).astype(np.int64)[joint]
    sizes = np.zeros(len(query), dtype=np.int64)
    np.maximum.at(sizes, item, np.where(sharing < largest, np.minimum(sharing + spare, joined), sharing + spare))
    return sizes


def subtract_classes(
    one: OccupiedClasses, other: OccupiedClasses, rows: IntArray, floor: int, judge: BeliefJudge
) -> tuple[int, int | None]:
    """Return the number of people exposed by a difference of classes, and the values of the smallest difference.

    Classes that share people, directly or through others, hold the same people except for some who joined, left or
    changed: their values are the difference. So are the values of people in a class of one release that wholly holds
    classes of the other, but who are in none of these. Each difference must have *floor* values and satisfy the
    guarantees (compare Xiao and Tao, "m-Invariance", SIGMOD 2007).
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    before, after = (each.count_values(len(judge.values)) for each in (one, other))
    place, entry = gather_entries(other.start, one.query)
    shape = len(one.records), len(other.records)
    certain = rows * (np.diff(one.start) == 1) * (np.diff(other.start) == 1)  # people in one class of each release
    common = coo_array((certain[one.query[place]], (one.owner[place], other.owner[entry])), shape=shape).tocsr().tocoo()
    old, new = common.coords
    n_all = sum(shape)
    graph = coo_array((np.ones(len(old)), (old, shape[0] + new)), shape=(n_all, n_all))
    n_parts, part = connected_components(graph, directed=False)

    def gather(into: IntArray, members: IntArray, counts: Any, n_rows: int) -> Any:
        ones = np.ones(len(members), dtype=np.int64)
        return coo_array((ones, (into, members)), shape=(n_rows, counts.shape[0])).tocsr() @ counts

    grown = gather(part[shape[0] :], np.arange(shape[1]), after, n_parts)
    grown -= gather(part[: shape[0]], np.arange(shape[0]), before, n_parts)
    inside = (common.data == one.people[old]) & (common.data == one.records[old])
    around = (common.data == other.people[new]) & (common.data == other.records[new])
    outer, inner = np.unique(new[inside]), np.unique(old[around])
    more = after[outer] - gather(new[inside], old[inside], before, shape[1])[outer]
    less = before[inner] - gather(old[around], new[around], after, shape[0])[inner]
    found = [_judge_differences(each, floor, judge) for each in (grown, -grown, more, less)]
    exposed = int(np.maximum(found[0][0], found[1][0]).sum()), int(found[2][0].sum()), int(found[3][0].sum())
    return max(exposed), min((least for _, least in found if least is not None), default=None)


def _judge_differences(difference: Any, floor: int, judge: BeliefJudge) -> tuple[IntArray, int | None]:
    """Return (n,) the people of each difference that violates a limit, and the smallest number of values."""
    positive = difference.maximum(0).tocsr()
    positive.eliminate_zeros()
    distinct, people = np.diff(positive.indptr), np.asarray(positive.sum(axis=1)).reshape(-1).astype(np.int64)
    fails = (distinct > 0) & (distinct < floor)
    some = np.flatnonzero((distinct >= floor) & (distinct > 0)) if judge.promised else np.empty(0, dtype=np.int64)
    size = max(1, _BLOCK // positive.shape[1])
    for begin in range(0, len(some), size):
        chosen = some[begin : begin + size]
        one = np.ones(len(chosen), dtype=np.int64)
        fails[chosen] = ~judge.judge(positive[chosen].toarray()[None], one, one)[0]
    return np.where(fails, people, 0), int(distinct[distinct > 0].min()) if distinct.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Anyset:
    """The minimum number of values that any set of releases leaves to a person."""

    l: int
    below: int  # people
    worst: Set  # a minimal set that leaves l


@dataclass(frozen=True, slots=True, eq=False)
class LeftToPeople:
    """The sensitive values that each release leaves to each person, and the person's classes.

    A set of releases leaves the values that all of them leave. A person may be in any set that leaves a value. A person
    with the value v is at most in the releases that leave v, and more releases leave fewer values. So of all 2^n sets
    only one per value must be examined, and :meth:`anyset` finds the minimum of all.
    """

    numbers: Set  # (n_releases,)
    bits: KeyArray  # (n_releases, n_queries, n_words) the remaining values
    rows: IntArray  # (n_queries,) people with these quasi values
    found: Sequence[Candidacy] = ()  # (n_releases,) the boxes that people may be in
    whose: CodeArray = field(default_factory=lambda: np.empty(0, dtype=np.int32))  # (n_people,) query of each person

    @classmethod
    def of(cls, numbers: Set, space: Space, people: Source, columns_of: Mapping[str, str]) -> LeftToPeople:
        queries, whose = space.queries_of(people, columns_of)
        n_words = -(-len(space.values) // 64)
        if len(numbers) * len(queries) * n_words > _MOST_WORDS:
            raise UsageError("the releases have too many values or people to link all of them")
        bits = np.zeros((len(numbers), len(queries), n_words), dtype=np.uint64)

        def keep(block: slice, sums: list[IntArray]) -> None:
            for place, counts in enumerate(sums):
                packed = np.packbits(counts > 0, axis=1, bitorder="little")  # (n_block, n_bytes)
                bits[place, block].view(np.uint8)[:, : packed.shape[1]] = packed

        found = space.look_up_all(space.make_lookups(), queries, keep)
        rows = np.bincount(whose, minlength=len(queries)).astype(np.int64)
        return cls(numbers, bits, rows, found, whose)

    @property
    def people(self) -> int:
        return int(self.rows.sum())

    def remaining(self, chosen: Set) -> IntArray:
        """(n_queries,) how many values a set of releases leaves; 0 for people who cannot be in all of them."""
        return count_bits(np.bitwise_and.reduce(self.bits[self.find_places(chosen)], axis=0))

    def find_places(self, chosen: Set) -> list[int]:
        return [self.numbers.index(number) for number in chosen]

    def count(self, chosen: Set, floor: int) -> tuple[int | None, int, int]:
        """Return the minimum number of values that a set leaves, its people, and the people below the floor."""
        left = self.remaining(chosen)
        linked = left > 0
        least = int(left[linked].min()) if linked.any() else None
        return least, int(self.rows[linked].sum()), int(self.rows[linked & (left < floor)].sum())

    def judge(self, space: Space, chosen: Set, judge: BeliefJudge) -> tuple[int, float]:
        """Return for how many people a set violates a guarantee, and the largest belief.

        People with several most specific classes are in their union. If a class does not have as many records as there
        are people for it, it has other records: some people who seem to share classes may not.
        """
        places, some = self.find_places(chosen), np.flatnonzero(self.remaining(chosen) > 0)
        releases = [(space.releases[place], self.found[place]) for place in places]
        unions = [own.number_unions(each.owner) for each, own in releases]
        group, first = number_rows([union[some] for union in unions], len(some))
        sharing = np.bincount(group, weights=self.rows[some]).astype(np.int64)
        example = some[first]
        people = np.stack([np.bincount(union, weights=self.rows)[union[example]] for union in unions]).astype(np.int64)
        unkept, belief = 0, 0.0
        for block in space.blocks(len(example)):
            left = np.stack(
                [own.count_values(each.histograms, example[block], len(space.values)) for each, own in releases]
            )
            others, most = np.abs(people[:, block] - left.sum(axis=2)).sum(axis=0), sharing[block]
            same = (people[:, block] == most).all(axis=0) & (left == left[0]).all(axis=(0, 2))  # equal classes
            fewest, most = (np.where(same, left[0].sum(axis=1), n) for n in (np.maximum(most - others, 1), most))
            kept, largest = judge.judge(left, fewest, most)
            unkept += int(sharing[block][~kept].sum())
            belief = max(belief, float(largest.max()))
        return unkept, belief

    def anyset(self, floor: int, newest: int | None = None) -> Anyset | None:
        """Return the minimum over all sets, or all sets with *newest*; None if no person is in any release."""
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
        """(n_chosen, n_words) the values that remain in all releases that leave this value."""
        left = np.full((len(queries), self.bits.shape[2]), np.iinfo(np.uint64).max, dtype=np.uint64)
        for each in self.bits:
            own = each[queries]
            left &= np.where(_has(own, value)[:, None], own, np.iinfo(np.uint64).max)
        return left

    def _minimal_set(self, query: int, value: int, newest: int | None) -> Set:
        """Return a minimal set of releases that leaves the same values as all releases that leave the value."""
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
    """(n,) the number of set bits in each row."""
    counts: IntArray = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts


def _has(bits: KeyArray, value: int) -> BoolArray:
    """(n,) whether each row has this bit."""
    word, place = divmod(value, 64)
    return (bits[:, word] >> np.uint64(place)) & np.uint64(1) > 0

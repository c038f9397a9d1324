"""Comparing the classes of releases: how few people share them, and whose values their differences give away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.core.arrays import AnyIntArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import gather_entries
from shoal.linking.beliefs import BeliefJudge
from shoal.linking.kernels import Boxes
from shoal.linking.space import Candidacy
from shoal.release.sliced.table import number_rows

MOST_ENTRIES = 2**24  # ways in which people may be in classes of several releases
_BLOCK = 2**22  # counts of values that are held at a time


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
        """Count the records of classes, given those of each box, and their people; query i has ``rows[i]`` people."""
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

    *query*, *rows* and *split* have the quasi values, the number and the values of common columns of people who are
    alike. Records can be joined by common columns, so these split classes too, unless the classes are the same in all
    releases: then joining adds nothing. A class may have more records than people resolve to it. If that is so in every
    release, the people without a class may be there.
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
    """Return how many people have values that are a difference of classes with too few values, and the fewest values.

    Classes that share people, directly or through others, hold the same people but for some who joined, left or
    changed: their values are the difference. So are the values of people in a class of one release that wholly holds
    classes of the other, but who are in none of these. Each difference must have *floor* values and keep promises
    (compare Xiao and Tao, "m-Invariance", SIGMOD 2007).
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
    """Return (n,) the people of each difference that has too few values or keeps no promise, and the fewest values."""
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

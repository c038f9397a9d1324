"""Tuple partitioning by the rule of groups: buckets are cut as long as every group on both sides holds by itself.

What is believed of a tuple is a mixture of the groups that it matches, so that every tuple that the buckets could form
holds, be it in the table or not. After cuts by value each tuple of the table matches one bucket only, and its group is
all that can be believed of it: then the result is that of the paper's algorithm, whose check over all tuples and all
buckets needs to look at groups only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, places_ascending
from shoal.methods.slicing.beliefs import Beliefs
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, find_linked_buckets, sensitive_part

EIGHTHS = (4, 2, 6, 1, 7)  # of a bucket's records, where it is tried to be cut
_SHARED = 8  # buckets, or shares of them, that threads go on with
_ALL = np.iinfo(np.int64).max


class Items(NamedTuple):
    """Pieces of cells in the order of their buckets: bucket b has the items ``starts[b]:stops[b]``."""

    codes: CodeArray  # (n_cut, n_items) leaves of the attributes that are cut by
    records: IntArray  # (n_items,)
    keys: CodeArray  # (n_items,) quasi values of the sensitive part, ascending within a bucket
    cells: CodeArray  # (n_items,)
    starts: IntArray  # (n_buckets,)
    stops: IntArray  # (n_buckets,)

    @classmethod
    def of_one_bucket(cls, problem: Problem, cells: IntArray, keys: CodeArray, places: Sequence[int]) -> Items:
        """Put whole cells in one bucket, to be cut by the quasi attributes at *places*."""
        order = cells[np.argsort(keys[cells], kind="stable")]
        return cls(
            codes=np.stack([problem.cells.codes[place][order] for place in places]).astype(np.int32),
            records=problem.cells.counts[order],
            keys=keys[order].astype(np.int32),
            cells=order.astype(np.int32),
            starts=np.zeros(1, dtype=np.int64),
            stops=np.array([len(order)], dtype=np.int64),
        )

    @property
    def n_buckets(self) -> int:
        """The number of buckets."""
        return len(self.starts)

    @property
    def spans(self) -> FloatArray:
        """(n_cut,) how far apart the outermost leaves of each attribute are, 1 where there is one leaf only."""
        spans = self.codes.max(axis=1) - self.codes.min(axis=1)
        return np.asarray(np.maximum(spans, 1), dtype=np.float64)

    @property
    def bucket(self) -> IntArray:
        """(n_items,) the bucket of each item."""
        order = np.argsort(self.starts, kind="stable")
        return np.repeat(order, (self.stops - self.starts)[order])

    def pieces(self) -> Pieces:
        """Return the items as pieces."""
        return Pieces(self.cells.astype(np.int64), self.bucket.astype(np.int32), self.records)


class Cutter:
    """Cuts buckets in two at the middle of their widest attribute, or at the next place where both sides hold.

    If buckets are to stay *mixed*, no cut leaves a side of which only one part has several quasi values: there
    everybody could put the parts of every record together.
    """

    def __init__(
        self, problem: Problem, parts: Sequence[Part], published: IntArray, smallest: int, *, mixed: bool
    ) -> None:
        self._judges = [
            (Judge.of(requirement, published), sensitive_part(problem, parts, requirement))
            for requirement in problem.requirements
            if requirement.values is not None
        ]
        same_part = [judge.requirement.model for judge, part in self._judges if part is self._judges[0][1]]
        self._smallest_group = max((model.smallest_class for model in same_part), default=0)
        self._mixed = parts if mixed else ()
        self._smallest = smallest

    def cut(self, given: Items) -> Items:
        """Return the items in buckets that go no further, as they lie; threads share those of the first rounds."""
        items = Items._make(column.copy() for column in given)  # which are moved about
        spans, attempts = items.spans, np.zeros(items.n_buckets, dtype=np.int64)
        ended, items, attempts = self._cut_on(items, attempts, spans, _SHARED)

        def cut_share(place: int) -> list[IntArray]:
            own = items._replace(starts=items.starts[place::_SHARED], stops=items.stops[place::_SHARED])
            return self._cut_on(own, attempts[place::_SHARED], spans, _ALL)[0]

        with ThreadPoolExecutor(min(os.cpu_count() or 1, _SHARED)) as pool:
            for more in pool.map(cut_share, range(_SHARED)):
                ended += more
        starts, stops = np.sort(np.concatenate(ended, axis=1))  # buckets do not overlap
        return items._replace(starts=starts, stops=stops)

    def _cut_on(
        self, items: Items, attempts: IntArray, spans: FloatArray, enough: int
    ) -> tuple[list[IntArray], Items, IntArray]:
        """Cut until there are *enough* buckets; return where those lie that go no further, and the others."""
        ended = [np.stack([items.starts[:0], items.stops[:0]])]
        while 0 < items.n_buckets < enough:
            starts, stops = items.starts, items.stops
            attempts, good, middles = self._cut_once(items, attempts, spans)
            over, again = attempts < 0, (attempts >= 0) & ~good
            ended.append(np.stack([starts[over], stops[over]]))
            items = items._replace(
                starts=np.concatenate([starts[again], starts[good], middles[good]]),
                stops=np.concatenate([stops[again], middles[good], stops[good]]),
            )
            attempts = np.concatenate([attempts[again] + 1, np.zeros(2 * int(good.sum()), dtype=np.int64)])
        return ended, items, attempts

    def _cut_once(self, items: Items, attempts: IntArray, spans: FloatArray) -> tuple[IntArray, BoolArray, IntArray]:
        """Cut buckets where both sides hold; return what was tried, where that is good, and where right sides begin."""
        tried, middles, place, group, first = find_cuts(items, attempts, spans, self._smallest, self._smallest_group)
        good, which = tried >= 0, np.flatnonzero(tried >= 0)
        lengths = np.stack([middles - items.starts, items.stops - middles], axis=1)[which]
        half = np.repeat((2 * which[:, np.newaxis] + (0, 1)).ravel(), lengths.ravel())
        cells = items.cells[place]
        linked = find_linked_buckets(self._mixed, cells, half, 2 * items.n_buckets).reshape(-1, 2).any(axis=1)
        if linked.any():
            good &= ~linked | find_linked_buckets(self._mixed, cells, half // 2, items.n_buckets)
        for judge, part in self._judges:
            if not good.any():
                break
            if part is self._judges[0][1]:  # whose values the items are ordered by
                holds = judge.holds(group, judge.requirement.values_at(cells), items.records[place])
                good[which] &= np.logical_and.reduceat(holds, first[:-1])
            else:
                good[self._find_failing(judge, part, items, place, half) // 2] = False
        move_items(items, which, good, place)
        return tried, good, middles

    def accepts(self, items: Items, halves: Items, apart: BoolArray) -> BoolArray:  # noqa: ARG002
        """Accept buckets of which all groups of both halves hold."""
        bucket, everything = halves.bucket, np.arange(len(halves.cells))
        good = ~find_linked_buckets(self._mixed, halves.cells, bucket, halves.n_buckets)
        for judge, part in self._judges:
            good[self._find_failing(judge, part, halves, everything, bucket)] = False
        return apart & good[0::2] & good[1::2]

    def _find_failing(self, judge: Judge, part: Part, items: Items, place: IntArray, owner: IntArray) -> IntArray:
        """Return the owners of items at *place* that have a group which fails."""
        distinct, own = np.unique(owner * part.n_values + part.values[items.cells[place]], return_inverse=True)
        first, order = counting.group_items(own.reshape(-1).astype(np.int32), len(distinct))
        place = place[order]
        holds = judge.holds(first, judge.requirement.values_at(items.cells[place]), items.records[place])
        return np.asarray(distinct[~holds] // part.n_values)


Accepts = Callable[[Items, Items, BoolArray], BoolArray]  # buckets, their halves, which to cut -> which stay cut


def cut_in_rounds(items: Items, smallest: int, relaxed: bool, accepts: Accepts) -> Items:
    """Return the items in smaller buckets: all are cut in the middle, as long as some halves are accepted."""
    attempts, spans = np.zeros(items.n_buckets, dtype=np.int64), items.spans
    while True:
        in_middle, left, total = _propose(items, attempts, spans, relaxed)
        trying = in_middle & (total >= 2 * smallest)
        if not trying.any():
            return items
        halves = _halve(items, left)
        sizes = np.bincount(halves.bucket, halves.records, halves.n_buckets).reshape(-1, 2)
        apart = accepts(items, halves, trying & (sizes.min(axis=1) >= smallest))
        attempts = np.where(apart, 0, np.where(trying, attempts + 1, len(spans) * len(EIGHTHS)))
        halves = _halve(items, np.where(apart[items.bucket], left, items.records))
        full, attempts = halves.starts < halves.stops, np.repeat(attempts, 1 + apart)
        items = halves._replace(starts=halves.starts[full], stops=halves.stops[full])


def _propose(
    items: Items, attempts: IntArray, spans: FloatArray, relaxed: bool
) -> tuple[BoolArray, IntArray, IntArray]:
    """Return which buckets are to be tried, in the middle only, (n_items,) the records that go left, and all."""
    bucket = items.bucket
    attribute, cut, eighths, below, at, total = propose_cuts(items, attempts, spans, not relaxed)
    own = items.codes[np.maximum(attribute, 0)[bucket], np.arange(len(bucket))]
    left = np.where(own <= cut[bucket], items.records, 0)
    if relaxed:
        tie, wanted = own == cut[bucket], np.maximum(total // 2 - below, 0)
        left = np.where(tie, share_ties(items, tie, wanted, np.maximum(at, 1)), left)
    tried = (attribute >= 0) & (eighths == EIGHTHS[0])
    return tried, np.where(tried[bucket], left, items.records), total


def _halve(items: Items, left: IntArray) -> Items:
    """Return items with two buckets for each: 2 b is the left half of b, 2 b + 1 the right one."""
    right = items.records - left
    source = np.concatenate([np.flatnonzero(left > 0), np.flatnonzero(right > 0)])
    records = np.concatenate([left[left > 0], right[right > 0]])
    half = 2 * items.bucket[source] + (np.arange(len(source)) >= np.count_nonzero(left > 0))
    order = np.lexsort((source, half))
    edges = np.searchsorted(half[order], np.arange(2 * items.n_buckets + 1)).astype(np.int64)
    at = source[order]
    return Items(items.codes.take(at, axis=1), records[order], items.keys[at], items.cells[at], edges[:-1], edges[1:])


def accept_by_beliefs(problem: Problem, parts: Sequence[Part]) -> Accepts:
    """Accept buckets such that all tuples of the table hold.

    Tuples that match a changed bucket are judged anew, and changed buckets that a failing tuple matches are put
    together again, until no tuple fails.
    """

    def accepts(items: Items, halves: Items, apart: BoolArray) -> BoolArray:
        before = Beliefs(problem, parts, items.pieces(), items.n_buckets)
        affected = before.touching(apart)
        half, cells = halves.bucket, halves.cells.astype(np.int64)
        while apart.any():
            # halves of buckets that are not apart are one bucket
            first = np.concatenate([[0], np.cumsum(np.where(apart, 2, 1))])
            bucket = (first[half // 2] + np.where(apart[half // 2], half % 2, 0)).astype(np.int32)
            beliefs = Beliefs(problem, parts, Pieces(cells, bucket, halves.records), int(first[-1]))
            failing = np.flatnonzero(beliefs.failing(affected))
            if not len(failing):
                return apart
            blamed = before.matching(failing, apart)
            apart = apart & ~blamed if blamed.any() else np.zeros_like(apart)
        return apart

    return accepts


class Extents(NamedTuple):
    """What cuts of a bucket are chosen by; filled in for one bucket after the other."""

    least: IntArray  # (n_cut,) codes
    most: IntArray  # (n_cut,)
    spans: FloatArray  # (n_cut,) of the whole table
    tally: IntArray  # (n_codes,) zero between cuts


@inline_kernel
def _measure_bucket(items: Items, b: int, extents: Extents) -> int:
    """Fill in the least and greatest codes of a bucket, and return how many records it has."""
    start, stop = items.starts[b], items.stops[b]
    for j in range(items.codes.shape[0]):
        least = most = items.codes[j, start]
        for item in range(start + 1, stop):
            least, most = min(least, items.codes[j, item]), max(most, items.codes[j, item])
        extents.least[j], extents.most[j] = least, most
    total = 0
    for item in range(start, stop):
        total += items.records[item]
    return total


@inline_kernel
def _choose_attribute(extents: Extents, attempt: int) -> tuple[int, int]:
    """Return the attribute that a bucket is tried to be cut by, -1 if there is none, and at how many eighths."""
    least, most, spans, _ = extents
    n_wide = 0
    for j in range(len(spans)):
        n_wide += most[j] > least[j]
    if attempt >= n_wide * len(EIGHTHS):
        return -1, 0
    for j in range(len(spans)):
        ahead, width = 0, (most[j] - least[j]) / spans[j]  # attributes that are tried before: wider ones, of equal ones
        for other in range(len(spans)):  # the first
            wide = (most[other] - least[other]) / spans[other]
            ahead += wide > width or (wide == width and other < j)
        if ahead == attempt % n_wide:
            break
    return j, EIGHTHS[attempt // n_wide]


@kernel
def _find_code(codes: CodeArray, records: IntArray, wanted: int, j: int, extents: Extents) -> tuple[int, int, int]:
    """Return the code at which *wanted* eighths of records are reached, and the records below and at it."""
    running, position, low = 0, 0, extents.least[j]
    tally = extents.tally[: extents.most[j] - low + 1]  # of no use where codes are few and far between
    if len(tally) <= 8 * len(codes) + 64:
        for item in range(len(codes)):
            tally[codes[item] - low] += records[item]
        while 8 * (running + tally[position]) < wanted:
            running += tally[position]
            position += 1
        same = tally[position]
        tally[:] = 0
        return low + position, running, same
    by_code = places_ascending(codes)
    while True:
        here, same = codes[by_code[position]], 0
        while position < len(by_code) and codes[by_code[position]] == here:
            same += records[by_code[position]]
            position += 1
        if 8 * (running + same) >= wanted:
            return here, running, same
        running += same


@inline_kernel
def _cut_before(wanted: int, below: int, at: int, total: int) -> bool:
    """Whether of the two cuts beside the code at which *wanted* eighths are reached that before it is taken."""
    return below > 0 and (below + at == total or wanted - 8 * below < 8 * (below + at) - wanted)


@kernel
def propose_cuts(items: Items, attempts: IntArray, spans: FloatArray, strict: bool) -> IntArray:
    """Return for each bucket the attribute to try next, where to cut it, and how many records are where.

    Attributes are tried from the widest on, relative to *spans*, all of them in the middle first, then at a quarter and
    at an eighth from both ends; -1 where nothing is left to try. The code is that at which so many eighths of the
    records are reached or, of a *strict* cut, the greatest of its left side; returned are also these eighths, the
    records below and at that code, and all records.
    """
    n, d = len(items.starts), items.codes.shape[0]
    found = np.zeros((6, n), dtype=np.int64)
    ends = np.empty((2, d), dtype=np.int64)
    extents = Extents(ends[0], ends[1], spans, np.zeros(int(spans.max()) + 1, dtype=np.int64))
    for b in range(n):
        total = _measure_bucket(items, b, extents)
        j, eighths = _choose_attribute(extents, attempts[b])
        found[0, b], found[2, b], found[5, b] = j, eighths, total
        if j >= 0:
            bucket = slice(items.starts[b], items.stops[b])
            cut, below, at = _find_code(items.codes[j, bucket], items.records[bucket], total * eighths, j, extents)
            found[1, b] = cut - (strict and _cut_before(total * eighths, below, at, total))
            found[3, b], found[4, b] = below, at
    return found


@kernel
def find_cuts(
    items: Items, attempts: IntArray, spans: FloatArray, smallest: int, smallest_group: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return the next cut of each bucket that leaves large enough sides and groups: its attempt, -1 if there is none.

    A group is one side's items with the same key. Returned are also where right sides will begin, the items of the
    buckets with such a cut (by side, then key), where their groups begin, and (n_found + 1,) each bucket's groups.
    """
    codes, records, keys, _, starts, stops = items
    n, n_items = len(starts), (stops - starts).sum()
    tried, middles = np.full(n, -1, dtype=np.int64), stops.copy()
    place, group = np.empty(n_items, dtype=np.int64), np.zeros(n_items + 1, dtype=np.int64)
    first = np.zeros(n + 1, dtype=np.int64)
    ends = np.empty((2, codes.shape[0]), dtype=np.int64)
    extents = Extents(ends[0], ends[1], spans, np.zeros(int(spans.max()) + 1, dtype=np.int64))
    begin, n_found, smallest = 0, 0, max(smallest, smallest_group)
    for b in range(n):
        total, attempt, bucket = _measure_bucket(items, b, extents), attempts[b] - 1, slice(starts[b], stops[b])
        while total >= 2 * smallest and tried[b] < 0:
            attempt += 1
            j, eighths = _choose_attribute(extents, attempt)
            if j < 0:
                break
            cut, left, at = _find_code(codes[j, bucket], records[bucket], total * eighths, j, extents)
            if _cut_before(total * eighths, left, at, total):
                cut -= 1
            else:
                left += at
            if min(left, total - left) < smallest:
                continue
            # the left side, then the right one, up to a group that is too small
            to, number, size = begin, first[n_found], smallest_group
            for right in range(2):
                key = -1
                for item in range(starts[b], stops[b]):
                    if (codes[j, item] > cut) != (right == 1):
                        continue
                    if keys[item] != key:
                        if size < smallest_group:
                            break
                        key, size = keys[item], 0
                        group[number] = to
                        number += 1
                    size += records[item]
                    place[to] = item
                    to += 1
                if size < smallest_group:
                    break
                if right == 0:
                    middles[b] = starts[b] + to - begin
            if size >= smallest_group:
                tried[b], begin = attempt, to
                n_found += 1
                first[n_found], group[number] = number, to
    return tried, middles, place[:begin], group[: first[n_found] + 1], first[: n_found + 1]


@kernel
def move_items(items: Items, which: IntArray, good: BoolArray, place: IntArray) -> None:
    """Put the items of good buckets in the order of *place*, where those of the buckets *which* stand in turn."""
    begin = 0
    for b in which:
        start, stop = items.starts[b], items.stops[b]
        order = place[begin : begin + stop - start]
        begin += stop - start
        if good[b]:
            for j in range(items.codes.shape[0]):
                items.codes[j, start:stop] = items.codes[j][order]
            items.records[start:stop] = items.records[order]
            items.keys[start:stop] = items.keys[order]
            items.cells[start:stop] = items.cells[order]


@kernel
def share_ties(items: Items, tie: BoolArray, wanted: IntArray, at: IntArray) -> IntArray:
    """Return the records of tied items that go to the left: *wanted* of *at* in each bucket, evenly along the items."""
    left = np.zeros(len(tie), dtype=np.int64)
    for b in range(len(items.starts)):
        seen, given = 0, 0
        for item in range(items.starts[b], items.stops[b]):
            if tie[item]:
                seen += items.records[item]
                due = seen * wanted[b] // at[b]
                left[item] = due - given
                given = due
    return left

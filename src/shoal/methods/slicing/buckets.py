"""Tuple partitioning by the rule of groups: buckets are cut as long as every group on both sides holds by itself.

What is believed of a tuple is a mixture of the groups that it matches, so that every tuple that the buckets could form
holds, be it in the table or not. After cuts by value each tuple of the table matches one bucket only, and its group is
all that can be believed of it: then the result is that of the paper's algorithm, whose check over all tuples and all
buckets needs to look at groups only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel, places_ascending
from shoal.methods.slicing.beliefs import Beliefs
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, find_linked_buckets, sensitive_part

Sides = NDArray[np.uint8]
EIGHTHS = (4, 2, 6, 1, 7)  # of a bucket's records, where it is tried to be cut


class Items(NamedTuple):
    """Pieces of cells in the order of their buckets: bucket b has the items ``starts[b]:stops[b]``."""

    codes: CodeArray  # (n_items, n_cut) leaves of the attributes that are cut by
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
            codes=np.stack([problem.cells.codes[place][order] for place in places], axis=1).astype(np.int32),
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
        spans = self.codes.max(axis=0) - self.codes.min(axis=0)
        return np.asarray(np.maximum(spans, 1), dtype=np.float64)

    @property
    def bucket(self) -> IntArray:
        """(n_items,) the bucket of each item."""
        order = np.argsort(self.starts, kind="stable")
        return np.repeat(order, (self.stops - self.starts)[order])

    def pieces(self) -> Pieces:
        """Return the items as pieces."""
        return Pieces(self.cells.astype(np.int64), self.bucket.astype(np.int32), self.records)

    def select(self, items: IntArray, starts: IntArray, stops: IntArray) -> Items:
        """Return copies of some items in other buckets."""
        columns = (np.ascontiguousarray(column[items]) for column in (self.codes, self.records, self.keys, self.cells))
        return Items._make([*columns, starts, stops])

    def take(self, buckets: BoolArray) -> Items:
        """Return some of the buckets, in the order that they have here."""
        lengths = (self.stops - self.starts)[buckets]
        stops = np.cumsum(lengths)
        items = np.arange(int(lengths.sum())) + np.repeat(self.starts[buckets] - (stops - lengths), lengths)
        return self.select(items, stops - lengths, stops)

    def join(self, other: Items) -> Items:
        """Return the buckets of both."""
        shift = len(self.cells)
        other = other._replace(starts=other.starts + shift, stops=other.stops + shift)
        columns: Iterable[tuple[Any, Any]] = zip(self, other, strict=True)
        return Items._make(np.concatenate(both) for both in columns)


def strict_cuts(items: Items, attempts: IntArray, spans: FloatArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return (n,) the attribute to cut next, -1 if there is none, the greatest code of its left side, eighths, records.

    Of the two cuts beside the code at which the wanted eighths are reached the nearer one is taken.
    """
    attribute, cut, eighths, below, at, total = propose_cuts(items, attempts, spans)
    nearer = total * eighths - 8 * below < 8 * (below + at) - total * eighths
    before = (below > 0) & ((below + at == total) | nearer)
    return attribute, cut - before, eighths, total


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
        """Return the items in buckets that go no further."""
        items = Items._make(column.copy() for column in given)  # which are moved about
        attempts, spans = np.zeros(items.n_buckets, dtype=np.int64), items.spans
        ended = [(items.starts[:0], items.stops[:0])]
        while items.n_buckets:
            attribute, cut, _, total = strict_cuts(items, attempts, spans)
            going = (attribute >= 0) & (total >= 2 * self._smallest)
            ended.append((items.starts[~going], items.stops[~going]))
            items = items._replace(starts=items.starts[going], stops=items.stops[going])
            good, side = self._sides_hold(items, attribute[going], cut[going])
            starts, stops = items.starts, items.stops
            middles = move_items(items._replace(starts=starts[good], stops=stops[good]), side)
            items = items._replace(
                starts=np.concatenate([starts[~good], starts[good], middles]),
                stops=np.concatenate([stops[~good], middles, stops[good]]),
            )
            attempts = np.concatenate([attempts[going][~good] + 1, np.zeros(2 * len(middles), dtype=np.int64)])
        starts, stops = (np.concatenate(edges) for edges in zip(*ended, strict=True))
        return items._replace(starts=starts, stops=stops)

    def accepts(self, items: Items, halves: Items, apart: BoolArray) -> BoolArray:  # noqa: ARG002
        """Accept buckets of which all groups of both halves hold."""
        bucket, everything = halves.bucket, np.arange(len(halves.cells))
        good = ~find_linked_buckets(self._mixed, halves.cells, bucket, halves.n_buckets)
        for judge, part in self._judges:
            good[self._find_failing(judge, part, halves, everything, bucket)] = False
        return apart & good[0::2] & good[1::2]

    def _sides_hold(self, items: Items, attribute: IntArray, cut: IntArray) -> tuple[BoolArray, Sides]:
        """Return (n,) whether both sides of each bucket are large enough and all their groups hold, and the sides."""
        good, side, place, group, first = part_items(items, attribute, cut, self._smallest, self._smallest_group)
        large = np.flatnonzero(good)
        bucket, cells = np.repeat(large, (items.stops - items.starts)[large]), items.cells[place]
        half = 2 * bucket + side[place]
        linked = find_linked_buckets(self._mixed, cells, half, 2 * items.n_buckets).reshape(-1, 2).any(axis=1)
        if linked.any():
            good &= ~linked | find_linked_buckets(self._mixed, cells, bucket, items.n_buckets)
        for judge, part in self._judges:
            if not good.any():
                break
            if part is self._judges[0][1]:  # whose values the items are ordered by
                holds = _groups_hold(judge, items, place, group, int(first[-1]))
                good[large] &= np.logical_and.reduceat(holds, first[:-1])
            else:
                good[self._find_failing(judge, part, items, place, half) // 2] = False
        return good, side

    def _find_failing(self, judge: Judge, part: Part, items: Items, place: IntArray, owner: IntArray) -> IntArray:
        """Return the owners of items at *place* that have a group which fails."""
        distinct, own = np.unique(owner * part.n_values + part.values[items.cells[place]], return_inverse=True)
        holds = _groups_hold(judge, items, place, own.reshape(-1).astype(np.int32), len(distinct))
        return np.asarray(distinct[~holds] // part.n_values)


def _groups_hold(judge: Judge, items: Items, place: IntArray, group: CodeArray, n_groups: int) -> BoolArray:
    """Return (n_groups,) whether groups of the items at *place* meet a requirement."""
    first, order = counting.group_items(group, n_groups)
    place = place[order]
    return judge.holds(first, judge.requirement.values_at(items.cells[place]), items.records[place])


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
        attempts = np.where(trying, attempts + 1, len(spans) * len(EIGHTHS))
        attempts = np.concatenate([attempts[~apart], np.zeros(2 * int(apart.sum()), dtype=np.int64)])
        items = items.take(~apart).join(halves.take(np.repeat(apart, 2)))


def _propose(
    items: Items, attempts: IntArray, spans: FloatArray, relaxed: bool
) -> tuple[BoolArray, IntArray, IntArray]:
    """Return which buckets are to be tried, in the middle only, (n_items,) the records that go left, and all."""
    bucket = items.bucket
    if not relaxed:
        attribute, cut, eighths, total = strict_cuts(items, attempts, spans)
    else:
        attribute, cut, eighths, below, at, total = propose_cuts(items, attempts, spans)
    own = items.codes[np.arange(len(bucket)), np.maximum(attribute, 0)[bucket]]
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
    return items.select(source[order], edges[:-1], edges[1:])._replace(records=records[order])


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


@kernel
def propose_cuts(
    items: Items, attempts: IntArray, spans: FloatArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return for each bucket the attribute to try next, where to cut it, and how many records are where.

    Attributes are tried from the widest on, relative to *spans*, all of them in the middle first, then at a quarter and
    at an eighth from both ends; -1 where nothing is left to try. The code is that at which so many eighths of the
    records are reached; returned are also these eighths, the records below and at that code, and all records.
    """
    codes, records = items.codes, items.records
    n, d = len(items.starts), codes.shape[1]
    attribute = np.full(n, -1, dtype=np.int64)
    cut = np.zeros(n, dtype=np.int64)
    before = np.zeros(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)
    totals = np.zeros(n, dtype=np.int64)
    eighths = np.zeros(n, dtype=np.int64)
    least = np.empty(d, dtype=np.int64)
    most = np.empty(d, dtype=np.int64)
    widths = np.empty(d, dtype=np.float64)
    tally = np.zeros(0, dtype=np.int64)
    for b in range(n):
        start, stop = items.starts[b], items.stops[b]
        for j in range(d):
            least[j] = most[j] = codes[start, j]
        total = 0
        for item in range(start, stop):
            total += records[item]
            for j in range(d):
                code = codes[item, j]
                if code < least[j]:
                    least[j] = code
                elif code > most[j]:
                    most[j] = code
        totals[b] = total
        n_wide = 0
        for j in range(d):
            widths[j] = (most[j] - least[j]) / spans[j]
            n_wide += most[j] > least[j]
        if attempts[b] >= n_wide * len(EIGHTHS):
            continue
        j = -1
        ahead = -1
        while ahead != attempts[b] % n_wide:  # attributes that are tried before it: wider ones, of equal ones the first
            j += 1
            ahead = 0
            for other in range(d):
                ahead += widths[other] > widths[j] or (widths[other] == widths[j] and other < j)
        eighths[b] = EIGHTHS[attempts[b] // n_wide]
        wanted = total * eighths[b]
        low = least[j]
        reach = most[j] - low + 1
        attribute[b] = j
        if reach <= 8 * (stop - start) + 64:
            if len(tally) < reach:
                tally = np.zeros(2 * reach, dtype=np.int64)
            for item in range(start, stop):
                tally[codes[item, j] - low] += records[item]
            running, place = 0, 0
            while 8 * (running + tally[place]) < wanted:
                running += tally[place]
                place += 1
            cut[b], before[b], at[b] = low + place, running, tally[place]
            tally[:reach] = 0
        else:
            by_code = places_ascending(codes[start:stop, j])
            running, position = 0, 0
            while True:
                here = codes[start + by_code[position], j]
                same = 0
                while position < len(by_code) and codes[start + by_code[position], j] == here:
                    same += records[start + by_code[position]]
                    position += 1
                if 8 * (running + same) >= wanted:
                    break
                running += same
            cut[b], before[b], at[b] = here, running, same
    return attribute, cut, eighths, before, at, totals


@kernel
def part_items(
    items: Items, attribute: IntArray, cut: IntArray, smallest: int, smallest_group: int
) -> tuple[BoolArray, Sides, IntArray, CodeArray, IntArray]:
    """Part the items of buckets at a code of an attribute, and number the groups of both sides.

    A group is one side's items with the same key. Returned are which buckets have large enough sides and groups, the
    side of their items, 0 (left: code <= cut) or 1, these items, their groups, and (n_large + 1,) where each bucket's
    groups begin.
    """
    codes, records, keys, _, starts, stops = items
    side = np.zeros(len(codes), dtype=np.uint8)
    n = len(starts)
    n_items = (stops - starts).sum()
    large = np.zeros(n, dtype=np.bool_)
    places = np.empty(n_items, dtype=np.int64)
    group = np.empty(n_items, dtype=np.int32)
    of_group = np.zeros(n_items + 1, dtype=np.int64)
    first = np.zeros(n + 1, dtype=np.int64)
    sizes = np.empty(2, dtype=np.int64)
    last = np.empty(2, dtype=np.int64)
    current = np.empty(2, dtype=np.int64)
    place, n_large = 0, 0
    for b in range(n):
        begin, number = place, first[n_large]
        last[:] = -1
        sizes[:] = 0
        for item in range(starts[b], stops[b]):
            right = 0 if codes[item, attribute[b]] <= cut[b] else 1
            side[item] = right
            sizes[right] += records[item]
            if keys[item] != last[right]:
                if last[right] >= 0 and of_group[current[right]] < smallest_group:
                    break
                last[right] = keys[item]
                current[right] = number
                of_group[number] = 0
                number += 1
            of_group[current[right]] += records[item]
            places[place] = item
            group[place] = current[right]
            place += 1
        large[b] = sizes.min() >= smallest and of_group[first[n_large] : number].min() >= smallest_group
        if large[b]:
            n_large += 1
            first[n_large] = number
        else:
            place = begin
    return large, side, places[:place], group[:place], first[: n_large + 1]


@kernel
def move_items(items: Items, side: Sides) -> IntArray:
    """Put the left items of each bucket before the right ones, keeping their order; return where the right begin."""
    middles = np.empty(len(items.starts), dtype=np.int64)
    for b in range(len(items.starts)):
        start, stop = items.starts[b], items.stops[b]
        codes, records = items.codes[start:stop].copy(), items.records[start:stop].copy()
        keys, cells, sides = items.keys[start:stop].copy(), items.cells[start:stop].copy(), side[start:stop].copy()
        middles[b] = stop - sides.sum()
        left, right = start, middles[b]
        for item in range(stop - start):
            target = left
            if sides[item] == 0:
                left += 1
            else:
                target = right
                right += 1
            for j in range(codes.shape[1]):
                items.codes[target, j] = codes[item, j]
            items.records[target], items.keys[target] = records[item], keys[item]
            items.cells[target], side[target] = cells[item], sides[item]
    return middles


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

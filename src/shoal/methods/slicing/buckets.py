"""Tuple partitioning by the rule of groups: buckets are cut as long as every group on both sides holds by itself.

What is believed of a tuple is a mixture of the groups that it matches, so that every tuple that the buckets could form
holds, be it in the table or not. After cuts by value each tuple of the table matches one bucket only, and its group is
all that can be believed of it: then the result is that of the paper's algorithm, whose check over all tuples and all
buckets needs to look at groups only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import compiled, places_ascending
from shoal.methods.slicing.beliefs import Beliefs
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, find_linked_buckets, sensitive_part

Sides = NDArray[np.uint8]
EIGHTHS = (4, 2, 6, 1, 7)  # of a bucket's records, where it is tried to be cut


@dataclass(frozen=True, slots=True, eq=False)
class Items:
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

    def copy(self) -> Items:
        """Return the same in arrays of its own, to move items about in."""
        columns = self.codes.copy(), self.records.copy(), self.keys.copy(), self.cells.copy()
        return Items(*columns, starts=self.starts, stops=self.stops)

    @property
    def sizes(self) -> IntArray:
        """(n_buckets,) records."""
        running = np.concatenate([[0], np.cumsum(self.records)])
        return np.asarray(running[self.stops] - running[self.starts])

    def bucket_of_item(self) -> IntArray:
        """Return (n_items,) the bucket of each item."""
        order = np.argsort(self.starts, kind="stable")
        return np.repeat(order, (self.stops - self.starts)[order])

    def pieces(self) -> Pieces:
        """Return the items as pieces."""
        return Pieces(self.cells.astype(np.int64), self.bucket_of_item().astype(np.int32), self.records)

    def take(self, buckets: BoolArray) -> Items:
        """Return some of the buckets, in the order that they have here."""
        lengths = (self.stops - self.starts)[buckets]
        stops = np.cumsum(lengths)
        inside = np.arange(int(lengths.sum())) - np.repeat(stops - lengths, lengths)
        items = np.repeat(self.starts[buckets], lengths) + inside
        columns = self.codes[items], self.records[items], self.keys[items], self.cells[items]
        return Items(*columns, starts=stops - lengths, stops=stops)

    @classmethod
    def join(cls, one: Items, other: Items) -> Items:
        """Return the buckets of both."""
        return cls(
            np.concatenate([one.codes, other.codes]),
            np.concatenate([one.records, other.records]),
            np.concatenate([one.keys, other.keys]),
            np.concatenate([one.cells, other.cells]),
            np.concatenate([one.starts, other.starts + len(one.cells)]),
            np.concatenate([one.stops, other.stops + len(one.cells)]),
        )


def code_spans(items: Items) -> FloatArray:
    """Return (n_cut,) how far apart the outermost leaves of each attribute are, 1 where there is one leaf only."""
    spans = items.codes.max(axis=0) - items.codes.min(axis=0)
    return np.asarray(np.maximum(spans, 1), dtype=np.float64)


def strict_cuts(
    items: Items, starts: IntArray, stops: IntArray, attempts: IntArray, spans: FloatArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return (n,) the attribute to cut next, -1 if there is none, the greatest code of its left side, eighths, records.

    Of the two cuts beside the code at which the wanted eighths are reached the nearer one is taken.
    """
    attribute, cut, eighths, below, at, total = propose_cuts(items.codes, items.records, starts, stops, attempts, spans)
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
        self._mixed = parts if mixed else ()
        self._smallest = smallest

    def cut(self, given: Items) -> Items:
        """Return the items in buckets that go no further."""
        items = given.copy()
        starts, stops, spans = items.starts, items.stops, code_spans(items)
        attempts = np.zeros(len(starts), dtype=np.int64)
        ended_starts, ended_stops = [], []
        while len(starts):
            attribute, cut, _, total = strict_cuts(items, starts, stops, attempts, spans)
            going = (attribute >= 0) & (total >= 2 * self._smallest)
            ended_starts.append(starts[~going])
            ended_stops.append(stops[~going])
            starts, stops, attempts = starts[going], stops[going], attempts[going]
            good, side = self._sides_hold(items, starts, stops, attribute[going], cut[going])
            middles = move_items(items.codes, items.records, items.keys, items.cells, side, starts[good], stops[good])
            starts, stops, attempts = (
                np.concatenate([starts[~good], starts[good], middles]),
                np.concatenate([stops[~good], middles, stops[good]]),
                np.concatenate([attempts[~good] + 1, np.zeros(2 * len(middles), dtype=np.int64)]),
            )
        return replace(items, starts=np.concatenate(ended_starts), stops=np.concatenate(ended_stops))

    def hold(self, items: Items) -> BoolArray:
        """Return (n_buckets,) whether all groups of each bucket hold."""
        bucket = items.bucket_of_item()
        good = ~find_linked_buckets(self._mixed, items.cells, bucket, len(items.starts))
        for judge, part in self._judges:
            key = bucket * part.n_values + part.values[items.cells]
            distinct, own = np.unique(key, return_inverse=True)
            group = own.reshape(-1).astype(np.int32)
            holds = self._hold(judge, items, np.arange(len(group)), group, len(distinct))
            good[distinct[~holds] // part.n_values] = False
        return good

    def _sides_hold(
        self, items: Items, starts: IntArray, stops: IntArray, attribute: IntArray, cut: IntArray
    ) -> tuple[BoolArray, NDArray[np.uint8]]:
        """Return (n,) whether both sides of each bucket are large enough and all their groups hold, and the sides."""
        side, place, group, first, sizes = part_items(
            items.codes, items.records, items.keys, starts, stops, attribute, cut
        )
        good = np.asarray(sizes.min(axis=1, initial=self._smallest) >= self._smallest)
        bucket = np.repeat(np.arange(len(starts)), stops - starts)
        cells = items.cells[place]
        linked = (
            find_linked_buckets(self._mixed, cells, 2 * bucket + side[place], 2 * len(starts))
            .reshape(-1, 2)
            .any(axis=1)
        )
        if linked.any():
            good &= ~linked | find_linked_buckets(self._mixed, cells, bucket, len(starts))
        for judge, part in self._judges:
            if not good.any():
                break
            if part is self._judges[0][1]:  # whose values the items are ordered by
                holds = self._hold(judge, items, place, group, int(first[-1]))
                good &= np.logical_and.reduceat(holds, first[:-1])
            else:
                key = (2 * bucket + side[place]) * part.n_values + part.values[items.cells[place]]
                distinct, own = np.unique(key, return_inverse=True)
                holds = self._hold(judge, items, place, own.reshape(-1).astype(np.int32), len(distinct))
                good[distinct[~holds] // (2 * part.n_values)] = False
        return good, side

    def _hold(self, judge: Judge, items: Items, place: IntArray, group: CodeArray, n_groups: int) -> BoolArray:
        first, order = counting.group_items(group, n_groups)
        place = place[order]
        values, records = judge.requirement.values_at(items.cells[place]), items.records[place]
        model = judge.requirement.model
        blocks = [model.holds(classes, judge.whole) for classes in judge.histograms(first, values, records)]
        return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.bool_)


Accepts = Callable[
    [Items, Items, BoolArray], BoolArray
]  # buckets, their halves, (n_buckets,) which to cut -> which stay


class Rounds:
    """Cuts buckets on, as long as some halves are accepted."""

    def __init__(self, smallest: int, relaxed: bool, accepts: Accepts) -> None:
        self._smallest = smallest
        self._relaxed = relaxed
        self._accepts = accepts

    def cut(self, items: Items) -> Items:
        """Return the items in smaller buckets."""
        attempts, spans = np.zeros(len(items.starts), dtype=np.int64), code_spans(items)
        while True:
            in_middle, left, total = self._propose(items, attempts, spans)
            trying = in_middle & (total >= 2 * self._smallest)
            if not trying.any():
                return items
            halves = self._halves(items, left)
            large = np.minimum(halves.sizes[0::2], halves.sizes[1::2]) >= self._smallest
            apart = self._accepts(items, halves, trying & large)
            items, attempts = _rejoin(items, halves, apart, np.where(trying, attempts + 1, len(spans) * len(EIGHTHS)))

    def _propose(self, items: Items, attempts: IntArray, spans: FloatArray) -> tuple[BoolArray, IntArray, IntArray]:
        """Return which buckets are to be tried, in the middle only, (n_items,) the records that go left, and all."""
        if not self._relaxed:
            attribute, cut, eighths, total = strict_cuts(items, items.starts, items.stops, attempts, spans)
            code, _, limit = _along(items, attribute, cut)
            left = np.where(code <= limit, items.records, 0)
        else:
            attribute, cut, eighths, below, at, total = propose_cuts(
                items.codes, items.records, items.starts, items.stops, attempts, spans
            )
            code, tie, limit = _along(items, attribute, cut)
            wanted = np.maximum(total // 2 - below, 0)
            shared = share_ties(items.records, tie, items.starts, items.stops, wanted, np.maximum(at, 1))
            left = np.where(code < limit, items.records, shared)
        tried = (attribute >= 0) & (eighths == EIGHTHS[0])
        return tried, np.where(tried[items.bucket_of_item()], left, items.records), total

    def _halves(self, items: Items, left: IntArray) -> Items:
        """Return items with two buckets for each: 2 b is the left half of b, 2 b + 1 the right one."""
        bucket = items.bucket_of_item()
        source = np.concatenate([np.flatnonzero(left > 0), np.flatnonzero(items.records > left)])
        records = np.concatenate([left[left > 0], (items.records - left)[items.records > left]])
        half = 2 * bucket[source]
        half[int((left > 0).sum()) :] += 1
        order = np.lexsort((source, half))
        source, half = source[order], half[order]
        edges = np.searchsorted(half, np.arange(2 * len(items.starts) + 1))
        return Items(
            codes=np.ascontiguousarray(items.codes[source]),
            records=records[order],
            keys=items.keys[source],
            cells=items.cells[source],
            starts=edges[:-1].astype(np.int64),
            stops=edges[1:].astype(np.int64),
        )


def by_groups(cutter: Cutter) -> Accepts:
    """Accept buckets of which all groups of both halves hold."""

    def accepts(items: Items, halves: Items, apart: BoolArray) -> BoolArray:  # noqa: ARG001
        holds = cutter.hold(halves)
        return apart & holds[0::2] & holds[1::2]

    return accepts


def by_beliefs(problem: Problem, parts: Sequence[Part]) -> Accepts:
    """Accept buckets such that all tuples of the table hold.

    Tuples that match a changed bucket are judged anew, and changed buckets that a failing tuple matches are put
    together again, until no tuple fails.
    """

    def accepts(items: Items, halves: Items, apart: BoolArray) -> BoolArray:
        before = Beliefs(problem, parts, items.pieces(), len(items.starts))
        affected = before.touching(apart)
        while apart.any():
            failing = np.flatnonzero(Beliefs(problem, parts, *_merge(halves, apart)).failing(affected))
            if not len(failing):
                return apart
            blamed = before.matching(failing, apart)
            apart = apart & ~blamed if blamed.any() else np.zeros_like(apart)
        return apart

    return accepts


def _along(items: Items, attribute: IntArray, code: IntArray) -> tuple[IntArray, BoolArray, IntArray]:
    """Return (n_items,) each item's code in its bucket's attribute, whether that is the bucket's code, and that."""
    bucket = items.bucket_of_item()
    own = items.codes[np.arange(len(bucket)), np.maximum(attribute, 0)[bucket]].astype(np.int64)
    return own, own == code[bucket], code[bucket]


def _merge(halves: Items, apart: BoolArray) -> tuple[Pieces, int]:
    """Return pieces with the halves of buckets that are not *apart* in one bucket, and the number of buckets."""
    width = np.where(apart, 2, 1)
    first = np.concatenate([[0], np.cumsum(width)])
    half = halves.bucket_of_item()
    bucket = (first[half // 2] + np.where(apart[half // 2], half % 2, 0)).astype(np.int32)
    return Pieces(halves.cells.astype(np.int64), bucket, halves.records), int(first[-1])


def _rejoin(items: Items, halves: Items, apart: BoolArray, attempts: IntArray) -> tuple[Items, IntArray]:
    """Return items with the buckets that stay cut as two, which start anew, and the others as they were."""
    old = items.take(~apart)
    new = halves.take(np.repeat(apart, 2))
    return Items.join(old, new), np.concatenate([attempts[~apart], np.zeros(len(new.starts), dtype=np.int64)])


@compiled
def propose_cuts(
    codes: CodeArray, records: IntArray, starts: IntArray, stops: IntArray, attempts: IntArray, spans: FloatArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return for each bucket the attribute to try next, where to cut it, and how many records are where.

    Attributes are tried from the widest on, relative to *spans*, all of them in the middle first, then at a quarter and
    at an eighth from both ends; -1 where nothing is left to try. The code is that at which so many eighths of the
    records are reached; returned are also these eighths, the records below and at that code, and all records.
    """
    n, d = len(starts), codes.shape[1]
    attribute = np.full(n, -1, dtype=np.int64)
    cut = np.zeros(n, dtype=np.int64)
    before = np.zeros(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)
    totals = np.zeros(n, dtype=np.int64)
    eighths = np.zeros(n, dtype=np.int64)
    least = np.empty(d, dtype=np.int64)
    most = np.empty(d, dtype=np.int64)
    tally = np.zeros(0, dtype=np.int64)
    for b in range(n):
        start, stop = starts[b], stops[b]
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
        widths = np.empty(d, dtype=np.float64)
        for j in range(d):
            widths[j] = -(most[j] - least[j]) / spans[j]
        order = places_ascending(widths)
        n_wide = 0
        while n_wide < d and widths[order[n_wide]] < 0.0:
            n_wide += 1
        if attempts[b] >= n_wide * len(EIGHTHS):
            continue
        j = order[attempts[b] % n_wide]
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


@compiled
def part_items(
    codes: CodeArray,
    records: IntArray,
    keys: CodeArray,
    starts: IntArray,
    stops: IntArray,
    attribute: IntArray,
    cut: IntArray,
) -> tuple[Sides, IntArray, CodeArray, IntArray, IntArray]:
    """Part the items of buckets at a code of an attribute, and number the groups of both sides.

    *keys* ascend within a bucket; a group is one side's items with the same key. Returned are the side of every item, 0
    (left: code <= cut, or in none of the buckets) or 1, the items of the buckets, their groups, (n + 1,) where each
    bucket's groups begin, and (n, 2) the records of both sides.
    """
    side = np.zeros(len(codes), dtype=np.uint8)
    n = len(starts)
    n_items = 0
    for b in range(n):
        n_items += stops[b] - starts[b]
    items = np.empty(n_items, dtype=np.int64)
    group = np.empty(n_items, dtype=np.int32)
    first = np.zeros(n + 1, dtype=np.int64)
    sizes = np.zeros((n, 2), dtype=np.int64)
    current = np.empty(2, dtype=np.int64)
    place, number = 0, 0
    for b in range(n):
        current[0] = current[1] = -1
        first[b] = number
        last = np.full(2, -1, dtype=np.int64)
        for item in range(starts[b], stops[b]):
            right = 0 if codes[item, attribute[b]] <= cut[b] else 1
            side[item] = right
            sizes[b, right] += records[item]
            if keys[item] != last[right]:
                last[right] = keys[item]
                current[right] = number
                number += 1
            items[place] = item
            group[place] = current[right]
            place += 1
    first[n] = number
    return side, items, group, first, sizes


@compiled
def move_items(
    codes: CodeArray,
    records: IntArray,
    keys: CodeArray,
    cells: CodeArray,
    side: Sides,
    starts: IntArray,
    stops: IntArray,
) -> IntArray:
    """Put the left items of each bucket before the right ones, keeping their order; return where the right begin."""
    d = codes.shape[1]
    middles = np.empty(len(starts), dtype=np.int64)
    for b in range(len(starts)):
        start, stop = starts[b], stops[b]
        kept_codes, kept_records = codes[start:stop].copy(), records[start:stop].copy()
        kept_keys, kept_cells, kept_side = keys[start:stop].copy(), cells[start:stop].copy(), side[start:stop].copy()
        left = start
        for item in range(stop - start):
            if kept_side[item] == 0:
                left += 1
        middles[b] = left
        right, left = left, start
        for item in range(stop - start):
            target = left
            if kept_side[item] == 0:
                left += 1
            else:
                target = right
                right += 1
            for j in range(d):
                codes[target, j] = kept_codes[item, j]
            records[target], keys[target] = kept_records[item], kept_keys[item]
            cells[target], side[target] = kept_cells[item], kept_side[item]
    return middles


@compiled
def share_ties(
    records: IntArray, tie: BoolArray, starts: IntArray, stops: IntArray, wanted: IntArray, at: IntArray
) -> IntArray:
    """Return the records of tied items that go to the left: *wanted* of *at* in each bucket, evenly along the items."""
    left = np.zeros(len(records), dtype=np.int64)
    for b in range(len(starts)):
        seen, given = 0, 0
        for item in range(starts[b], stops[b]):
            if tie[item]:
                seen += records[item]
                due = seen * wanted[b] // at[b]
                left[item] = due - given
                given = due
    return left

"""Tuple partitioning: buckets are cut while the requirements hold on both sides.

All cuts are by attributes of one part. Unless that part is generalized, each tuple of the table matches one bucket, and
an adversary's belief about it is the distribution in its group. So the paper's check of all tuples against all buckets
becomes a check of groups. If every group holds, mixtures of groups hold too, even for tuples that the table lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, places_ascending
from shoal.methods.slicing.beliefs import Beliefs
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, find_linked_buckets, sensitive_part

EIGHTHS = (4, 2, 6, 1, 7)  # of a bucket's records: the positions of cuts, in the order of trials


class Items(NamedTuple):
    """Pieces of cells in the order of their buckets: bucket b has the items ``starts[b]:stops[b]``."""

    codes: CodeArray  # (n_cut, n_items) leaves of the attributes of cuts
    records: IntArray  # (n_items,)
    keys: CodeArray  # (n_items,) quasi values of the sensitive part, ascending within a bucket
    cells: CodeArray  # (n_items,)
    starts: IntArray  # (n_buckets,)
    stops: IntArray  # (n_buckets,)

    @classmethod
    def of_one_bucket(cls, problem: Problem, cells: IntArray, keys: CodeArray, places: Sequence[int]) -> Items:
        """Put whole cells into one bucket, to be cut by the quasi-identifiers at *places*."""
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
        return len(self.starts)

    @property
    def spans(self) -> FloatArray:
        """(n_cut,) the distance between the outermost leaves of each attribute, at least 1."""
        spans = self.codes.max(axis=1) - self.codes.min(axis=1)
        return np.asarray(np.maximum(spans, 1), dtype=np.float64)

    def pieces(self) -> Pieces:
        bucket = np.repeat(np.arange(self.n_buckets, dtype=np.int32), self.stops - self.starts)
        return Pieces(self.cells.astype(np.int64), bucket, self.records)


class Cutter:
    """Cuts buckets in two at the middle of their widest attribute, or at the next position where both sides hold.

    If several parts have the sensitive attribute, a group alone does not determine an adversary's belief, and the
    cutter judges the tuples of both sides instead.
    """

    def __init__(self, problem: Problem, parts: Sequence[Part], published: IntArray, smallest: int) -> None:
        self._problem, self._parts, self._published, self._smallest = problem, parts, published, smallest
        self._judges = [
            (Judge.of(requirement, published), sensitive_part(problem, parts, requirement))
            for requirement in problem.requirements
            if requirement.values is not None
        ]
        same_part = [judge.requirement.model for judge, part in self._judges if part is self._judges[0][1]]
        self._smallest_group = max((model.smallest_class for model in same_part), default=0)
        wanted = [problem.sensitive_places(judge.requirement) for judge, _ in self._judges]
        self._joins = any(sum(places <= set(part.sensitive) for part in parts) > 1 for places in wanted)

    def cut(self, places: Sequence[int]) -> Items:
        """Cut all published records by the quasi-identifiers at *places* as far as possible."""
        n_cells = len(self._published)
        keys = self._judges[0][1].values if self._judges else np.zeros(n_cells, dtype=np.int32)
        items = Items.of_one_bucket(self._problem, np.flatnonzero(self._published), keys, places)
        spans, attempts = items.spans, np.zeros(items.n_buckets, dtype=np.int64)
        ended = []
        while items.n_buckets:
            starts, stops = items.starts, items.stops
            attempts, good, middles = self._cut_once(items, attempts, spans)
            over, again = attempts < 0, (attempts >= 0) & ~good
            ended.append(np.stack([starts[over], stops[over]]))
            items = items._replace(
                starts=np.concatenate([starts[again], starts[good], middles[good]]),
                stops=np.concatenate([stops[again], middles[good], stops[good]]),
            )
            attempts = np.concatenate([attempts[again] + 1, np.zeros(2 * int(good.sum()), dtype=np.int64)])
        starts, stops = np.sort(np.concatenate(ended, axis=1))  # buckets do not overlap
        return items._replace(starts=starts, stops=stops)

    def _cut_once(self, items: Items, attempts: IntArray, spans: FloatArray) -> tuple[IntArray, BoolArray, IntArray]:
        """Cut buckets if both sides hold; return the attempts, whether each is good, and where right sides begin."""
        tried, middles, place, group, first = find_cuts(items, attempts, spans, self._smallest, self._smallest_group)
        good, which = tried >= 0, np.flatnonzero(tried >= 0)
        lengths = np.stack([middles - items.starts, items.stops - middles], axis=1)[which]
        half = np.repeat((2 * which[:, np.newaxis] + (0, 1)).ravel(), lengths.ravel())
        cells = items.cells[place]
        good &= ~self.find_linked(cells, half, items.n_buckets)
        for judge, part in self._judges:
            if not good.any():
                break
            if self._joins:
                good[self._find_exposed(items, place, half) // 2] = False
                break
            if part is self._judges[0][1]:  # the items are sorted by its values
                holds = judge.holds(group, judge.requirement.values_at(cells), items.records[place])
                good[which] &= np.logical_and.reduceat(holds, first[:-1])
            else:
                good[self._find_failing(judge, part, items, place, half) // 2] = False
        move_items(items, which, good, place)
        return tried, good, middles

    def find_linked(self, cells: CodeArray, half: IntArray, n_buckets: int) -> BoolArray:
        """Return (n_buckets,) which buckets a cut would newly split into a half that links its parts.

        In such a half only one part has several quasi values, so readers can join the parts of every record.
        """
        halves = find_linked_buckets(self._parts, cells, half, 2 * n_buckets)
        linked = halves[0::2] | halves[1::2]
        return linked & ~find_linked_buckets(self._parts, cells, half // 2, n_buckets) if linked.any() else linked

    def _find_exposed(self, items: Items, place: IntArray, half: IntArray) -> IntArray:
        """Return the halves with a tuple that does not provably satisfy the requirements."""
        halves, bucket = np.unique(half, return_inverse=True)
        pieces = Pieces(items.cells[place].astype(np.int64), bucket.astype(np.int32), items.records[place])
        beliefs = Beliefs(self._problem, self._parts, pieces, len(halves), published=self._published)
        return halves[pieces.bucket[beliefs.failing()[beliefs.tuple_of]]]

    def _find_failing(self, judge: Judge, part: Part, items: Items, place: IntArray, owner: IntArray) -> IntArray:
        """Return the owners of items at *place* that have a failing group."""
        distinct, own = np.unique(owner * part.n_values + part.values[items.cells[place]], return_inverse=True)
        first, order = counting.group_items(own.reshape(-1).astype(np.int32), len(distinct))
        place = place[order]
        holds = judge.holds(first, judge.requirement.values_at(items.cells[place]), items.records[place])
        return np.asarray(distinct[~holds] // part.n_values)


def group_at_random(counts: IntArray, size: int, rng: np.random.Generator) -> Pieces:
    """Assign all records at random to as many buckets of at least *size* as possible, equal up to one record.

    Li, Li, Zhang and Molloy, section 6.3.

    >>> pieces = group_at_random(np.array([3, 4]), 3, np.random.default_rng(0))
    >>> np.bincount(pieces.bucket, weights=pieces.records).tolist(), int(pieces.records[pieces.cell == 0].sum())
    ([4.0, 3.0], 3)
    """
    cell = np.repeat(np.arange(len(counts)), counts)
    bucket = np.sort(np.arange(len(cell), dtype=np.int32) % max(len(cell) // size, 1))
    return join_pieces(rng.permutation(cell), bucket, np.ones_like(cell))


def merge_groups(pieces: Pieces, keys: CodeArray, failing: BoolArray, rng: np.random.Generator) -> Pieces:
    """Return the pieces with every failing group in the bucket of another group with its key, if there is one.

    A group is the records of one bucket with one key; it fails if one of its pieces does. Failing groups join each
    other in random pairs; an unpaired one joins a group that holds.

    >>> pieces = Pieces(np.arange(4), np.array([0, 1, 2, 2], dtype=np.int32), np.ones(4, dtype=np.int64))
    >>> keys, failing = np.array([5, 5, 5, 7], dtype=np.int32), np.array([True, False, False, False])
    >>> merge_groups(pieces, keys, failing, np.random.default_rng(0)).bucket.tolist() in ([1, 1, 2, 2], [2, 1, 2, 2])
    True
    """
    n_buckets = int(pieces.bucket.max()) + 1
    pairs, group = np.unique(keys.astype(np.int64) * n_buckets + pieces.bucket, return_inverse=True)
    key, bucket = np.divmod(pairs, n_buckets)
    fails = np.zeros(len(pairs), dtype=np.bool_)
    group = group.reshape(-1)
    fails[group[failing]] = True
    order = np.lexsort((rng.random(len(pairs)), ~fails, key))
    rank = np.arange(len(order)) - np.searchsorted(key[order], key[order])
    joins = np.flatnonzero(fails[order[:-1]] & (rank[:-1] % 2 == 0) & (np.diff(key[order]) == 0))
    bucket[order[joins]] = bucket[order[joins + 1]]
    return Pieces(pieces.cell, bucket[group].astype(np.int32), pieces.records)


def join_pieces(cell: IntArray, bucket: CodeArray, records: IntArray) -> Pieces:
    """Add up the records of a cell in one bucket, and number the buckets without gaps."""
    occurring, number = np.unique(bucket, return_inverse=True)
    pair, place = np.unique(cell * len(occurring) + number.reshape(-1), return_inverse=True)
    where, which = np.divmod(pair, len(occurring))
    total = np.bincount(place.reshape(-1), weights=records).astype(np.int64)
    return Pieces(where, which.astype(np.int32), total)


class Extents(NamedTuple):
    """The measures of one bucket that determine its cuts; all buckets reuse the arrays."""

    least: IntArray  # (n_cut,) codes
    most: IntArray  # (n_cut,)
    spans: FloatArray  # (n_cut,) of the whole table
    tally: IntArray  # (n_codes,) zero between cuts


@inline_kernel
def _measure_bucket(items: Items, b: int, extents: Extents) -> int:
    """Fill in the minimum and maximum codes of a bucket, and return its number of records."""
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
    """Return the attribute and the eighths of the next attempt to cut a bucket; -1 if none is left."""
    least, most, spans, _ = extents
    n_wide = 0
    for j in range(len(spans)):
        n_wide += most[j] > least[j]
    if attempt >= n_wide * len(EIGHTHS):
        return -1, 0
    for j in range(len(spans)):
        ahead, width = 0, (most[j] - least[j]) / spans[j]  # wider attributes come before, ties by position
        for other in range(len(spans)):
            wide = (most[other] - least[other]) / spans[other]
            ahead += wide > width or (wide == width and other < j)
        if ahead == attempt % n_wide:
            break
    return j, EIGHTHS[attempt // n_wide]


@kernel
def _find_code(codes: CodeArray, records: IntArray, wanted: int, j: int, extents: Extents) -> tuple[int, int, int]:
    """Return the code at which *wanted* eighths of records are reached, and the records below and at it."""
    running, position, low = 0, 0, extents.least[j]
    tally = extents.tally[: extents.most[j] - low + 1]
    if len(tally) <= 8 * len(codes) + 64:  # otherwise codes are sparse, and sorting is faster
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


@kernel
def find_cuts(
    items: Items, attempts: IntArray, spans: FloatArray, smallest: int, smallest_group: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Find the next cut of each bucket whose sides and groups are large enough; groups share one side and one key.

    Return (n_buckets,) the attempt, or -1; (n_buckets,) where the right side will begin; (n_moved,) the items of
    buckets with a cut, sorted by side, then key; where their groups begin; and (n_found + 1,) where each bucket's
    groups begin.
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
            wanted = total * eighths
            cut, left, at = _find_code(codes[j, bucket], records[bucket], wanted, j, extents)
            if left > 0 and (left + at == total or wanted - 8 * left < 8 * (left + at) - wanted):
                cut -= 1  # the cut before the code is nearer, or the only one
            else:
                left += at
            if min(left, total - left) < smallest:
                continue
            # the left side, then the right one; stop at a group that is too small
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
    """Put the items of good buckets into the order of *place*, which has the items of the buckets *which* in turn."""
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

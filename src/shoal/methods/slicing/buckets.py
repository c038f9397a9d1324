"""Tuple partitioning by the rule of groups: buckets are cut as long as every group on both sides holds by itself.

What is believed of a tuple is a mixture of the groups that it matches, so that every tuple that the buckets could form
holds, be it in the table or not. After cuts by value each tuple of the table matches one bucket only, and its group is
all that can be believed of it: then the result is that of the paper's algorithm, whose check over all tuples and all
buckets needs to look at groups only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.methods.slicing import kernels
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, linked_buckets, sensitive_part


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

    def copied(self) -> Items:
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

    def taken(self, buckets: BoolArray) -> Items:
        """Return some of the buckets, in the order that they have here."""
        lengths = (self.stops - self.starts)[buckets]
        stops = np.cumsum(lengths)
        inside = np.arange(int(lengths.sum())) - np.repeat(stops - lengths, lengths)
        items = np.repeat(self.starts[buckets], lengths) + inside
        columns = self.codes[items], self.records[items], self.keys[items], self.cells[items]
        return Items(*columns, starts=stops - lengths, stops=stops)

    @classmethod
    def joined(cls, one: Items, other: Items) -> Items:
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
    attribute, cut, eighths, below, at, total = kernels.proposed(
        items.codes, items.records, starts, stops, attempts, spans
    )
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
        items = given.copied()
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
            middles = kernels.moved(
                items.codes, items.records, items.keys, items.cells, side, starts[good], stops[good]
            )
            starts, stops, attempts = (
                np.concatenate([starts[~good], starts[good], middles]),
                np.concatenate([stops[~good], middles, stops[good]]),
                np.concatenate([attempts[~good] + 1, np.zeros(2 * len(middles), dtype=np.int64)]),
            )
        return replace(items, starts=np.concatenate(ended_starts), stops=np.concatenate(ended_stops))

    def hold(self, items: Items) -> BoolArray:
        """Return (n_buckets,) whether all groups of each bucket hold."""
        bucket = items.bucket_of_item()
        good = ~linked_buckets(self._mixed, items.cells, bucket, len(items.starts))
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
        side, place, group, first, sizes = kernels.parted(
            items.codes, items.records, items.keys, starts, stops, attribute, cut
        )
        good = np.asarray(sizes.min(axis=1, initial=self._smallest) >= self._smallest)
        bucket = np.repeat(np.arange(len(starts)), stops - starts)
        cells = items.cells[place]
        linked = (
            linked_buckets(self._mixed, cells, 2 * bucket + side[place], 2 * len(starts)).reshape(-1, 2).any(axis=1)
        )
        if linked.any():
            good &= ~linked | linked_buckets(self._mixed, cells, bucket, len(starts))
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
        first, order = counting.grouped(group, n_groups)
        place = place[order]
        values, records = judge.requirement.values_at(items.cells[place]), items.records[place]
        model = judge.requirement.model
        blocks = [model.holds(classes, judge.whole) for classes in judge.histograms(first, values, records)]
        return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.bool_)

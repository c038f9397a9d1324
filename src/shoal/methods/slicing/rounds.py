"""Cuts in rounds: all buckets are halved together, and those halves stay apart that are accepted.

For cuts that divide the records of one cell (relaxed), and for buckets that cannot be judged one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.methods.slicing import kernels
from shoal.methods.slicing.beliefs.judging import Beliefs
from shoal.methods.slicing.buckets import Cutter, Items, code_spans, strict_cuts
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces

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
            in_middle, left, total = self._proposed(items, attempts, spans)
            trying = in_middle & (total >= 2 * self._smallest)
            if not trying.any():
                return items
            halves = self._halves(items, left)
            large = np.minimum(halves.sizes[0::2], halves.sizes[1::2]) >= self._smallest
            apart = self._accepts(items, halves, trying & large)
            items, attempts = _rejoined(
                items, halves, apart, np.where(trying, attempts + 1, len(spans) * len(kernels.EIGHTHS))
            )

    def _proposed(self, items: Items, attempts: IntArray, spans: FloatArray) -> tuple[BoolArray, IntArray, IntArray]:
        """Return which buckets are to be tried, in the middle only, (n_items,) the records that go left, and all."""
        if not self._relaxed:
            attribute, cut, eighths, total = strict_cuts(items, items.starts, items.stops, attempts, spans)
            code, _, limit = _along(items, attribute, cut)
            left = np.where(code <= limit, items.records, 0)
        else:
            attribute, cut, eighths, below, at, total = kernels.proposed(
                items.codes, items.records, items.starts, items.stops, attempts, spans
            )
            code, tie, limit = _along(items, attribute, cut)
            wanted = np.maximum(total // 2 - below, 0)
            shared = kernels.shared_out(items.records, tie, items.starts, items.stops, wanted, np.maximum(at, 1))
            left = np.where(code < limit, items.records, shared)
        tried = (attribute >= 0) & (eighths == kernels.EIGHTHS[0])
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
            failing = np.flatnonzero(Beliefs(problem, parts, *_merged(halves, apart)).failing(affected))
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


def _merged(halves: Items, apart: BoolArray) -> tuple[Pieces, int]:
    """Return pieces with the halves of buckets that are not *apart* in one bucket, and the number of buckets."""
    width = np.where(apart, 2, 1)
    first = np.concatenate([[0], np.cumsum(width)])
    half = halves.bucket_of_item()
    bucket = (first[half // 2] + np.where(apart[half // 2], half % 2, 0)).astype(np.int32)
    return Pieces(halves.cells.astype(np.int64), bucket, halves.records), int(first[-1])


def _rejoined(items: Items, halves: Items, apart: BoolArray, attempts: IntArray) -> tuple[Items, IntArray]:
    """Return items with the buckets that stay cut as two, which start anew, and the others as they were."""
    old = items.taken(~apart)
    new = halves.taken(np.repeat(apart, 2))
    return Items.joined(old, new), np.concatenate([attempts[~apart], np.zeros(len(new.starts), dtype=np.int64)])

"""Tuple partitioning by beliefs: cuts may leave a tuple several matching buckets, and the mixture of all is judged.

All cuts of a round are made together; tuples that match a changed bucket are judged anew, and changed buckets that a
failing tuple matches are put together again, until no tuple fails. So every state that is kept has been judged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.arrays import BoolArray, FloatArray, IntArray
from shoal.beliefs import Beliefs
from shoal.methods.slicing import kernels
from shoal.methods.slicing.buckets import Items, code_spans, strict_cuts
from shoal.problem import Problem
from shoal.slices import Part, Pieces


class Mixer:
    """Cuts buckets on, as long as the beliefs about all tuples hold."""

    def __init__(self, problem: Problem, parts: Sequence[Part], smallest: int, relaxed: bool) -> None:
        self._problem = problem
        self._parts = parts
        self._smallest = smallest
        self._relaxed = relaxed

    def cut(self, items: Items) -> Items:
        """Return the items in smaller buckets; their beliefs hold if those of the given ones do."""
        attempts, spans = np.zeros(len(items.starts), dtype=np.int64), code_spans(items)
        while True:
            in_middle, left, total = self._proposed(items, attempts, spans)
            trying = in_middle & (total >= 2 * self._smallest)
            if not trying.any():
                return items
            halves = self._halves(items, left)
            large = np.minimum(halves.sizes[0::2], halves.sizes[1::2]) >= self._smallest
            apart = self._kept_apart(items, halves, trying & large)
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

    def _kept_apart(self, items: Items, halves: Items, apart: BoolArray) -> BoolArray:
        """Return (n_buckets,) which buckets of *apart* can stay cut; others are matched by tuples that fail then."""
        before = self._beliefs(items.pieces(), len(items.starts))
        affected = before.touching(apart)
        while apart.any():
            failing = np.flatnonzero(self._beliefs(*_merged(halves, apart)).failing(affected))
            if not len(failing):
                return apart
            blamed = before.matching(failing, apart)
            apart = apart & ~blamed if blamed.any() else np.zeros_like(apart)
        return apart

    def _beliefs(self, pieces: Pieces, n_buckets: int) -> Beliefs:
        return Beliefs(self._problem, self._parts, pieces, n_buckets)


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

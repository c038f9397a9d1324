"""Truth without a witness: how many published rows find a source row of their own in the best of all matchings.

A published row may stand for the source rows that have its exact content and lie under its labels. Equal rows of either
table are one node with a capacity, and SciPy finds the largest flow. That is for tables of a moderate size only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel
from shoal.verify.boxes import Ragged, Spans, in_ranges
from shoal.verify.covers import Covers
from shoal.verify.numbering import number_rows

MOST_ROWS = 1 << 16  # of each table
MOST_PAIRS = 1 << 22  # of a published row and a source row that it may stand for, equal ones counted once
_MOST_TRIES = 1 << 31  # pairs of equal content that are looked at


class TooLargeError(Exception):
    """The tables are too large to be matched; the message says what is too much."""


def count_unmatched(
    covers: Sequence[Covers], labels: CodeArray, contents: KeyArray, points: CodeArray, held: KeyArray
) -> int:
    """Return how many published rows find no source row of their own, or raise TooLargeError.

    Published rows have (n_rows, n_covers) *labels* and *contents*, source rows (n_source_rows, n_covers) codes as
    *points*, and contents that they *held*.
    """
    boxes, wanted, demand = _distinct(contents, labels)
    cells, offered, supply = _distinct(held, points)
    first, after = np.searchsorted(offered, wanted), np.searchsorted(offered, wanted, side="right")
    if int((after - first).sum()) > _MOST_TRIES:
        raise TooLargeError("too many rows have the same content")
    if covers:
        box, cell = _pairs(Spans.of(covers, boxes).ragged, cells, first, after)
    else:  # one distinct row at most has a content
        box = np.flatnonzero(after > first)
        cell = first[box]
    if len(box) > MOST_PAIRS:
        raise TooLargeError(f"there are more than {MOST_PAIRS:,} pairs of rows that may belong together")
    return int(demand.sum()) - _largest_flow(box, cell, demand, supply)


def count_unmatched_labels(cover: Covers, demand: IntArray, supply: IntArray) -> int:
    """Return how many rows under labels of one attribute find no value of their own, or raise TooLargeError.

    Labels are wanted as often as *demand* says, the last being that of other texts; codes occur as *supply* says.
    """
    owner = np.repeat(np.arange(len(cover.labels)), np.diff(cover.start))
    widths = (cover.high - cover.low).astype(np.int64)
    if int(widths.sum()) > MOST_PAIRS:
        raise TooLargeError("labels cover too many values")
    label, first = np.repeat(owner, widths), np.repeat(cover.low - np.cumsum(widths) + widths, widths)
    code = first + np.arange(len(first))
    some = (demand[label] > 0) & (supply[code] > 0)
    return int(demand.sum()) - _largest_flow(label[some], code[some], demand, supply)


def find_unmet(wanted: KeyArray, demand: IntArray, held: KeyArray, supply: IntArray) -> IntArray:
    """Return (n_wanted,) the demand that supplies of the same key do not meet; both keys ascend.

    >>> keys, more = np.array([3, 5], dtype=np.uint64), np.array([5, 9], dtype=np.uint64)
    >>> find_unmet(keys, np.array([1, 4]), more, np.array([3, 1])).tolist()
    [1, 1]
    """
    _, own, theirs = np.intersect1d(wanted, held, assume_unique=True, return_indices=True)
    unmet = demand.copy()
    unmet[own] = np.maximum(0, demand[own] - supply[theirs])
    return unmet


def _distinct(contents: KeyArray, codes: CodeArray) -> tuple[CodeArray, KeyArray, IntArray]:
    """Return the distinct rows by ascending content, their contents, and how often each occurs."""
    distinct, numbers = number_rows(np.stack([contents.view(np.int64), *codes.T.astype(np.int64)]))
    held = distinct[0].view(np.uint64)
    order = np.argsort(held, kind="stable")
    return np.ascontiguousarray(distinct[1:, order].T, dtype=np.int32), held[order], np.bincount(numbers)[order]


@kernel
def _pairs(ragged: Ragged, points: CodeArray, first: IntArray, after: IntArray) -> tuple[IntArray, IntArray]:
    """Return the boxes and the points, from the first of a box on to before the last, that they cover."""
    boxes, cells = [0], [0]
    for box in range(first.shape[0]):
        for cell in range(first[box], after[box]):
            if in_ranges(ragged, points, cell, box):
                boxes.append(box)
                cells.append(cell)
        if len(boxes) > MOST_PAIRS + 1:
            break
    return np.array(boxes[1:]), np.array(cells[1:])


def _largest_flow(box: IntArray, cell: IntArray, demand: IntArray, supply: IntArray) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    n_boxes, n_cells = len(demand), len(supply)
    end = n_boxes + n_cells + 1
    if not len(box):
        return 0
    # nodes: 0 where all rows come from, then boxes, then cells, then where they go
    heads = np.concatenate([np.zeros(n_boxes, dtype=np.int64), 1 + box, 1 + n_boxes + np.arange(n_cells)])
    tails = np.concatenate([1 + np.arange(n_boxes), 1 + n_boxes + cell, np.full(n_cells, end)])
    most = np.concatenate([demand, np.minimum(demand[box], supply[cell]), supply]).astype(np.int32)
    graph = csr_array((most, (heads, tails)), shape=(end + 1, end + 1))
    return int(maximum_flow(graph, 0, end).flow_value)

"""Tables in groups of equal rows, every value a range of leaves: the original and the published alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel, same_rows
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem

MOST_BINS = 64
_DENSE = 1 << 22
_AT_ONCE = 1 << 16  # rows


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute: row i has the leaf range ``lo[item[i]]:hi[item[i]]``.

    Its records lie in the range in proportion to the weight of leaves; ``below[v]`` is the weight of those before v.
    """

    item: CodeArray  # (n_rows,)
    lo: CodeArray  # (n_ranges,)
    hi: CodeArray  # (n_ranges,)
    below: FloatArray  # (n_leaves + 1,)

    @classmethod
    def of_leaves(cls, codes: AnyIntArray, n_leaves: int) -> Column:
        """Every row has a leaf."""
        leaves = np.arange(n_leaves + 1, dtype=np.int32)
        return cls(codes.astype(np.int32), leaves[:-1], leaves[1:], leaves.astype(np.float64))

    @classmethod
    def of_ranges(cls, lo: CodeArray, hi: CodeArray, below: FloatArray) -> Column:
        """Every row has a range; equal ones are listed once.

        >>> column = Column.of_ranges(np.array([0, 2, 0]), np.array([2, 3, 2]), np.arange(4.0))
        >>> column.item.tolist(), column.lo.tolist(), column.hi.tolist()
        ([0, 1, 0], [0, 2], [2, 3])
        """
        distinct, item = np.unique(lo.astype(np.int64) * len(below) + hi, return_inverse=True)
        return cls(
            item.reshape(-1).astype(np.int32),
            (distinct // len(below)).astype(np.int32),
            (distinct % len(below)).astype(np.int32),
            below,
        )

    def take(self, rows: AnyIntArray) -> Column:
        """Return the column of these rows."""
        return Column(self.item[rows], self.lo, self.hi, self.below)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the attribute."""
        return len(self.below) - 1

    def within(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return (n_queries, n_ranges) the share of each range's records in the leaves ``starts:stops``.

        >>> column = Column.of_ranges(np.array([0, 2]), np.array([2, 3]), np.arange(4.0))
        >>> column.within(np.array([0, 1]), np.array([1, 3]))
        array([[0.5, 0. ],
               [0.5, 1. ]])
        """
        begin, end = (self.below[np.clip(ends[:, np.newaxis], self.lo, self.hi)] for ends in (starts, stops))
        return np.asarray((end - begin) / (self.below[self.hi] - self.below[self.lo]))

    def shares(self) -> FloatArray:
        """Return (n_ranges, n_bins) the share of each range's records in each bin.

        >>> Column.of_ranges(np.array([0, 2]), np.array([2, 3]), np.arange(4.0)).shares()
        array([[0.5, 0.5, 0. ],
               [0. , 0. , 1. ]])
        """
        edges = bin_edges(self.n_leaves)
        return np.ascontiguousarray(self.within(edges[:-1], edges[1:]).T)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Groups of equal rows: quasi attributes, then sensitive ones, and how many records have them."""

    columns: tuple[Column, ...]
    records: FloatArray  # (n_rows,)

    def project(self, places: Sequence[int]) -> Rows:
        """Return the table of these attributes alone, equal rows put together and in order."""
        columns = [self.columns[place] for place in places]
        shape = tuple(len(column.lo) for column in columns)
        if math.prod(shape) <= _DENSE:
            key = np.ravel_multi_index(tuple(column.item for column in columns), shape)
            dense = np.bincount(key, weights=self.records, minlength=math.prod(shape))
            there = np.flatnonzero(dense)
            items = (place.astype(np.int32) for place in np.unravel_index(there, shape))
            records = dense[there]
        else:
            first, group = same_rows([column.item for column in columns])
            items = (column.item[first] for column in columns)
            records = np.bincount(group, weights=self.records, minlength=len(first))
        made = (Column(item, c.lo, c.hi, c.below) for item, c in zip(items, columns, strict=True))
        return Rows(tuple(made), records.astype(np.float64))

    def cross(self, first: int, second: int) -> FloatArray:
        """Return the expected table of two attributes: each row's records spread over the bins of both its ranges."""
        few = self.project([first, second])
        (a, b), (a_shares, b_shares) = few.columns, [column.shares() for column in few.columns]
        table = np.zeros((a_shares.shape[1], b_shares.shape[1]))
        for start in range(0, len(few.records), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            table += (a_shares[a.item[rows]] * few.records[rows, np.newaxis]).T @ b_shares[b.item[rows]]
        return table


def bin_edges(n_leaves: int) -> IntArray:
    """Return where bins of leaves begin and end: one leaf each, or 64 bins of about as many leaves."""
    n_bins = min(n_leaves, MOST_BINS)
    return np.arange(n_bins + 1) * n_leaves // n_bins


def original_rows(problem: Problem, weights: FloatArray | None = None) -> Rows:
    """Return the original table; *weights* counts only a share of each cell's records."""
    attributes = (*problem.quasi, *problem.sensitive)
    columns = tuple(
        Column.of_leaves(codes, attribute.taxonomy.n_leaves)
        for codes, attribute in zip(problem.cells.codes, attributes, strict=True)
    )
    records = problem.cells.counts.astype(np.float64)
    return Rows(columns, records if weights is None else records * weights)


def rows_published(problem: Problem, plan: Plan, weights: FloatArray | None = None) -> Rows:
    """Return what a plan publishes, without the withheld records.

    Records under a quasi range count for all its leaves evenly, those under a generalized sensitive value for the
    leaves below it that occur in the original table.
    """
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    weighted = records.astype(np.float64) if weights is None else records * weights[cell]
    kept = np.flatnonzero((class_of >= 0) & (weighted > 0))
    cell, class_of, target = cell[kept], class_of[kept], target[kept]
    sensitive = [_sensitive(problem, plan, place, cell, target) for place in range(len(problem.sensitive))]
    first, group = same_rows([class_of, *(column.item for column in sensitive)])
    quasi = [
        Column.of_ranges(plan.lo[:, j], plan.hi[:, j], np.arange(attribute.taxonomy.n_leaves + 1, dtype=np.float64))
        for j, attribute in enumerate(problem.quasi)
    ]
    columns = (*(column.take(class_of[first]) for column in quasi), *(column.take(first) for column in sensitive))
    summed: FloatArray = np.bincount(group, weights=weighted[kept], minlength=len(first)).astype(np.float64)
    return Rows(columns, summed)


def _sensitive(problem: Problem, plan: Plan, place: int, cell: IntArray, target: CodeArray) -> Column:
    n_leaves = problem.sensitive[place].taxonomy.n_leaves
    codes = problem.cells.codes[len(problem.quasi) + place]
    own = codes[cell].astype(np.int32)
    if plan.targets is None:
        return Column.of_leaves(own, n_leaves)
    occurs = np.bincount(codes, minlength=n_leaves) > 0
    lo, hi = plan.targets.lo[target, place], plan.targets.hi[target, place]
    below = np.concatenate([[0.0], np.cumsum(occurs, dtype=np.float64)])
    return Column.of_ranges(np.where(lo == KEPT, own, lo), np.where(lo == KEPT, own + 1, hi), below)


@kernel
def answers(item: CodeArray, shares: FloatArray, records: FloatArray) -> FloatArray:
    """Return (n_queries,) the expected count of records in each query's box.

    Row r has the range ``item[j, r]`` of attribute j, of whose records query q asks for ``shares[j, q, item[j, r]]``.
    """
    result = np.zeros(shares.shape[1], dtype=np.float64)
    for query in range(shares.shape[1]):
        total = 0.0
        for row in range(len(records)):
            part = records[row]
            for j in range(len(item)):
                part *= shares[j, query, item[j, row]]
                if part == 0.0:
                    break
            total += part
        result[query] = total
    return result

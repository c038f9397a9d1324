"""Published and original tables as groups of equal rows whose values are ranges of leaves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import same_rows
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, SlicedPlan
from shoal.plan.synthetic import SyntheticPlan

_DENSE = 1 << 16  # cells of a table that is spread in one step
_PER_ROW = 16  # the same for each row, if there are many rows
_LEAST = 1e-9  # share of the mean density, so leaves without labels keep a positive weight


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute: row i has the leaf range ``lo[item[i]]:hi[item[i]]``.

    A range's records are spread over it in proportion to the weights of its leaves; ``below[v]`` is the total weight of
    the leaves before v.
    """

    item: CodeArray  # (n_rows,)
    lo: CodeArray  # (n_ranges,)
    hi: CodeArray  # (n_ranges,)
    below: FloatArray  # (n_leaves + 1,)

    @classmethod
    def of_leaves(cls, codes: AnyIntArray, n_leaves: int) -> Column:
        leaves = np.arange(n_leaves + 1, dtype=np.int32)
        return cls(codes.astype(np.int32), leaves[:-1], leaves[1:], leaves.astype(np.float64))

    @classmethod
    def of_ranges(cls, lo: CodeArray, hi: CodeArray, below: FloatArray) -> Column:
        """Return a column of ranges, one for each row; equal ranges are listed once.

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
        return Column(self.item[rows], self.lo, self.hi, self.below)

    @property
    def n_leaves(self) -> int:
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

    def read_labels(self, records: FloatArray) -> Column:
        """Return the column with the *records* of each range spread by the density that the column itself suggests.

        The density of a leaf is its share when the records of all ranges are spread by the weights of leaves;
        docs/adr/0022-utility.md explains why. Ranges that overlap no other are spread as before.

        >>> half = Column.of_ranges(np.array([0, 0]), np.array([1, 2]), np.arange(3.0))
        >>> half.read_labels(np.array([8.0, 2.0])).bin(np.arange(3)).shares
        array([[0.9, 0.1],
               [1. , 0. ]])
        """
        if not records.any():
            return self
        size, ends = sum_weights(self.item, records, len(self.lo)), len(self.below)
        each = size / (self.below[self.hi] - self.below[self.lo])
        density = np.cumsum(sum_weights(self.lo, each, ends) - sum_weights(self.hi, each, ends))[:-1]
        weight = np.diff(self.below) * np.maximum(density, _LEAST * size.sum() / self.below[-1])
        return Column(self.item, self.lo, self.hi, np.concatenate([[0.0], np.cumsum(weight)]))

    def bin(self, edges: IntArray) -> Binned:
        """Return the column in bins of the leaves between *edges*.

        >>> Column.of_ranges(np.array([0, 2]), np.array([2, 3]), np.arange(4.0)).bin(np.array([0, 1, 3])).shares
        array([[0. , 1. ],
               [0.5, 0.5]])
        """
        shares, which = np.unique(self.within(edges[:-1], edges[1:]).T, axis=0, return_inverse=True)
        return Binned(which.reshape(-1).astype(np.int32)[self.item], np.ascontiguousarray(shares))


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """One attribute: the share ``shares[item[i], v]`` of the records of row i lies in bin v.

    Suppressed records are in no bin.
    """

    item: CodeArray  # (n_rows,)
    shares: FloatArray  # (n_items, n_bins)
    precision: float = 1.0  # mean precision of the labels that are not suppressed; 1 for single values

    @classmethod
    def of(cls, item: AnyIntArray, shares: FloatArray, precision: FloatArray, records: FloatArray) -> Binned:
        """Return a binned column with equal shares listed once; a label with precision 0 is suppressed."""
        shown = precision > 0
        counts = sum_weights(item, records, len(shown)) * shown
        distinct, which = np.unique(shares * shown[:, np.newaxis], axis=0, return_inverse=True)
        mean = float(counts @ precision / counts.sum()) if counts.any() else 0.0
        return cls(which.reshape(-1).astype(np.int32)[item], np.ascontiguousarray(distinct), mean)

    @property
    def n_bins(self) -> int:
        return int(self.shares.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Groups of equal rows: a column for each quasi attribute, then for each sensitive one, and the records of each
    group.
    """

    columns: tuple[Column, ...]
    records: FloatArray  # (n_rows,)

    def read_labels(self) -> Rows:
        return replace(self, columns=tuple(column.read_labels(self.records) for column in self.columns))

    def tabulate(self, edges: Sequence[IntArray]) -> Tables:
        columns = tuple(column.bin(own) for column, own in zip(self.columns, edges, strict=True))
        return Tables(columns, self.records)


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Expected tables: the records of each row are spread over the bins of its ranges."""

    columns: tuple[Binned, ...]
    records: FloatArray  # (n_rows,)

    def measure_kept(self, places: Sequence[int], true: FloatArray) -> tuple[float, float]:
        """Return the share of a *true* table that is kept, and the same among the records that have values.

        Kept is 1 minus the total variation distance; suppressed records are a category that the true table does not
        have. The result is multiplied by the precision of each column's labels, so a label is never as good as a value.

        >>> half = Binned(np.array([0, 1]), np.array([[0.5, 0.5], [0.0, 0.0]]), 0.75)
        >>> Tables((half,), np.array([3.0, 1.0])).measure_kept([0], np.array([1.0, 1.0]))
        (0.5625, 1.0)
        """
        found = self.expect(places)
        if not found.sum() > 0 or not true.sum() > 0:
            return 0.0, 0.0
        common, among = (
            float(np.minimum(found / n, true / true.sum()).sum()) for n in (self.records.sum(), found.sum())
        )
        return min(common, 1.0) * math.prod(self.columns[place].precision for place in places), min(among, 1.0)

    def expect(self, places: Sequence[int]) -> FloatArray:
        return spread_records([self.columns[place] for place in places], self.records)


def spread_records(columns: Sequence[Binned], records: FloatArray) -> FloatArray:
    """Return the expected table of columns, one axis each.

    >>> half = Binned(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> spread_records([half, half], np.array([1.0, 4.0]))
    array([[2., 1.],
           [1., 1.]])
    """
    shape = [len(column.shares) for column in columns]
    if len(columns) > 1 and math.prod(shape) > max(_DENSE, _PER_ROW * len(records)):
        # a dense table would be too large, so the column with most items is spread first
        at = int(np.argmax(shape))
        widest, others = columns[at], [*columns[:at], *columns[at + 1 :]]
        found = [spread_records(others, records * share) for share in widest.shares.T[:, widest.item]]
        return np.stack(found, axis=at)
    key = np.zeros(len(records), dtype=np.int64)
    for column in columns:
        key = key * len(column.shares) + column.item
    table = sum_weights(key, records, math.prod(shape)).reshape(shape)
    for column in columns:  # the first axis becomes bins and goes to the end
        table = np.tensordot(table, column.shares, axes=(0, 0))
    return np.asarray(table)


def sum_weights(group: AnyIntArray, weights: FloatArray, n_groups: int) -> FloatArray:
    return np.bincount(group, weights, n_groups).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedRows(Rows):
    """Groups of equal records in one bucket; only the attributes of one part are known together.

    ``columns`` has the narrowest published values of each attribute, ``held`` the columns of each part.
    """

    bucket: CodeArray  # (n_rows,)
    parts: tuple[tuple[int, ...], ...]  # places of each part's attributes: quasi ones, then sensitive ones
    held: tuple[dict[int, Column], ...]  # of each part, by places

    @classmethod
    def of(cls, problem: Problem, plan: SlicedPlan, weights: FloatArray | None = None) -> SlicedRows:
        """Return the rows that a plan publishes; *weights* counts a share of each cell's records."""
        pieces = plan.pieces
        records = pieces.records.astype(np.float64)
        held = tuple(_part_columns(problem, part, pieces.cell) for part in plan.parts)
        columns = tuple(  # from the part where its ranges are narrowest
            min(
                (part[place] for part in held if place in part),
                key=lambda column: int((column.hi - column.lo)[column.item].sum()),
            )
            for place in range(len(problem.quasi) + len(problem.sensitive))
        )
        shown = records if weights is None else records * weights[pieces.cell]
        parts = tuple(tuple(columns_of) for columns_of in held)
        return cls(columns, shown, pieces.bucket.astype(np.int32), parts, held)

    def read_labels(self) -> SlicedRows:
        held = tuple({at: column.read_labels(self.records) for at, column in part.items()} for part in self.held)
        return replace(self, held=held)

    def tabulate(self, edges: Sequence[IntArray]) -> SlicedTables:
        columns = tuple(column.bin(own) for column, own in zip(self.columns, edges, strict=True))
        held = tuple({place: column.bin(edges[place]) for place, column in part.items()} for part in self.held)
        return SlicedTables(columns, self.records, self, held)

    def groups(self, shared: Collection[int], holder: int) -> tuple[CodeArray, int]:
        """Return (n_rows,) the number of each row's bucket and shared values, and how many such groups there are."""
        if not shared:
            return self.bucket, int(self.bucket.max(initial=-1)) + 1
        first, group = same_rows([self.bucket, *(self.held[holder][place].item for place in shared)])
        return group, len(first)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedTables(Tables):
    """Expected tables of attributes in several parts: products of the parts' tables within buckets."""

    rows: SlicedRows
    held: tuple[dict[int, Binned], ...]  # of each part, by places

    def expect(self, places: Sequence[int]) -> FloatArray:
        """Return the table of at most three attributes, one axis each.

        It is exact if one part has all of them. Parts that share no attribute are linked only by their bucket, which
        can understate how attributes depend on each other, never overstate it.
        """
        parts = self._choose_parts(places)
        used = list(dict.fromkeys(parts))
        if len(used) == 1:
            return spread_records([self.held[used[0]][place] for place in places], self.records)
        shared = set(self.held[used[0]]) & set(self.held[used[1]]) if len(used) == 2 else set()
        group, n_groups = self.rows.groups(sorted(shared), used[0])
        size = np.maximum(sum_weights(group, self.records, n_groups), _LEAST)[:, np.newaxis]
        factors, order = [], []
        for part in used:
            own = [axis for axis, chosen in enumerate(parts) if chosen == part]
            columns = [self.held[part][places[axis]] for axis in own]
            factors.append(_spread_groups(columns, group, n_groups, self.records))
            order += own
        first, second, *third = factors
        thirds = third[0].toarray() / size if third else np.ones((n_groups, 1))
        tables = [first.multiply(weights[:, np.newaxis] / size).T @ second for weights in thirds.T]
        table = np.stack([each.toarray() for each in tables], axis=-1)
        axes = [self.columns[places[axis]].n_bins for axis in order]
        return np.asarray(table.reshape(axes).transpose(np.argsort(order)))

    def _choose_parts(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the part that each attribute is read from: as few parts as possible, preferably with shared
        attributes.
        """

        def judge(chosen: tuple[int, ...]) -> tuple[int, int]:
            used = {part: set(self.held[part]) for part in chosen}
            return len(used), -len(set.intersection(*used.values()))

        choices = [[part for part, columns in enumerate(self.held) if place in columns] for place in places]
        return min(product(*choices), key=judge)


def _spread_groups(columns: Sequence[Binned], group: CodeArray, n_groups: int, records: FloatArray) -> Any:
    """Return (n_groups, n_cells) the records of each group, spread over the columns' bins, as a sparse array."""
    from scipy.sparse import csr_array  # slow to load

    row, same = same_rows([group, *(column.item for column in columns)])
    weight, cell = sum_weights(same, records, len(row)), np.zeros(len(row), dtype=np.int64)
    for column in columns:
        item, bins = np.nonzero(column.shares)
        start = np.searchsorted(item, np.arange(len(column.shares) + 1))
        times = np.diff(start)[column.item[row]]
        each = np.repeat(np.arange(len(row)), times)
        at = start[column.item[row]][each] + np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
        cell = cell[each] * column.n_bins + bins[at]
        weight, row = weight[each] * column.shares[item[at], bins[at]], row[each]
    n_cells = math.prod(column.n_bins for column in columns)
    return csr_array((weight, (group[row], cell)), shape=(n_groups, n_cells))


def rows_published(problem: Problem, plan: Plan, weights: FloatArray | None = None) -> Rows:
    """Return the rows that a plan of classes publishes, without withheld records.

    A quasi range is spread evenly over its leaves, a generalized sensitive value over the leaves below it that occur in
    the original table.
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


def _part_columns(problem: Problem, part: Part, cell: IntArray) -> dict[int, Column]:
    columns = {}
    for j, place in enumerate(part.quasi):
        n_leaves = problem.quasi[place].taxonomy.n_leaves
        if part.lo is None or part.hi is None:
            columns[place] = Column.of_leaves(problem.cells.codes[place][cell], n_leaves)
        else:
            below = np.arange(n_leaves + 1, dtype=np.float64)
            columns[place] = Column.of_ranges(part.lo[:, j], part.hi[:, j], below).take(part.values[cell])
    for number in part.sensitive:
        place = len(problem.quasi) + number
        n_leaves = problem.sensitive[number].taxonomy.n_leaves
        columns[place] = Column.of_leaves(problem.cells.codes[place][cell], n_leaves)
    return columns


def view_plan(problem: Problem, plan: Plan | SlicedPlan | SyntheticPlan, weights: FloatArray | None = None) -> Rows:
    """Return the rows that a plan publishes; *weights* counts a share of each cell's records.

    For a method that publishes averages, its form of release supplies the plan that readers see.
    """
    if isinstance(plan, SlicedPlan):
        return SlicedRows.of(problem, plan, weights)
    if isinstance(plan, SyntheticPlan):
        leaves = zip(plan.codes, plan.domains, strict=True)
        columns = tuple(Column.of_leaves(codes, domain.size) for codes, domain in leaves)
        return Rows(columns, np.ones(plan.n_rows))
    return rows_published(problem, plan, weights)

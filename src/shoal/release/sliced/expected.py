"""What a sliced plan leads one to expect of the original table if every linking is as likely, and what is lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, SlicedPlan
from shoal.release.sliced.table import find_parts, number_rows, tree_of
from shoal.utility.accuracy_ratio import AccuracyRatio, accuracy_ratio
from shoal.utility.association_kept import AssociationKept, association_kept
from shoal.utility.base import Utility
from shoal.utility.information import (
    AttributeLoss,
    GeneralizedLoss,
    NormalizedCertaintyPenalty,
    Um,
    relative_widths,
    share_lost,
)
from shoal.utility.query_error import Queries, query_errors
from shoal.utility.rows import Column, Rows, original_rows

_GROUPS = 1 << 12  # handled at a time


@dataclass(frozen=True, slots=True, eq=False)
class SlicedRows(Rows):
    """Groups of equal records in one bucket, of which only the attributes of one part are known together.

    ``columns`` are the narrowest published values of each attribute, ``held`` those of each part.
    """

    bucket: CodeArray  # (n_rows,)
    parts: tuple[tuple[int, ...], ...]  # places of each part's attributes: quasi ones, then sensitive ones
    held: tuple[dict[int, Column], ...]  # of each part, by places

    @classmethod
    def of(cls, problem: Problem, plan: SlicedPlan, weights: FloatArray | None = None) -> SlicedRows:
        """Return what a plan publishes; *weights* counts only a share of each cell's records."""
        pieces = plan.pieces(problem.cells.counts)
        records = pieces.records.astype(np.float64)
        held = tuple(_columns(problem, part, pieces.cell) for part in plan.parts)
        columns = tuple(_narrowest(held, place) for place in range(len(problem.quasi) + len(problem.sensitive)))
        shown = records if weights is None else records * weights[pieces.cell]
        parts = tuple(tuple(columns_of) for columns_of in held)
        return cls(columns, shown, pieces.bucket.astype(np.int32), parts, held)

    def cross(self, first: int, second: int) -> FloatArray:
        """Return the expected table of two attributes over their bins.

        It is exact if a part has both. Two attributes of parts that are not linked directly are taken as linked by
        their bucket alone, which can only understate how they depend on each other.
        """
        for columns in self.held:
            if first in columns and second in columns:
                return Rows((columns[first], columns[second]), self.records).cross(0, 1)
        group, n_groups = self._direct_groups(first, second)
        a, b = self.columns[first], self.columns[second]
        a_shares, b_shares = a.shares(), b.shares()
        table = np.zeros((a_shares.shape[1], b_shares.shape[1]))
        order = np.argsort(group, kind="stable")
        bases = range(0, n_groups, _GROUPS)
        edges = np.searchsorted(group[order], [*bases, n_groups]).tolist()
        for base, start, stop in zip(bases, edges[:-1], edges[1:], strict=True):
            rows, n_here = order[start:stop], min(_GROUPS, n_groups - base)
            here, records = group[rows] - np.int32(base), self.records[rows]
            size = np.bincount(here, weights=records, minlength=n_here)
            left = spread(here, a.item[rows], a_shares, records, n_here)
            right = spread(here, b.item[rows], b_shares, records, n_here)
            table += (left / np.where(size > 0, size, 1.0)[:, np.newaxis]).T @ right
        return table

    def answer(self, queries: Queries) -> FloatArray:
        """Return (n_queries,) the expected counts."""
        needed = find_parts(self.parts, queries.places.tolist())
        links = tree_of([self.parts[number] for number in needed])
        groups = {link.part: self.groups(link.shared, needed[link.parent]) for link in links}
        asked: dict[int, list[int]] = {}  # by parts, in an order in which parents come first
        for local in (0, *(link.part for link in links)):
            before = {place for places in asked.values() for place in places}
            held = self.held[needed[local]]
            asked[local] = [place for place in queries.places.tolist() if place in held and place not in before]
        made: dict[int, _AskedPart] = {}
        for local in reversed(asked):
            children = [(made[link.part], groups[link.part][0]) for link in links if link.parent == local]
            group = groups.get(local, (np.zeros(len(self.records), dtype=np.int32), 1))
            columns = {place: self.held[needed[local]][place] for place in asked[local]}
            made[local] = _AskedPart.of(self.records, columns, group, children, queries)
        return np.array([made[0].sums(query)[0] for query in range(queries.starts.shape[1])])

    def groups(self, shared: Collection[int], holder: int) -> tuple[CodeArray, int]:
        """Return (n_rows,) the number of each row's bucket and values of shared attributes, and how many there are."""
        if not shared:
            return self.bucket, int(self.bucket.max(initial=-1)) + 1
        items = [self.held[holder][place].item for place in shared]
        group, first = number_rows([self.bucket, *items], len(self.bucket))
        return group, len(first)

    def _direct_groups(self, first: int, second: int) -> tuple[CodeArray, int]:
        """Return the groups within which two attributes are linked at random."""
        for a, columns in enumerate(self.held):
            for others in self.held:
                shared = [place for place in columns if place in others]
                if first in columns and second in others and shared:
                    return self.groups(shared, a)
        return self.groups((), 0)


@dataclass(frozen=True, slots=True, eq=False)
class _AskedPart:
    """Entries of one part that are equal in all that is asked and linked, and the parts that are linked to it."""

    shares: FloatArray  # (n_queries, n_asked, n_ranges) of each attribute's ranges, that is asked for
    item: CodeArray  # (n_asked, n_entries)
    records: FloatArray  # (n_entries,)
    up: CodeArray  # (n_entries,) group in which the part is linked to its parent; one for the first part
    size: FloatArray  # (n_groups,) records
    children: tuple[tuple[_AskedPart, CodeArray], ...]  # each with (n_entries,) its group

    @classmethod
    def of(
        cls,
        records: FloatArray,
        columns: Mapping[int, Column],
        group: tuple[CodeArray, int],
        children: Sequence[tuple[_AskedPart, CodeArray]],
        queries: Queries,
    ) -> _AskedPart:
        """Put equal entries together; *columns* are the attributes that are asked about here, by their places."""
        up, n_groups = group
        items = [column.item for column in columns.values()]
        entry, first = number_rows([up, *(group for _, group in children), *items], len(records))
        longest = max((len(column.lo) for column in columns.values()), default=1)
        shares = np.zeros((queries.starts.shape[1], len(columns), longest))
        for j, (place, column) in enumerate(columns.items()):
            at = queries.places.tolist().index(place)
            shares[:, j, : len(column.lo)] = column.within(queries.starts[at], queries.stops[at])
        return cls(
            shares,
            np.array([item[first] for item in items], dtype=np.int32).reshape(len(items), len(first)),
            np.bincount(entry, weights=records, minlength=len(first)).astype(np.float64),
            up[first],
            np.bincount(up, weights=records, minlength=n_groups).astype(np.float64),
            tuple((child, group[first]) for child, group in children),
        )

    def sums(self, query: int) -> FloatArray:
        """Return (n_groups,) the expected count of what one query asks for here and in all parts linked to this."""
        weights = self.records
        for child, group in self.children:
            weights = weights * (child.sums(query) / np.where(child.size > 0, child.size, 1.0))[group]
        return group_sums(self.item, self.shares[query], weights, self.up, len(self.size))


def _columns(problem: Problem, part: Part, cell: IntArray) -> dict[int, Column]:
    """Return what one part publishes of the rows, by places."""
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


def _narrowest(held: Sequence[dict[int, Column]], place: int) -> Column:
    """Return an attribute's values in the part where they cover fewest leaves."""
    candidates = [columns[place] for columns in held if place in columns]
    return min(candidates, key=lambda column: int((column.hi - column.lo)[column.item].sum()))


Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@kernel
def group_sums(item: Codes, shares: Floats, weights: Floats, group: Codes, n_groups: int) -> Floats:
    """Return (n_groups,) the weight of entries times their shares in all attributes.

    Entry e has the range ``item[j, e]`` of attribute j, of which the share ``shares[j, item[j, e]]`` counts.
    """
    result = np.zeros(n_groups, dtype=np.float64)
    for entry in range(len(weights)):
        part = weights[entry]
        for j in range(len(item)):
            part *= shares[j, item[j, entry]]
            if part == 0.0:
                break
        result[group[entry]] += part
    return result


@kernel
def spread(group: Codes, item: Codes, shares: Floats, weights: Floats, n_groups: int) -> Floats:
    """Return (n_groups, n_bins) the weight of each group's entries, spread over the bins of their ranges."""
    result = np.zeros((n_groups, shares.shape[1]), dtype=np.float64)
    first = np.zeros(shares.shape[0], dtype=np.int64)
    stop = np.zeros(shares.shape[0], dtype=np.int64)
    for r in range(shares.shape[0]):
        for place in range(shares.shape[1]):
            if shares[r, place] > 0.0:
                if stop[r] == 0:
                    first[r] = place
                stop[r] = place + 1
    for entry in range(len(weights)):
        r = item[entry]
        for place in range(first[r], stop[r]):
            result[group[entry], place] += weights[entry] * shares[r, place]
    return result


def measure_slices(problem: Problem, plan: SlicedPlan, *, expensive: bool) -> Utility:
    """Return the measures of a sliced plan by the names that they have for generalized tables.

    ``um``, ``ncp``, ``loss`` and ``attribute-loss`` tell what generalizing the values of parts and withholding records
    lost: values that are published as they are lose nothing. What cutting the ties between parts costs is given by the
    expensive ones, which take the tables, counts and predictions that one expects if every linking within buckets is as
    likely. Measures of equivalence classes have no meaning here.
    """
    rows = SlicedRows.of(problem, plan)
    found = _of_values(problem, plan, rows)
    if expensive:
        if AccuracyRatio().applies(problem):
            found[AccuracyRatio.name] = accuracy_ratio(problem, lambda taught: SlicedRows.of(problem, plan, taught))
        if AssociationKept().applies(problem):
            found[AssociationKept.name] = association_kept(original_rows(problem), rows)
        found |= query_errors(problem, rows.answer, np.random.default_rng(0))
    return found


def _of_values(problem: Problem, plan: SlicedPlan, rows: SlicedRows) -> Utility:
    """Return the measures of single values."""
    n_records, n_quasi = problem.cells.n_records, len(problem.quasi)
    attributes = (*problem.quasi, *problem.sensitive)
    widths = [(column.hi - column.lo)[column.item].astype(np.float64) for column in rows.columns]
    kept = sum(float(np.dot(rows.records, 1.0 / width)) for width in widths)
    spanned = sum(
        float(np.dot(rows.records, relative_widths(attribute.taxonomy, column.lo, column.hi)[column.item]))
        for attribute, column in zip(problem.quasi, rows.columns, strict=False)
    )
    leaves = np.array([attribute.taxonomy.n_leaves for attribute in attributes], dtype=np.float64)
    summed = np.array([float(np.dot(rows.records, width)) for width in widths])
    losses: FloatArray = share_lost(summed, leaves, n_records, plan.n_withheld)
    return {
        AttributeLoss.name: {a.name: loss for a, loss in zip(attributes, losses.tolist(), strict=True)},
        GeneralizedLoss.name: float(np.expm1(np.log1p(losses[:n_quasi]).mean())),
        NormalizedCertaintyPenalty.name: (spanned / n_quasi + plan.n_withheld) / n_records,
        Um.name: kept / (n_records * len(attributes)),
    }

"""What a sliced plan leads one to expect of the original table, if every linking within buckets is as likely."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.plan.links import Link, linked
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, SlicedPlan
from shoal.release.sliced import kernels
from shoal.release.sliced.table import SlicedTable, column_codes, numbered
from shoal.utility.query_error import Queries
from shoal.utility.rows import Column, Rows

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

    def crossed(self, first: int, second: int) -> FloatArray:
        """Return the expected table of two attributes over their bins.

        It is exact if a part has both. Two attributes of parts that are not linked directly are taken as linked by
        their bucket alone, which can only understate how they depend on each other.
        """
        for columns in self.held:
            if first in columns and second in columns:
                return Rows((columns[first], columns[second]), self.records).crossed(0, 1)
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
            left = kernels.spread(here, a.item[rows], a_shares, records, n_here)
            right = kernels.spread(here, b.item[rows], b_shares, records, n_here)
            table += (left / np.where(size > 0, size, 1.0)[:, np.newaxis]).T @ right
        return table

    def answered(self, queries: Queries) -> FloatArray:
        """Return (n_queries,) the expected counts."""
        places = queries.places.tolist()
        tree = _AskedTree.of(self, places)
        n_queries = queries.starts.shape[1]
        shares = []
        for part in tree.parts:
            asked = [(place, self.held[part.number][place]) for place in part.places]
            longest = max((len(column.lo) for _, column in asked), default=1)
            table = np.zeros((n_queries, len(asked), longest))
            for j, (place, column) in enumerate(asked):
                at = places.index(place)
                table[:, j, : len(column.lo)] = column.within(queries.starts[at], queries.stops[at])
            shares.append(table)
        return np.array([tree.answer([table[query] for table in shares]) for query in range(n_queries)])

    def groups(self, shared: Collection[int], holder: int) -> tuple[CodeArray, int]:
        """Return (n_rows,) the number of each row's bucket and values of shared attributes, and how many there are."""
        if not shared:
            return self.bucket, int(self.bucket.max(initial=-1)) + 1
        items = [self.held[holder][place].item for place in shared]
        group, first = numbered([self.bucket, *items], len(self.bucket))
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
    """Entries of one part that are equal in all that is asked and linked."""

    number: int
    places: tuple[int, ...]  # asked here
    item: CodeArray  # (n_asked, n_entries)
    records: FloatArray  # (n_entries,)
    up: CodeArray  # (n_entries,) group in which the part is linked to its parent; one for the first part
    size: FloatArray  # (n_groups,) records
    down: tuple[tuple[int, CodeArray], ...]  # each child's place in the order, and (n_entries,) its group


@dataclass(frozen=True, slots=True, eq=False)
class _AskedTree:
    """The parts that a set of attributes needs, parents first."""

    parts: tuple[_AskedPart, ...]

    @classmethod
    def of(cls, rows: SlicedRows, places: Sequence[int]) -> _AskedTree:
        """Find the parts, and put their equal entries together."""
        wanted = [str(place) for place in places]
        names = [[str(place) for place in part] for part in rows.parts]
        needed = needed_parts(names, wanted)
        links = tree_of([names[number] for number in needed])
        order = [0, *(link.part for link in links)]
        groups = {link.part: rows.groups([int(place) for place in link.shared], needed[link.parent]) for link in links}
        left = list(places)
        found = []
        for local in order:
            number = needed[local]
            asked = tuple(place for place in left if place in rows.held[number])
            left = [place for place in left if place not in asked]
            up, n_groups = groups.get(local, (np.zeros(len(rows.records), dtype=np.int32), 1))
            children = [link.part for link in links if link.parent == local]
            items = [rows.held[number][place].item for place in asked]
            entry, first = numbered([up, *(groups[child][0] for child in children), *items], len(rows.records))
            found.append(
                _AskedPart(
                    number,
                    asked,
                    np.array([item[first] for item in items], dtype=np.int32).reshape(len(items), len(first)),
                    np.bincount(entry, weights=rows.records, minlength=len(first)).astype(np.float64),
                    up[first],
                    np.bincount(up, weights=rows.records, minlength=n_groups).astype(np.float64),
                    tuple((order.index(child), groups[child][0][first]) for child in children),
                )
            )
        return cls(tuple(found))

    def answer(self, shares: Sequence[FloatArray]) -> float:
        """Return the expected count, given the share of each range of each part's attributes that is asked for."""
        means: dict[int, FloatArray] = {}
        for place in range(len(self.parts) - 1, -1, -1):
            part = self.parts[place]
            weights = part.records
            for child, group in part.down:
                weights = weights * means[child][group]
            sums = kernels.group_sums(part.item, shares[place], weights, part.up, len(part.size))
            if place == 0:
                return float(sums[0])
            means[place] = sums / np.where(part.size > 0, part.size, 1.0)
        return 0.0


def _columns(problem: Problem, part: Part, cell: IntArray) -> dict[int, Column]:
    """Return what one part publishes of the rows, by places."""
    columns = {}
    for j, place in enumerate(part.quasi):
        n_leaves = problem.quasi[place].taxonomy.n_leaves
        if part.lo is None or part.hi is None:
            columns[place] = Column.of_leaves(problem.cells.codes[place][cell], n_leaves)
        else:
            below = np.arange(n_leaves + 1, dtype=np.float64)
            columns[place] = Column.of_ranges(part.lo[:, j], part.hi[:, j], below).taken(part.values[cell])
    for number in part.sensitive:
        place = len(problem.quasi) + number
        n_leaves = problem.sensitive[number].taxonomy.n_leaves
        columns[place] = Column.of_leaves(problem.cells.codes[place][cell], n_leaves)
    return columns


def _narrowest(held: Sequence[dict[int, Column]], place: int) -> Column:
    """Return an attribute's values in the part where they cover fewest leaves."""
    candidates = [columns[place] for columns in held if place in columns]
    return min(candidates, key=lambda column: int((column.hi - column.lo)[column.item].sum()))


def tree_of(parts: Sequence[Sequence[str]]) -> tuple[Link[str], ...]:
    """Return how all parts but the first are linked to those before; overlaps that form no tree are refused."""
    links = linked(parts)
    if links is None:
        raise UsageError("the parts overlap in a circle, so that no rule tells how to link them")
    return links


def needed_parts(parts: Sequence[Sequence[str]], names: Collection[str]) -> tuple[int, ...]:
    """Return the fewest parts found that have these attributes and all that link them.

    A part that shares attributes with one other part only can be left out if the others have all that is asked for.

    >>> needed_parts([["age"], ["zip", "sex"], ["illness"]], ["age", "illness"])
    (0, 2)
    """
    wanted = set(names)
    for number, part in enumerate(parts):
        if wanted <= set(part):
            return (number,)
    kept = list(range(len(parts)))
    while (spare := _spare(parts, kept, wanted)) is not None:
        kept.remove(spare)
    return tuple(kept)


def _spare(parts: Sequence[Sequence[str]], kept: Sequence[int], wanted: set[str]) -> int | None:
    for number in kept:
        others = [set(parts[other]) for other in kept if other != number]
        everything = set[str]().union(*others)
        shared = everything & set(parts[number])
        if others and wanted <= everything and any(shared <= other for other in others):
            return number
    return None


def overlap(parts: Sequence[Sequence[str]]) -> bool:
    """Whether some attribute is in several parts."""
    names = [name for part in parts for name in part]
    return len(set(names)) < len(names)


def link_keys(table: SlicedTable, link: Link[str]) -> tuple[CodeArray, CodeArray]:
    """Return (n_rows,) the number of each row's bucket and shared values, by its parent part and by its part.

    Rows of the parent and of the part can be about the same record only if they have the same number.
    """
    if not link.shared:
        return table.bucket, table.bucket
    parent, part = table.parts[link.parent], table.parts[link.part]
    both = pa.concat_tables([side.distinct.select(list(link.shared)) for side in (parent, part)])
    shared, _ = numbered([column_codes(column) for column in both.columns], both.num_rows)
    values = np.concatenate([shared[: parent.n_codes][parent.codes], shared[parent.n_codes :][part.codes]])
    keys, _ = numbered([np.concatenate([table.bucket, table.bucket]), values], 2 * table.n_rows)
    before, after = keys[: table.n_rows], keys[table.n_rows :]
    if not np.array_equal(np.bincount(before, minlength=len(keys)), np.bincount(after, minlength=len(keys))):
        listed = ", ".join(repr(name) for name in link.shared)
        raise InputError(f"two parts of the release differ in the values of {listed} within a bucket")
    return before, after

"""A sliced plan: which records share a bucket, and which attributes stay together in one part of a row."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray
from shoal.plan.plan import Assignment, withhold_rest
from shoal.plan.problem import Problem, Requirement

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Attributes that stay together: a *column* of the slicing paper.

    Quasi-identifiers and sensitive attributes are given by their positions in the problem, insensitive ones by name.
    ``values`` numbers the quasi values of each cell in this part: their combinations or, after column generalization,
    the regions that contain them. A part without quasi-identifiers has one such value.
    """

    quasi: tuple[int, ...]
    sensitive: tuple[int, ...]
    carried: tuple[str, ...]
    values: CodeArray  # (n_cells,)
    n_values: int
    lo: CodeArray | None = None  # (n_values, n_quasi) leaf ranges of regions; None: published unchanged
    hi: CodeArray | None = None  # (n_values, n_quasi)

    @property
    def members(self) -> tuple[int, ...]:
        """The attributes: quasi-identifiers by position, sensitive attributes as -1, -2, ..."""
        return (*self.quasi, *(-1 - place for place in self.sensitive))


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Published records of one cell in one bucket."""

    cell: IntArray  # (n_pieces,)
    bucket: CodeArray  # (n_pieces,)
    records: IntArray  # (n_pieces,)


@dataclass(frozen=True, eq=False)
class SlicedPlan:
    """A slicing: each bucket publishes the values of every part, but not which of them belong together.

    The assignment sends records to buckets. There are at least two parts; an attribute is in several of them only if
    the slicing is overlapping.
    """

    parts: tuple[Part, ...]
    sizes: IntArray  # (n_buckets,) records
    assignment: Assignment
    counts: IntArray  # (n_cells,) records, published or not
    n_withheld: int
    search: Mapping[str, Any] = field(default_factory=dict)  # figures of the method's search; internal
    warnings: tuple[str, ...] = ()  # for the data holder; without values of records

    @property
    def n_buckets(self) -> int:
        return len(self.sizes)

    @classmethod
    def of_pieces(cls, parts: tuple[Part, ...], counts: IntArray, pieces: Pieces, n_buckets: int) -> SlicedPlan:
        """Build from pieces in buckets; all other records are withheld."""
        sizes = kernels.sum_groups(pieces.bucket, pieces.records, n_buckets)
        whole = withhold_rest(counts, pieces.cell, pieces.bucket, pieces.records)
        assignment = Assignment.of_pieces(len(counts), *whole)
        return cls(parts, sizes, assignment, counts, int(counts.sum() - sizes.sum()))

    @cached_property
    def pieces(self) -> Pieces:
        """The published pieces of all cells."""
        cell, bucket, records = self.assignment.pieces(self.counts)
        shown = np.flatnonzero((bucket >= 0) & (records > 0))
        return Pieces(cell[shown], bucket[shown], records[shown])

    def count_linked(self) -> int:
        """Return the number of records in buckets that link the quasi values of their parts."""
        cell, bucket = self.pieces.cell, self.pieces.bucket
        return int(self.sizes[find_linked_buckets(self.parts, cell, bucket, self.n_buckets)].sum())


def find_linked_buckets(parts: Sequence[Part], cells: AnyIntArray, bucket: AnyIntArray, n_buckets: int) -> BoolArray:
    """Return (n_buckets,) whether exactly one of several parts has several quasi values in each bucket.

    Then every combination that the bucket forms belongs to a record. *cells* and *bucket* describe pieces.
    """
    known = [part for part in parts if part.quasi]
    several = np.zeros(n_buckets, dtype=np.int64)
    for part in known if len(known) > 1 else ():
        several += kernels.varying(part.values, cells, bucket, n_buckets)
    return np.asarray(several == 1)


def sensitive_part(problem: Problem, parts: Sequence[Part], requirement: Requirement) -> Part:
    """Return the first part with all sensitive attributes of a requirement on values."""
    wanted = problem.sensitive_places(requirement)
    return next(part for part in parts if wanted <= set(part.sensitive))


@dataclass(frozen=True, slots=True)
class Link(Generic[T]):
    """A part, the earlier part that it is linked to, and their common attributes."""

    part: int
    parent: int
    shared: tuple[T, ...]


def link_parts(parts: Sequence[Collection[T]]) -> tuple[Link[T], ...] | None:
    """Link every part but the first to an earlier part that has all attributes it shares with earlier parts.

    Return None if no such tree exists. If one does, joining the parts within a bucket gives count(a) count(b) /
    count(shared) expected records, and nothing more can be learned. A maximum spanning tree by shared attributes is
    such a tree whenever one exists (Bernstein and Goodman, "Power of natural semijoins", 1981).

    >>> link_parts([["age", "zip"], ["sex", "illness"], ["zip", "sex"]])
    (Link(part=2, parent=0, shared=('zip',)), Link(part=1, parent=2, shared=('sex',)))
    >>> link_parts([["age", "zip"], ["zip", "sex"], ["sex", "age"]])
    """
    members = [set(part) for part in parts]
    before = set(members[0])
    nearest = {part: (len(members[part] & members[0]), 0) for part in range(1, len(parts))}  # common members, parent
    links = []
    while nearest:
        part = max(nearest, key=lambda left: (nearest[left][0], -left))
        _, parent = nearest.pop(part)
        shared = tuple(member for member in parts[part] if member in before)
        if not set(shared) <= members[parent]:
            return None
        links.append(Link(part, parent, shared))
        before |= members[part]
        for left, (common, _) in nearest.items():
            if len(members[left] & members[part]) > common:
                nearest[left] = (len(members[left] & members[part]), part)
    return tuple(links)

"""Class-by-value counts of releases by a plan: made by owners, checked by the service, linked for clients.

Without identities they are all that an anonymized table says of its people (Rameshwar and Tandon, 2.3), so they show
nothing that the published rows do not. What they cannot show is that a published file has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.agency.domain import Domain
from shoal.agency.tables import deserialize, read_rows, serialize
from shoal.core.arrays import IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.verify.agreed import Plan, judge_counts
from shoal.verify.guarantees import agrees
from shoal.verify.numbering import HALF, LOW, Tally, pair


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """How many rows of each class have each value, for the pairs that occur."""

    keys: KeyArray  # (n_pairs,) ascending: class << 32 | value, both from 0
    counts: IntArray

    @classmethod
    def of_rows(cls, columns: list[str], rows: list[Any], plan: Plan, most: int) -> ClassCounts:
        """Read counts as they are sent; what the plan does not know is an error that tells no value."""
        domain = Domain.of_classes(plan.n_classes, plan.sensitive, plan.sensitive_values.to_pylist())
        table = read_rows(columns, rows, domain, probabilities=False, most=most)
        owner, value, count = (column.to_numpy() for column in table.columns)
        tally = Tally()
        tally.add_counts(pair(owner, value)[count > 0], count[count > 0])
        return cls(*tally.result())

    @classmethod
    def of_bytes(cls, content: bytes) -> ClassCounts:
        """Read what ``content`` returned."""
        return cls(*(column.to_numpy() for column in deserialize(content).columns))

    def content(self) -> bytes:
        """Return them as they are kept."""
        return serialize(pa.table([pa.array(self.keys), pa.array(self.counts)], names=["key", "count"]))

    def link(self, other: ClassCounts) -> ClassCounts:
        """Return the post-linkage data of every class: of each value the smaller count, if both have it.

        >>> one, two = (ClassCounts(np.array(keys, np.uint64), np.array([5, 2])) for keys in ([1, 7], [1, 9]))
        >>> linked = one.link(ClassCounts(two.keys, np.array([3, 3])))
        >>> linked.keys.tolist(), linked.counts.tolist()
        ([1], [3])
        """
        keys, mine, theirs = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        return ClassCounts(keys, np.minimum(self.counts[mine], other.counts[theirs]))

    def fewest_values(self, n_classes: int) -> int:
        """Return how many values the class has that has fewest."""
        return int(np.bincount((self.keys >> HALF).astype(np.int64), minlength=n_classes).min())

    def list_values(self, number: int, values: Sequence[str]) -> dict[str, int]:
        """Return the counts of one class, numbered from 0, by value."""
        first, end = np.searchsorted(self.keys, np.array([number, number + 1], dtype=np.uint64) << HALF)
        codes = (self.keys[first:end] & LOW).tolist()
        return {values[code]: count for code, count in zip(codes, self.counts[first:end].tolist(), strict=True)}


def check_counts(counts: ClassCounts, plan: Plan, rows: int, claimed: float) -> float:
    """Return what the weakest class reaches; counts that break the plan's promise or the manifest are an error."""
    total = int(counts.counts.sum())
    if total != rows:
        raise InputError(f"the counts sum to {total:,} and manifest.rows is {rows:,}; register the release as it is")
    tally = Tally()
    tally.add_counts(counts.keys, counts.counts)
    achieved, fault = judge_counts(plan, tally)
    if achieved is None or fault:
        raise InputError(f"the counts do not keep the plan's promise: {fault}; nothing was registered")
    if not agrees(claimed, achieved):
        raise InputError(f"manifest.guarantees claims {claimed:.6g}, and the counts reach {achieved:.6g}")
    return achieved


def find_class(plan: Plan, target: Mapping[str, str]) -> int:
    """Return the class, from 0, of a person of whom the quasi values are known; the message repeats no value."""
    if set(target) != set(plan.quasi):
        raise InputError(f"a target has a value for each of {', '.join(map(repr, plan.quasi))}, and no other column")
    here = np.ones(len(plan.class_of), dtype=np.bool_)
    for name, values, points in zip(plan.quasi, plan.quasi_values, plan.points, strict=True):
        here &= points == values.index(target[name]).as_py()
    if not here.any():
        raise InputError("the plan's domain does not have the values of this target")
    return int(plan.class_of[np.flatnonzero(here)[0]])

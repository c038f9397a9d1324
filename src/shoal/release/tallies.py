"""Tallies of what is published: levels of taxonomies, and shares of sensitive values; those of regions add up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import compiled
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class LevelTally:
    """How many records publish a node so many steps above the original values, and how many a range that is no node.

    Tallies of the same attribute add up, region by region.
    """

    nodes: IntArray  # (n_levels + 1,) records; 0 steps: the original value
    ranges: int

    @classmethod
    def of(cls, taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray, records: AnyIntArray) -> Self:
        """Count leaf ranges, each with so many records.

        Steps are those of a full-domain generalization: the fewest that bring a value of the range there.

        >>> from shoal.taxonomies.files import from_nested
        >>> tree = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
        >>> found = LevelTally.of(tree, np.array([0, 0, 1, 0]), np.array([1, 2, 3, 4]), np.array([5, 6, 7, 8]))
        >>> found.nodes.tolist(), found.ranges
        ([5, 6, 8], 7)
        """
        nodes = taxonomy.lowest_nodes(lo, hi)
        whole = (taxonomy.lo[nodes] == lo) & (taxonomy.hi[nodes] == hi)
        steps = np.where(nodes < taxonomy.n_leaves, 0, taxonomy.height - taxonomy.level[nodes])
        counted = np.bincount(steps[whole], weights=records[whole], minlength=taxonomy.height + 1)
        return cls(np.rint(counted).astype(np.int64), int(records[~whole].sum()))

    def __add__(self, other: LevelTally) -> LevelTally:
        """Take the records of both."""
        return LevelTally(self.nodes + other.nodes, self.ranges + other.ranges)

    def as_dict(self) -> dict[str, Any]:
        """Return ``nodes``, a list from the original values up, and ``ranges``."""
        return {"nodes": self.nodes.tolist(), "ranges": self.ranges}


def plan_levels(problem: Problem, plan: Plan) -> dict[str, LevelTally]:
    """Return the levels that a plan publishes of every attribute; those of a kept sensitive value are 0."""
    found = {
        one.name: LevelTally.of(one.taxonomy, plan.lo[:, place], plan.hi[:, place], plan.sizes)
        for place, one in enumerate(problem.quasi)
    }
    for place, one in enumerate(problem.sensitive):
        found[one.name] = _sensitive_levels(one.taxonomy, plan, place)
    return found


def levels_told(
    found: Mapping[str, LevelTally], generalized: Collection[str], sensitive: Collection[str]
) -> dict[str, Any]:
    """Return the levels of quasi attributes, and of those *sensitive* ones that are *generalized*."""
    return {name: one.as_dict() for name, one in found.items() if name not in sensitive or name in generalized}


def _sensitive_levels(taxonomy: Taxonomy, plan: Plan, place: int) -> LevelTally:
    """Return the levels of one sensitive attribute, which are 0 where records keep their values."""
    targets = plan.targets
    if targets is None:
        kept_all = np.zeros(taxonomy.height + 1, dtype=np.int64)
        kept_all[0] = plan.sizes.sum()
        return LevelTally(kept_all, 0)
    lo, hi = targets.lo[:, place], targets.hi[:, place]
    kept = lo == KEPT
    return LevelTally.of(taxonomy, np.where(kept, 0, lo), np.where(kept, 1, hi), targets.records)


MOST_VALUES = 20


@dataclass(frozen=True, slots=True, eq=False)
class ShareTally:
    """Counts and extreme shares of what classes publish of one sensitive attribute; tallies of regions add up.

    A published value is a leaf range: ``keys`` are ``lo * (n_leaves + 1) + hi``.
    """

    keys: IntArray  # (n_values,) ascending
    records: IntArray  # (n_values,)
    classes: IntArray  # (n_values,) that have the value
    lowest: FloatArray  # (n_values,) share in these
    highest: FloatArray  # (n_values,)
    n_classes: int

    @classmethod
    def of(cls, keys: IntArray, number: CodeArray, class_of: AnyIntArray, records: AnyIntArray, n_classes: int) -> Self:
        """Count items, each so many records of a class that publish the key at its number; class -1 is none.

        >>> keys, item = np.array([1, 12]), np.array([[0, 0, 3], [1, 0, 1], [0, 1, 2], [0, -1, 9]], dtype=np.int32)
        >>> found = ShareTally.of(keys, *item.T, 2)
        >>> found.keys.tolist(), found.records.tolist(), found.lowest.tolist(), found.highest.tolist()
        ([1, 12], [5, 1], [0.75, 0.25], [1.0, 0.25])
        """
        shown = np.flatnonzero((class_of >= 0) & (records > 0))
        first, order = kernels.group_items(class_of[shown].astype(np.int32), n_classes)
        items = shown[order]
        total, classes, lowest, highest = _extremes(first, number[items], records[items].astype(np.int64), len(keys))
        there, n_filled = np.flatnonzero(total), int((np.diff(first) > 0).sum())
        return cls(keys[there], total[there], classes[there], lowest[there], highest[there], n_filled)

    def __add__(self, other: ShareTally) -> ShareTally:
        """Take the classes of both."""
        keys = np.union1d(self.keys, other.keys)
        records, classes = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
        lowest, highest = np.ones(len(keys)), np.zeros(len(keys))
        for one in (self, other):
            at = np.searchsorted(keys, one.keys)
            records[at] += one.records
            classes[at] += one.classes
            lowest[at] = np.minimum(lowest[at], one.lowest)
            highest[at] = np.maximum(highest[at], one.highest)
        return ShareTally(keys, records, classes, lowest, highest, self.n_classes + other.n_classes)

    def as_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """Return the most frequent ``values``, each with its share in the ``whole``, and how many ``more`` there are.

        ``lowest`` and ``highest`` are the shares in classes; a class without the value counts as 0.
        """
        shown = np.lexsort((self.keys, -self.records))[:MOST_VALUES]
        total, width = int(self.records.sum()), taxonomy.n_leaves + 1
        values = [
            {
                "value": taxonomy.label(int(self.keys[at]) // width, int(self.keys[at]) % width),
                "whole": int(self.records[at]) / total,
                "lowest": float(self.lowest[at]) if self.classes[at] == self.n_classes else 0.0,
                "highest": float(self.highest[at]),
            }
            for at in shown.tolist()
        ]
        return {"values": values, "more": len(self.keys) - len(shown)}


def class_shares(problem: Problem, plan: Plan, place: int) -> ShareTally:
    """Return the shares of what classes publish of one sensitive attribute, generalized values as they are."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    number = problem.cells.codes[len(problem.quasi) + place][cell].astype(np.int32)
    n_leaves = problem.sensitive[place].taxonomy.n_leaves
    keys = _leaf_keys(n_leaves)
    if plan.targets is not None:
        lo, hi = plan.targets.lo[:, place].astype(np.int64), plan.targets.hi[:, place].astype(np.int64)
        keys, which = np.unique(
            np.append(keys, np.where(lo == KEPT, keys[0], lo * (n_leaves + 1) + hi)), return_inverse=True
        )
        which = which.reshape(-1).astype(np.int32)
        ranged = np.append(lo != KEPT, False)[target]
        number = np.where(ranged, np.append(which[n_leaves:], np.int32(0))[target], which[number])
    return ShareTally.of(keys, number, class_of, records, plan.n_classes)


def bucket_shares(problem: Problem, plan: SlicedPlan, place: int) -> ShareTally:
    """Return the shares of the values of one sensitive attribute in buckets."""
    pieces = plan.pieces(problem.cells.counts)
    number = problem.cells.codes[len(problem.quasi) + place][pieces.cell].astype(np.int32)
    keys = _leaf_keys(problem.sensitive[place].taxonomy.n_leaves)
    return ShareTally.of(keys, number, pieces.bucket, pieces.records, plan.n_buckets)


def _leaf_keys(n_leaves: int) -> IntArray:
    """Return (n_leaves,) the key of each leaf."""
    return np.arange(n_leaves, dtype=np.int64) * (n_leaves + 2) + 1


@compiled
def _extremes(
    first: NDArray[np.int64], value: NDArray[np.int32], records: NDArray[np.int64], n_values: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the records of each value, the classes that have it, and its lowest and highest share in these."""
    total = np.zeros(n_values, dtype=np.int64)
    classes = np.zeros(n_values, dtype=np.int64)
    lowest, highest = np.ones(n_values), np.zeros(n_values)
    here = np.zeros(n_values, dtype=np.int64)
    for number in range(len(first) - 1):
        size = 0
        for item in range(first[number], first[number + 1]):
            here[value[item]] += records[item]
            size += records[item]
        for item in range(first[number], first[number + 1]):
            found = value[item]
            if here[found] > 0:
                share = here[found] / size
                total[found] += here[found]
                classes[found] += 1
                lowest[found] = min(lowest[found], share)
                highest[found] = max(highest[found], share)
                here[found] = 0
    return total, classes, lowest, highest

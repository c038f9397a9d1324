"""How far up its taxonomy the published values of an attribute are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
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

        >>> from shoal.taxonomies.nested import from_nested
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

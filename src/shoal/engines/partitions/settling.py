"""Which boxes are regions in the end: those that meet every requirement by themselves, others joined until they do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import CodeArray, IntArray
from shoal.engines.partitions.routing import RegionCounts
from shoal.engines.partitions.tree import RegionTree
from shoal.models.base import ClassHistograms
from shoal.plan.problem import Problem, Requirement


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """A region that can be planned alone: the leaves of the tree that it is made of, and its box."""

    leaves: tuple[int, ...]
    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    n_records: int


def settled(tree: RegionTree, counts: RegionCounts, problem: Problem, *, mending: bool = False) -> list[Settled]:
    """Return the smallest regions that meet every requirement as one class, joined with their siblings if need be.

    *problem* has the requirements with the whole table's counts. If not even the root meets them, it is the only one.
    With *mending*, what they would be met by with all sensitive values generalized is enough.
    """
    found = _Settling(tree, counts, problem, mending).under(0)
    root = tree.nodes[0]
    whole = Settled(tuple(range(len(tree.leaves))), root.lo, root.hi, int(counts.sizes.sum()))
    return found or [whole]


class _Settling:
    def __init__(self, tree: RegionTree, counts: RegionCounts, problem: Problem, mending: bool) -> None:
        self._tree, self._counts, self._problem, self._mending = tree, counts, problem, mending
        self._number = {node: number for number, node in enumerate(tree.leaves)}

    def under(self, place: int) -> list[Settled] | None:
        """Return the regions below a node, none if it has no records; None if they fail and it may not be one."""
        node = self._tree.nodes[place]
        if node.attribute >= 0:
            below, above = self.under(node.below), self.under(node.above)
            if below is not None and above is not None:
                return below + above
        leaves = self._leaves(place)
        n_records = int(self._counts.sizes[leaves].sum())
        if not n_records:
            return []
        if not (node.closed and self._holds(leaves)):
            return None
        return [Settled(tuple(leaves), node.lo, node.hi, n_records)]

    def _leaves(self, place: int) -> list[int]:
        node = self._tree.nodes[place]
        if node.attribute < 0:
            return [self._number[place]]
        return self._leaves(node.below) + self._leaves(node.above)

    def _holds(self, leaves: list[int]) -> bool:
        """Whether records of some leaves meet every requirement as one class."""
        size = np.array([self._counts.sizes[leaves].sum()])
        for requirement in self._problem.requirements:
            values = None
            if requirement.values is not None:
                values = self._values(requirement.model.attributes, leaves)[np.newaxis]
            whole = requirement.whole(self._problem.cells.counts)
            if requirement.model.holds(ClassHistograms(size, values), whole)[0]:
                continue
            if not (self._mending and self._holds_mended(requirement, size)):
                return False
        return True

    def _holds_mended(self, requirement: Requirement, size: IntArray) -> bool:
        """Whether so many records meet a requirement if all publish the root for their sensitive value.

        Models that do not know generalized values forbid that.
        """
        if requirement.place is None or not self._problem.may_generalize(requirement.place):
            return False
        weights = requirement.induced(self._problem.cells.counts).weights
        unit = int(weights.sum())
        mended = ClassHistograms(size * unit, (size * weights)[np.newaxis], unit=unit)
        return bool(requirement.model.holds(mended, requirement.whole(self._problem.cells.counts))[0])

    def _values(self, names: tuple[str, ...], leaves: list[int]) -> IntArray:
        counts: IntArray = self._counts.values[names][leaves].sum(axis=0)
        if len(names) == 1:
            return counts
        known = self._counts.whole.joint[names]
        return counts[known.place >= 0]

"""The earth mover's distance for three ground distances, in integers.

With c of n records in a class and C of N in the whole table, the earth to be moved at a value is
c N - C n, over a common n N. Each ground distance below has a closed form: a weighted sum of the absolute
surplus of certain sets of neighbouring values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import PolicyError
from shoal.models.exact import integers, peak, row_blocks
from shoal.taxonomies.tree import Taxonomy


class Ground(ABC):
    """How far values are apart; the distance of two distributions is the work over ``unit`` n N."""

    unit: int

    @abstractmethod
    def work(self, surplus: NDArray[Any]) -> NDArray[Any]:
        """Return (n_classes,) the work that levels the surplus (n_classes, n_values)."""


@dataclass(frozen=True)
class Equal(Ground):
    """All values are at distance 1, and half the sum of all surpluses moves."""

    unit: int = 2

    def work(self, surplus: NDArray[Any]) -> NDArray[Any]:
        """Add up the surpluses."""
        return np.asarray(np.abs(surplus).sum(axis=1))


@dataclass(frozen=True)
class Ordered(Ground):
    """Values that occur are equally spaced, and what the first i have too much passes on to the next."""

    unit: int
    occurring: BoolArray  # (n_values,)

    @classmethod
    def of(cls, whole_counts: IntArray) -> Self:
        """Rank the values that occur in the table."""
        occurring = whole_counts > 0
        return cls(max(1, int(np.count_nonzero(occurring)) - 1), occurring)

    def work(self, surplus: NDArray[Any]) -> NDArray[Any]:
        """Add up what passes from each value to the next."""
        ranked = surplus if self.occurring.all() else surplus[:, self.occurring]
        return np.asarray(np.abs(np.cumsum(ranked, axis=1)).sum(axis=1))


@dataclass(frozen=True)
class Hierarchical(Ground):
    """Values are as far apart as their lowest common ancestor is high, the tree being 1 high.

    The way from a leaf up to an ancestor and down to another leaf takes, for each node v below the ancestor,
    half of height(parent of v) - height(v): these add up to the ancestor's height. So this is the distance
    along a tree's edges, and the surplus of every node crosses the edge above it.
    """

    unit: int
    leaf_weights: IntArray  # (n_values,)
    lo: IntArray  # (n_inner,) leaf ranges of the inner nodes below the root
    hi: IntArray  # (n_inner,)
    weights: IntArray  # (n_inner,)

    @classmethod
    def of(cls, taxonomy: Taxonomy, n_values: int) -> Self:
        """Weigh the nodes of a taxonomy whose leaves are the values."""
        if taxonomy.n_leaves != n_values:
            raise PolicyError(
                f"the sensitive attribute's taxonomy has {taxonomy.n_leaves} leaves but {n_values} values "
                "were counted; count by its leaves"
            )
        height = node_heights(taxonomy)
        below_root = np.flatnonzero(taxonomy.parent >= 0)
        steps = np.zeros(len(height), dtype=np.int64)
        steps[below_root] = height[taxonomy.parent[below_root]] - height[below_root]
        inner = below_root[below_root >= n_values]
        return cls(
            unit=2 * max(1, int(height.max())),
            leaf_weights=steps[:n_values],
            lo=taxonomy.lo[inner].astype(np.int64),
            hi=taxonomy.hi[inner].astype(np.int64),
            weights=steps[inner],
        )

    def work(self, surplus: NDArray[Any]) -> NDArray[Any]:
        """Add up what crosses each edge, times the edge's length."""
        before = np.zeros((len(surplus), surplus.shape[1] + 1), dtype=surplus.dtype)
        np.cumsum(surplus, axis=1, out=before[:, 1:])
        of_nodes = np.abs(before[:, self.hi] - before[:, self.lo]) @ self.weights
        return np.asarray(np.abs(surplus) @ self.leaf_weights + of_nodes)


def node_heights(taxonomy: Taxonomy) -> IntArray:
    """Return (n_nodes,) the longest way down from each node to a leaf."""
    height = np.zeros(len(taxonomy.parent), dtype=np.int64)
    for level in range(int(taxonomy.level.max()), 0, -1):
        nodes = np.flatnonzero(taxonomy.level == level)
        np.maximum.at(height, taxonomy.parent[nodes], height[nodes] + 1)
    return height


def work(ground: Ground, counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> NDArray[Any]:
    """Return (n_classes,) ``unit`` n N times the distance of each class to the whole table, exactly.

    >>> work(Equal(), np.array([[2, 0]]), np.array([2]), np.array([2, 2]), 4)
    array([8])
    """
    # the distance is at most 1 and all terms are positive, so that no partial sum exceeds unit n N
    largest = 2 * ground.unit * max(1, peak(sizes)) * max(1, whole_size)
    total = integers(np.zeros(len(counts), dtype=np.int64), largest)
    reference = integers(whole_counts, largest)
    for rows in row_blocks(counts):
        have = integers(counts[rows], largest) * whole_size
        surplus = have - integers(sizes[rows], largest)[:, np.newaxis] * reference
        total[rows] = ground.work(surplus)
    return total

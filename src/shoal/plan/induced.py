"""Induced frequencies: what a record under a generalized sensitive value says about the values below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy

_WIDEST = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class Induced:
    """A record published as a node counts for each leaf below it in proportion to the adversary's weights.

    Tian and Zhang, Definition 2. To stay exact, a record is cut into ``factor`` units, so many that every share is
    a whole number of them; a record that keeps its own value gives all units to that. Nodes that would need
    more units than 64-bit sums hold are not ``allowed``; the root always is.

    >>> from shoal.taxonomies.files import from_nested
    >>> disease = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
    >>> induced = Induced.of(disease, [Fraction(1)] * 4, 12)
    >>> induced.factor, induced.counts(np.array([[2, 0, 1, 0, 1, 0, 0]])).tolist()
    (4, [[10, 2, 4, 0]])
    """

    taxonomy: Taxonomy
    weights: IntArray  # (n_leaves,) in whole numbers
    totals: IntArray  # (n_nodes,) weight below each node
    allowed: BoolArray  # (n_nodes,) whether a record may be published as this node
    factor: int

    @classmethod
    def of(cls, taxonomy: Taxonomy, weights: Sequence[Fraction], n_records: int) -> Induced:
        """Find the units in which shares of *n_records* records are whole numbers."""
        scale = math.lcm(*(weight.denominator for weight in weights))
        whole = [int(weight * scale) for weight in weights]
        common = math.gcd(*whole) or 1
        if sum(whole) // common * max(n_records, 1) >= _WIDEST:
            raise PolicyError("the weights are too fine to be added exactly; give them with fewer digits")
        exact = np.array(whole, dtype=np.int64) // common
        running = np.concatenate([[0], np.cumsum(exact)])
        totals = running[taxonomy.hi] - running[taxonomy.lo]
        allowed = np.zeros(taxonomy.n_nodes, dtype=np.bool_)
        allowed[: taxonomy.n_leaves] = True
        factor = 1
        inner = range(taxonomy.n_leaves, taxonomy.n_nodes)
        for node in sorted(inner, key=lambda node: (int(taxonomy.level[node]), node)):
            below = exact[taxonomy.lo[node] : taxonomy.hi[node]]
            if not totals[node]:
                continue
            needed = math.lcm(factor, int(totals[node]) // int(np.gcd.reduce(below)))
            if needed * max(n_records, 1) < _WIDEST:
                factor = needed
                allowed[node] = True
        return cls(taxonomy, exact, totals, allowed, factor)

    def units(self, node: int) -> IntArray:
        """Return the units that a record published as *node* gives to each leaf from ``lo[node]`` to ``hi[node]``."""
        if node < self.taxonomy.n_leaves:
            return np.array([self.factor], dtype=np.int64)
        below = self.weights[self.taxonomy.lo[node] : self.taxonomy.hi[node]]
        share = int(self.totals[node]) // int(np.gcd.reduce(below))
        result: IntArray = below // int(np.gcd.reduce(below)) * (self.factor // share)
        return result

    def counts(self, by_node: IntArray) -> IntArray:
        """Return (n_classes, n_leaves) units of each leaf, given (n_classes, n_nodes) records of each node."""
        n_leaves = self.taxonomy.n_leaves
        result = by_node[:, :n_leaves] * self.factor
        for node in (np.flatnonzero(by_node[:, n_leaves:].any(axis=0)) + n_leaves).tolist():
            below = slice(self.taxonomy.lo[node], self.taxonomy.hi[node])
            result[:, below] += by_node[:, node, np.newaxis] * self.units(node)
        return result

    def steps(self, allowed: BoolArray) -> CodeArray:
        """Return (n_nodes,) the next *allowed* node above each that spreads over more leaves; the root is its own."""
        parent = self.taxonomy.parent
        spread = np.concatenate([[0], np.cumsum(self.weights > 0)])
        wide = spread[self.taxonomy.hi] - spread[self.taxonomy.lo]
        following = np.empty(self.taxonomy.n_nodes, dtype=np.int32)
        for node in range(self.taxonomy.n_nodes):
            up = node
            while up != self.taxonomy.root and (up == node or not allowed[up] or wide[up] <= wide[node]):
                up = int(parent[up])
            following[node] = up
        return following

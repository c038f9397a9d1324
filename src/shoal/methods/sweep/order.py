"""The order of quasi-identifier values: level vectors, the most informative first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.plan.problem import Attribute
from shoal.taxonomies.tree import Taxonomy

_MOST_SCOUTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The items of V: combinations of tree levels (0 = root), in the order in which they are swept.

    Tian and Zhang, Definition 6: by average information, then by the levels of the attributes in the order of
    their importance, larger first.
    """

    levels: CodeArray  # (n_items, n_quasi)

    @classmethod
    def of(cls, attributes: Sequence[Attribute], columns: Sequence[AnyIntArray]) -> Items:
        """Sort all level vectors, given the attributes and the leaves that occur of each; weights count as they are."""
        average = [
            [Fraction(str(attribute.weight)) * share for share in level_information(attribute.taxonomy, column)]
            for attribute, column in zip(attributes, columns, strict=True)
        ]
        scale = math.lcm(*(share.denominator for shares in average for share in shares))
        whole = [[int(share * scale) for share in shares] for shares in average]
        vectors = sorted(
            product(*(range(attribute.taxonomy.height + 1) for attribute in attributes)),
            key=lambda levels: (sum(whole[j][level] for j, level in enumerate(levels)), levels),
            reverse=True,
        )
        return cls(np.array(vectors, dtype=np.int32).reshape(len(vectors), len(attributes)))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.levels)


@dataclass(frozen=True, slots=True, eq=False)
class Scouts:
    """Level vectors each of which is more general than, or equal to, a cluster of items."""

    levels: CodeArray  # (n_scouts, n_quasi) at most 64
    of_item: IntArray  # (n_items,)

    @classmethod
    def of(cls, items: Items) -> Scouts:
        """Round levels down to multiples of a step, the least step that leaves few enough vectors."""
        step = 2
        while True:
            levels, of_item = np.unique(items.levels // step * step, axis=0, return_inverse=True)
            if len(levels) <= _MOST_SCOUTS:
                return cls(levels, of_item.reshape(-1).astype(np.int64))
            step += 1


def level_information(taxonomy: Taxonomy, leaves: AnyIntArray) -> list[Fraction]:
    """Return I(S) of every level: the mean of 1 / leaves over its nodes, weighted by their leaves that occur.

    >>> from shoal.taxonomies.nested import from_nested
    >>> level_information(from_nested({"a0": ["a1", "a2"]}), np.array([0, 1]))
    [Fraction(1, 2), Fraction(1, 1)]
    """
    occurs = np.zeros(taxonomy.n_leaves, dtype=np.int64)
    occurs[leaves] = 1
    running = np.concatenate([[0], np.cumsum(occurs)])
    averages = []
    for level in range(taxonomy.height + 1):
        nodes = np.flatnonzero(taxonomy.level == level)
        weights = running[taxonomy.hi[nodes]] - running[taxonomy.lo[nodes]]
        below = taxonomy.hi[nodes] - taxonomy.lo[nodes]
        # nodes with the same number of leaves are added up together, so that there are few fractions
        sizes, place = np.unique(below, return_inverse=True)
        of_size = np.bincount(place.reshape(-1), weights=weights).astype(np.int64)
        total = int(weights.sum())
        share = sum((Fraction(int(w), int(size)) for w, size in zip(of_size, sizes, strict=True)), Fraction(0))
        averages.append(share / total if total else Fraction(0))
    return averages


def nodes_at_levels(taxonomy: Taxonomy) -> CodeArray:
    """Return (height + 1, n_leaves) the ancestor of each leaf at each tree level, -1 below the leaf's own level."""
    table = np.full((taxonomy.height + 1, taxonomy.n_leaves), -1, dtype=np.int32)
    nodes = np.arange(taxonomy.n_leaves, dtype=np.int32)
    while True:
        table[taxonomy.level[nodes], np.arange(taxonomy.n_leaves)] = nodes
        inner = taxonomy.parent[nodes] >= 0
        if not inner.any():
            return table
        nodes = np.where(inner, taxonomy.parent[nodes], nodes)

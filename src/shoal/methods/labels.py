"""The labels of leaves and their widths: taxonomies as arrays for compiled loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import light_kernel
from shoal.plan.problem import Attribute
from shoal.taxonomies.tree import range_ends
from shoal.utility.information import relative_widths


class Trees(NamedTuple):
    """The taxonomies of all attributes, concatenated; attribute j's nodes start at ``first_node[j]``."""

    parent: CodeArray  # (n_nodes of all,) within the attribute
    lo: CodeArray
    hi: CodeArray
    level: CodeArray
    width: FloatArray  # (n_nodes of all,) as a share of the domain, times the attribute's weight
    first_node: IntArray  # (d,)
    ancestor: CodeArray  # per attribute: (height + 1, n_leaves) the node above a leaf at a level, or the leaf
    first_ancestor: IntArray  # (d,)
    n_leaves: IntArray  # (d,)
    place: FloatArray  # (n_leaves of all,) position from 0 to the attribute's weight; missing at twice that
    first_leaf: IntArray  # (d,)
    full: FloatArray  # (d,) the width of the whole domain
    low_end: CodeArray  # (n_leaves of all,) the first leaf of a range whose lowest value is this leaf; -1: no ranges
    high_end: CodeArray  # (n_leaves of all,) the last leaf of a range whose highest value is this leaf

    @classmethod
    def of(cls, quasi: Sequence[Attribute], ranges: Sequence[bool] | BoolArray) -> Trees:
        """Concatenate the taxonomies; *ranges* selects attributes that are published as ranges instead of nodes."""
        trees = [attribute.taxonomy for attribute in quasi]
        ends = [
            range_ends(tree) if as_ranges else (np.full(tree.n_leaves, -1),) * 2
            for tree, as_ranges in zip(trees, ranges, strict=True)
        ]
        above = [
            np.stack([tree.node_at(tree.height - level) for level in range(tree.height + 1)]).ravel() for tree in trees
        ]
        n_leaves = [tree.n_leaves for tree in trees]
        return cls(
            parent=_lay_out(tree.parent for tree in trees),
            lo=_lay_out(tree.lo for tree in trees),
            hi=_lay_out(tree.hi for tree in trees),
            level=_lay_out(tree.level for tree in trees),
            width=np.concatenate(
                [one.weight * relative_widths(tree, tree.lo, tree.hi) for one, tree in zip(quasi, trees, strict=True)]
            ),
            first_node=_firsts([tree.n_nodes for tree in trees]),
            ancestor=_lay_out(above),
            first_ancestor=_firsts([len(nodes) for nodes in above]),
            n_leaves=np.array(n_leaves, dtype=np.int64),
            place=np.concatenate([_places(attribute) for attribute in quasi]),
            first_leaf=_firsts(n_leaves),
            full=np.array([attribute.weight for attribute in quasi]),
            low_end=_lay_out(low for low, _ in ends),
            high_end=_lay_out(high for _, high in ends),
        )


def _lay_out(arrays: Iterable[AnyIntArray]) -> CodeArray:
    return np.concatenate(list(arrays)).astype(np.int32)


def _firsts(lengths: list[int]) -> IntArray:
    return np.cumsum([0, *lengths[:-1]]).astype(np.int64)


def _places(attribute: Attribute) -> FloatArray:
    known = np.arange(attribute.taxonomy.n_leaves - (attribute.taxonomy.missing is not None), dtype=np.int32)
    place = np.full(attribute.taxonomy.n_leaves, 2 * attribute.weight)
    place[known] = attribute.weight * relative_widths(attribute.taxonomy, np.zeros_like(known), known + 1)
    return place


@light_kernel
def covering_node(trees: Trees, j: int, low: int, high: int) -> int:
    """Return the lowest node of attribute j that contains two leaves."""
    base, node = trees.first_node[j], low
    while trees.hi[base + node] <= high:
        node = trees.parent[base + node]
    return node


@light_kernel
def is_range(trees: Trees, j: int, low: int, high: int) -> bool:
    """Whether leaves from *low* to *high* are published as a range, because they exceed one finest group."""
    base = trees.first_leaf[j]
    return bool(trees.low_end[base + low] >= 0 and trees.low_end[base + low] != trees.low_end[base + high])


@light_kernel
def find_range(trees: Trees, j: int, low: int, high: int) -> tuple[int, int]:
    """Return the published leaf range of records from leaf *low* to leaf *high*."""
    base = trees.first_leaf[j]
    if is_range(trees, j, low, high):
        return trees.low_end[base + low], trees.high_end[base + high] + 1
    node = trees.first_node[j] + covering_node(trees, j, low, high)
    return trees.lo[node], trees.hi[node]


@light_kernel
def range_width(trees: Trees, j: int, lo: int, hi: int) -> float:
    """Return the width of the leaves from *lo* up to, but without, *hi*."""
    base = trees.first_leaf[j]
    return float(min(trees.place[base + hi - 1] - trees.place[base + lo], trees.full[j]))


def measure_labels(trees: Trees, attribute: CodeArray, low: CodeArray, high: CodeArray) -> FloatArray:
    """Return (n,) the widths of labels that cover leaves *low* to *high* of one attribute each."""
    nodes, leaves, node = trees.first_node[attribute], trees.first_leaf[attribute], low.astype(np.int64)
    while (below := trees.hi[nodes + node] <= high).any():
        node[below] = trees.parent[(nodes + node)[below]]
    low_end, high_end = trees.low_end[leaves + low], trees.high_end[leaves + high]
    ranged = (low_end >= 0) & (low_end != trees.low_end[leaves + high])
    ranges = np.minimum(trees.place[leaves + high_end] - trees.place[leaves + low_end], trees.full[attribute])
    return np.asarray(np.where(ranged, ranges, trees.width[nodes + node]))

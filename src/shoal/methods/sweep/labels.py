"""Labels of quasi values: level vectors in the order of the sweep, and compiled loops that group cells by label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import compiled, inlined
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.tree import Taxonomy

MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits have no pattern: it scatters keys

_MOST_SCOUTS = 64


def sort_items(attributes: Sequence[Attribute], columns: Sequence[AnyIntArray]) -> CodeArray:
    """Return (n_items, n_quasi) the items of V: combinations of tree levels (0 = root), in the order of the sweep.

    Tian and Zhang, Definition 6: by average information, then by the levels of the attributes in the order of their
    importance, larger first. Given are the attributes, whose weights count as they are, and the leaves that occur.
    """
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
    return np.array(vectors, dtype=np.int32).reshape(len(vectors), len(attributes))


def find_scouts(items: CodeArray) -> tuple[CodeArray, IntArray]:
    """Return at most 64 level vectors, each more general than, or equal to, a cluster of items, and that of each item.

    Levels are rounded down to multiples of a step, the least step that leaves few enough vectors.
    """
    step = 2
    while True:
        levels, of_item = np.unique(items // step * step, axis=0, return_inverse=True)
        if len(levels) <= _MOST_SCOUTS:
            return levels, of_item.reshape(-1).astype(np.int64)
        step += 1


def level_information(taxonomy: Taxonomy, leaves: AnyIntArray) -> list[Fraction]:
    """Return I(S) of every level: the mean of 1 / leaves over its nodes, weighted by their leaves that occur.

    >>> from shoal.taxonomies.files import from_nested
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
    levels = np.arange(taxonomy.height + 1)
    table = np.stack([taxonomy.node_at(taxonomy.height - level) for level in levels.tolist()])
    return np.where(levels[:, np.newaxis] > taxonomy.level[: taxonomy.n_leaves], np.int32(-1), table)


@inlined
def label_node(trees: TreeTables, levels: CodeArray, cell: int, j: int) -> int:
    """Return the node of a cell's j-th quasi value at a level vector; -1 if its leaf is nearer to the root."""
    return int(trees.table[trees.offset[j] + levels[j] * trees.width[j] + trees.leaves[cell, j]])


@compiled
def same_label(trees: TreeTables, levels: CodeArray, one: int, other: int) -> bool:
    """Say whether two cells bear the same label at a level vector."""
    same = True
    for j in range(len(levels)):
        same = same and label_node(trees, levels, one, j) == label_node(trees, levels, other, j)
    return same


@inlined
def slot_of(key: np.uint64, number: int, mask: np.uint64) -> np.uint64:
    """Return where to look for a label's key, together with a number, in a table of mask + 1 slots."""
    mixed = (key ^ (key >> np.uint64(31)) ^ (np.uint64(number) << np.uint64(40))) * MIX
    return (mixed >> np.uint64(20)) & mask


@compiled
def group_by_label(
    trees: TreeTables,
    levels: CodeArray,
    live: IntArray,
    row: IntArray,
    records: IntArray,
    raised: BoolArray,
    at_least: int,
    if_raised: int,
) -> tuple[CodeArray, CodeArray]:
    """Return (n_live,) the class of each live part at a level vector, and (n_classes, n_quasi) the nodes of classes.

    Parts whose leaves are too shallow, or whose class is too small, have class -1. A class is too small below
    *at_least* records, or below *if_raised* if some of its parts are *raised*.
    """
    n, d = len(live), len(levels)
    size = 16
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, dtype=np.int32)
    keys = np.empty(n, dtype=np.uint64)  # of classes, as the following three
    example = np.empty(n, dtype=np.int64)
    total = np.zeros(n, dtype=np.int64)
    enough = np.empty(n, dtype=np.int64)
    class_of = np.full(n, -1, dtype=np.int32)
    n_classes = 0
    for i in range(n):
        part = live[i]
        key, shallow = np.uint64(0), False
        for j in range(d):
            node = label_node(trees, levels, row[part], j)
            shallow = shallow or node < 0
            key += np.uint64(node) * trees.multiplier[j]
        if shallow:
            continue
        slot = slot_of(key, 0, mask)
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = n_classes
                keys[n_classes], example[n_classes], enough[n_classes] = key, i, at_least
                found = np.int32(n_classes)
                n_classes += 1
                break
            if keys[found] == key and (trees.exact or same_label(trees, levels, row[part], row[live[example[found]]])):
                break
            slot = (slot + np.uint64(1)) & mask
        class_of[i] = found
        total[found] += records[part]
        if raised[part]:
            enough[found] = if_raised
    number = np.full(n_classes + 1, -1, dtype=np.int32)  # the last is for parts without a class
    kept = 0
    for c in range(n_classes):
        if total[c] >= enough[c]:
            number[c] = kept
            kept += 1
    for i in range(n):
        class_of[i] = number[class_of[i]]
    nodes = np.empty((kept, d), dtype=np.int32)
    for c in range(n_classes):
        if number[c] >= 0:
            for j in range(d):
                nodes[number[c], j] = label_node(trees, levels, row[live[example[c]]], j)
    return class_of, nodes


class TreeTables(NamedTuple):
    """The quasi attributes: the ancestors of every leaf at every level, all in one array.

    The node of leaf a of attribute j at level h is ``table[offset[j] + h * width[j] + a]``, -1 below the leaf's own
    level. The sum of nodes times ``multiplier`` tells labels apart if it is ``exact``, and is a good hash if it is not.
    """

    leaves: CodeArray  # (n_cells, n_quasi)
    table: CodeArray
    offset: IntArray  # (n_quasi,)
    width: IntArray  # (n_quasi,)
    multiplier: KeyArray  # (n_quasi,)
    exact: bool


def tree_tables(problem: Problem) -> TreeTables:
    """Write down the quasi attributes for the compiled loops."""
    tables = [nodes_at_levels(attribute.taxonomy) for attribute in problem.quasi]
    radix, multiplier = 1, []
    for attribute in problem.quasi:
        multiplier.append(radix)
        radix *= attribute.taxonomy.n_nodes
    exact = radix < 1 << 63
    if not exact:
        multiplier = [pow(int(MIX), j + 1, 1 << 64) for j in range(len(tables))]
    factors = np.array(multiplier, dtype=np.uint64)
    leaves = np.stack([codes.astype(np.int32) for codes in problem.quasi_codes], axis=1)
    return TreeTables(
        leaves=leaves,
        table=np.concatenate([table.reshape(-1) for table in tables]),
        offset=np.cumsum([0, *(table.size for table in tables[:-1])]).astype(np.int64),
        width=np.array([table.shape[1] for table in tables], dtype=np.int64),
        multiplier=factors,
        exact=exact,
    )


def group_cells(
    trees: TreeTables, levels: CodeArray, cells: IntArray, records: IntArray
) -> tuple[CodeArray, CodeArray]:
    """Return (n_cells,) the class of cells at a level vector, -1 where a leaf is too shallow, and classes' nodes."""
    nobody = np.zeros(len(cells), dtype=np.bool_)
    return group_by_label(trees, levels, np.arange(len(cells)), cells, records, nobody, 0, 0)

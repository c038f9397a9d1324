"""Compiled loops of the sweep: parts into classes by their labels."""

from __future__ import annotations

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.compiled import compiled, inlined
from shoal.methods.sweep.rules import Rules, TreeTables

MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits have no pattern: it scatters keys


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
def _slot(key: np.uint64, mask: np.uint64) -> np.uint64:
    return ((key ^ (key >> np.uint64(31))) * MIX >> np.uint64(20)) & mask


@compiled
def _possible_members(
    trees: TreeTables,
    levels: CodeArray,
    live: IntArray,
    row: IntArray,
    records: IntArray,
    raised: BoolArray,
    at_least: int,
) -> tuple[KeyArray, IntArray]:
    """Return the keys of the labels of live parts, and the parts whose class may be large enough.

    Records are first counted in a small table in which labels may share a place, so that most of those whose label is
    rare are found without looking far in memory.
    """
    n, d = len(live), len(levels)
    size = 1 << 10
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    seen = np.zeros(size, dtype=np.uint8)
    keys = np.empty(n, dtype=np.uint64)
    shallow = np.zeros(n, dtype=np.bool_)
    most = min(at_least, 255)
    start, shared, terms, uneven = trees.start.copy(), trees.shared, trees.terms, trees.uneven
    for j in range(d):
        start[trees.column[j]] += levels[j] * trees.step[j]
    for i in range(n):
        part = live[i]
        here = row[part]
        key = np.uint64(0)
        for column in range(len(start)):
            key += terms[start[column] + shared[here, column]]
        keys[i] = key
        if uneven:
            for j in range(d):
                if label_node(trees, levels, here, j) < 0:
                    shallow[i] = True
            if shallow[i]:
                continue
        slot = _slot(key, mask)
        # a class with raised parts may be smaller, however few records each of them has
        seen[slot] = most if raised[part] else min(seen[slot] + records[part], most)
    maybe = np.empty(n, dtype=np.int64)
    found = 0
    for i in range(n):
        if not shallow[i] and seen[_slot(keys[i], mask)] >= most:
            maybe[found] = i
            found += 1
    return keys, maybe[:found]


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
    keys, maybe = _possible_members(trees, levels, live, row, records, raised, at_least)
    size = 16
    while size < 2 * len(maybe):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, dtype=np.int32)
    example = np.empty(len(maybe), dtype=np.int64)
    total = np.zeros(len(maybe), dtype=np.int64)
    enough = np.empty(len(maybe), dtype=np.int64)
    class_of = np.full(n, -1, dtype=np.int32)
    n_classes = 0
    for i in maybe:
        slot = _slot(keys[i], mask)
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = n_classes
                example[n_classes] = i
                enough[n_classes] = at_least
                found = np.int32(n_classes)
                n_classes += 1
                break
            other = example[found]
            if keys[other] == keys[i] and (trees.exact or same_label(trees, levels, row[live[i]], row[live[other]])):
                break
            slot = (slot + np.uint64(1)) & mask
        class_of[i] = found
        total[found] += records[live[i]]
        if raised[live[i]]:
            enough[found] = if_raised
    number = np.full(n_classes, -1, dtype=np.int32)
    kept = 0
    for c in range(n_classes):
        if total[c] >= enough[c]:
            number[c] = kept
            kept += 1
    for i in maybe:
        class_of[i] = number[class_of[i]]
    nodes = np.empty((kept, d), dtype=np.int32)
    for c in range(n_classes):
        if number[c] >= 0:
            for j in range(d):
                nodes[number[c], j] = label_node(trees, levels, row[live[example[c]]], j)
    return class_of, nodes


@compiled
def without_hope(
    class_of: CodeArray, n_classes: int, live: IntArray, pattern: CodeArray, patterns: CodeArray, rules: Rules
) -> BoolArray:
    """Return (n_live,) whether a part's class, and so each of its subsets, covers too few values for some rule.

    Parts without a class have no hope either.
    """
    n_rules = len(rules.place)
    distinct = np.zeros((n_classes, n_rules), dtype=np.int64)
    first, order = kernels.grouped(class_of, n_classes)
    had = np.full(rules.first_node[-1], -1, dtype=np.int64)  # the class that last had a node
    covered = np.full(rules.first_leaf[-1], -1, dtype=np.int64)  # the class that last covered a leaf
    for c in range(n_classes):
        for k in range(first[c], first[c + 1]):
            for r in range(n_rules):
                node = patterns[pattern[live[order[k]]], rules.place[r]]
                number = rules.first_node[r] + node
                if had[number] == c:
                    continue
                had[number] = c
                kept = node < rules.n_leaves[r]
                for leaf in range(rules.first_leaf[r] + rules.lo[number], rules.first_leaf[r] + rules.hi[number]):
                    if covered[leaf] != c and (kept or rules.weights[leaf] > 0):
                        covered[leaf] = c
                        distinct[c, r] += 1
    result = np.empty(len(live), dtype=np.bool_)
    for i in range(len(live)):
        result[i] = class_of[i] < 0
        for r in range(n_rules):
            result[i] = result[i] or distinct[class_of[i], r] < rules.distinct[r]
    return result

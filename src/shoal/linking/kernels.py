"""Compiled loops of linking: what all boxes that meet leave together."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import compiled, inlined
from shoal.linking.tree import DEPTH, Tree

Sparse: TypeAlias = tuple[IntArray, IntArray, IntArray]  # start, value, count


@inlined
def _apart(one: CodeArray, i: int, other: CodeArray, j: int) -> bool:
    for a in range(one.shape[1] // 2):
        if one[i, 2 * a] >= other[j, 2 * a + 1] or other[j, 2 * a] >= one[i, 2 * a + 1]:
            return True
    return False


@inlined
def _gap(
    one: CodeArray, i: int, uneven: CodeArray, other: CodeArray, j: int, uneven_there: CodeArray, bits: KeyArray
) -> bool:
    """Whether labels with gaps have no code in common, although their hulls do.

    *uneven* has of each box, attribute by attribute, the rows of *bits* of all its labels that have gaps, or -1.
    """
    d = one.shape[1] // 2
    depth = uneven.shape[1] // d
    for a in range(d):
        some = uneven_there[j, a] >= 0
        for member in range(depth):
            some = some or uneven[i, member * d + a] >= 0
        if not some:
            continue
        low = max(one[i, 2 * a], other[j, 2 * a])
        high = min(one[i, 2 * a + 1], other[j, 2 * a + 1])
        common = False
        for word in range(low >> 6, ((high - 1) >> 6) + 1):
            left = np.uint64(0xFFFFFFFFFFFFFFFF)
            if word == low >> 6:
                left &= np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(low & 63)
            if word == (high - 1) >> 6:
                left &= np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - ((high - 1) & 63))
            if uneven_there[j, a] >= 0:
                left &= bits[uneven_there[j, a], word]
            for member in range(depth):
                if uneven[i, member * d + a] >= 0:
                    left &= bits[uneven[i, member * d + a], word]
            if left != np.uint64(0):
                common = True
                break
        if not common:
            return True
    return False


@compiled
def meeting(
    one: CodeArray, uneven: CodeArray, i: int, other: CodeArray, uneven_there: CodeArray, bits: KeyArray, tree: Tree,
    found: IntArray,
) -> int:  # fmt: skip
    """Write down the boxes of the tree that box *i* meets; return how many they are."""
    nodes, bounds, order = tree
    stack = np.empty(DEPTH, dtype=np.int64)
    stack[0] = 0
    height, count = 1, 0
    while height:
        height -= 1
        node = stack[height]
        if _apart(one, i, bounds, node):
            continue
        child = nodes[node, 2]
        if child >= 0:
            stack[height], stack[height + 1] = child, child + 1
            height += 2
            continue
        for place in range(nodes[node, 0], nodes[node, 1]):
            j = order[place]
            if not _apart(one, i, other, j) and not _gap(one, i, uneven, other, j, uneven_there, bits):
                found[count] = j
                count += 1
    return count


@compiled
def link_pairs(
    one: CodeArray, uneven: CodeArray, sparse: Sparse, owner: IntArray, sequence: IntArray,
    other: CodeArray, uneven_there: CodeArray, sparse_there: Sparse, owner_there: IntArray,
    bits: KeyArray, tree: Tree, n_values: int, floor: int, logs: FloatArray,
    below: BoolArray, below_there: BoolArray, met: BoolArray, met_there: BoolArray,
    worst: IntArray, least: FloatArray, totals: IntArray,
) -> None:  # fmt: skip
    """Look at all pairs of boxes that meet, without listing them.

    Boxes of one owner are one class, with the same counts: pairs of owners are looked at once, however often their
    boxes meet. *sequence* has the boxes owner by owner.
    *below* and *met* are set for boxes of pairs below the floor, and of all pairs that leave something.
    *worst* (n_worst, 4) gets the pairs with fewest values: distinct, largest share in millionths, box, box there;
    *least* the smallest distinct, frequency and entropy l; *totals* the pairs that leave something, those below the
    floor, and those that leave nothing.
    """
    start, value, count = sparse
    start_there, value_there, count_there = sparse_there
    here = np.zeros(n_values, dtype=np.int64)
    found = np.empty(other.shape[0], dtype=np.int64)
    met_by = np.full(owner_there.max() + 1, -1, dtype=np.int64)
    for i in sequence:
        for k in range(start[i], start[i + 1]):
            here[value[k]] = count[k]
        n_found = meeting(one, uneven, i, other, uneven_there, bits, tree, found)
        for place in range(n_found):
            j = found[place]
            if met_by[owner_there[j]] == owner[i]:
                continue
            met_by[owner_there[j]] = owner[i]
            distinct, total, most, weighted = 0, 0, 0, 0.0
            for k in range(start_there[j], start_there[j + 1]):
                left = min(here[value_there[k]], count_there[k])
                if left > 0:
                    distinct += 1
                    total += left
                    most = max(most, left)
                    weighted += left * logs[left]
            if distinct == 0:
                totals[2] += 1
                continue
            totals[0] += 1
            met[i] = True
            met_there[j] = True
            if distinct < floor:
                totals[1] += 1
                below[i] = True
                below_there[j] = True
            least[0] = min(least[0], distinct)
            least[1] = min(least[1], total / most)
            least[2] = min(least[2], np.exp(logs[total] - weighted / total))
            share = (most * 1_000_000) // total
            last = worst.shape[0] - 1
            if distinct < worst[last, 0] or (distinct == worst[last, 0] and share > worst[last, 1]):
                at = last
                while at > 0 and (
                    distinct < worst[at - 1, 0] or (distinct == worst[at - 1, 0] and share > worst[at - 1, 1])
                ):
                    for column in range(4):
                        worst[at, column] = worst[at - 1, column]
                    at -= 1
                worst[at, 0], worst[at, 1], worst[at, 2], worst[at, 3] = distinct, share, i, j
        for k in range(start[i], start[i + 1]):
            here[value[k]] = 0


@compiled
def joined(
    one: CodeArray, uneven: CodeArray, sparse: Sparse, other: CodeArray, uneven_there: CodeArray, sparse_there: Sparse,
    bits: KeyArray, tree: Tree, n_values: int, pairs: IntArray, entries: IntArray, write: bool,
) -> tuple[int, int]:  # fmt: skip
    """List the pairs of boxes that meet and leave something; return how many pairs and entries there are.

    *pairs* (n_pairs, 2) gets the boxes, *entries* (n_entries, 3) the pair, value and count.
    """
    start, value, count = sparse
    start_there, value_there, count_there = sparse_there
    here = np.zeros(n_values, dtype=np.int64)
    found = np.empty(other.shape[0], dtype=np.int64)
    n_pairs, n_entries = 0, 0
    for i in range(one.shape[0]):
        for k in range(start[i], start[i + 1]):
            here[value[k]] = count[k]
        n_found = meeting(one, uneven, i, other, uneven_there, bits, tree, found)
        for place in range(n_found):
            j = found[place]
            some = False
            for k in range(start_there[j], start_there[j + 1]):
                left = min(here[value_there[k]], count_there[k])
                if left > 0:
                    some = True
                    if write:
                        entries[n_entries, 0], entries[n_entries, 1] = n_pairs, value_there[k]
                        entries[n_entries, 2] = left
                    n_entries += 1
            if some:
                if write:
                    pairs[n_pairs, 0], pairs[n_pairs, 1] = i, j
                n_pairs += 1
        for k in range(start[i], start[i + 1]):
            here[value[k]] = 0
    return n_pairs, n_entries


@compiled
def summed_for(
    queries: CodeArray, other: CodeArray, uneven_there: CodeArray, sparse: Sparse, bits: KeyArray, tree: Tree,
    sums: IntArray, first: IntArray,
) -> None:  # fmt: skip
    """Add up, for each query, the counts of all boxes that it meets; *first* gets one of them, or -1."""
    start, value, count = sparse
    even = np.full((1, queries.shape[1] // 2), -1, dtype=np.int32)
    one = np.empty((1, queries.shape[1]), dtype=np.int32)
    found = np.empty(other.shape[0], dtype=np.int64)
    for i in range(queries.shape[0]):
        one[0] = queries[i]
        n_found = meeting(one, even, 0, other, uneven_there, bits, tree, found)
        first[i] = found[0] if n_found else -1
        for place in range(n_found):
            j = found[place]
            for k in range(start[j], start[j + 1]):
                sums[i, value[k]] += count[k]


@compiled
def any_overlap(hulls: CodeArray, uneven: CodeArray, bits: KeyArray, tree: Tree) -> bool:
    """Whether some box meets another one of the same release."""
    found = np.empty(hulls.shape[0], dtype=np.int64)
    i = 0
    while i < hulls.shape[0] and meeting(hulls, uneven, i, hulls, uneven, bits, tree, found) == 1:
        i += 1
    return bool(i < hulls.shape[0])


@inlined
def _holds(hulls: CodeArray, uneven: CodeArray, bits: KeyArray, outer: int, inner: int) -> bool:
    """Whether one box has every code of another; hulls with gaps are compared word by word."""
    for a in range(hulls.shape[1] // 2):
        low, high = hulls[inner, 2 * a], hulls[inner, 2 * a + 1]
        if hulls[outer, 2 * a] > low or hulls[outer, 2 * a + 1] < high:
            return False
        row, own = uneven[outer, a], uneven[inner, a]
        if row < 0 or row == own:
            continue
        for code in range(low, high):
            shift = np.uint64(code & 63)
            mine = own < 0 or (bits[own, code >> 6] >> shift) & np.uint64(1) == np.uint64(1)
            if mine and (bits[row, code >> 6] >> shift) & np.uint64(1) == np.uint64(0):
                return False
    return True


@inlined
def _around(bounds: CodeArray, node: int, hulls: CodeArray, inner: int) -> bool:
    for a in range(hulls.shape[1] // 2):
        if bounds[node, 2 * a] > hulls[inner, 2 * a] or bounds[node, 2 * a + 1] < hulls[inner, 2 * a + 1]:
            return False
    return True


@compiled
def holding(hulls: CodeArray, uneven: CodeArray, bits: KeyArray, tree: Tree, pairs: IntArray, write: bool) -> int:
    """List of each box those that hold it wholly, itself among them, as (box, holder); return how many there are."""
    nodes, bounds, order = tree
    stack = np.empty(DEPTH, dtype=np.int64)
    count = 0
    for i in range(hulls.shape[0]):
        stack[0] = 0
        height = 1
        while height:
            height -= 1
            node = stack[height]
            if not _around(bounds, node, hulls, i):
                continue
            child = nodes[node, 2]
            if child >= 0:
                stack[height], stack[height + 1] = child, child + 1
                height += 2
                continue
            for place in range(nodes[node, 0], nodes[node, 1]):
                if _holds(hulls, uneven, bits, order[place], i):
                    if write:
                        pairs[count, 0], pairs[count, 1] = i, order[place]
                    count += 1
    return count

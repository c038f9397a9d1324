"""A k-d tree of records that are removed one after the other; finds the nearest and the farthest of those left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel

LEAF_POINTS = 8


class Points(NamedTuple):
    """Records, or centres of groups, as points in a space of numbers and categories."""

    numbers: FloatArray  # (n, n_numbers)
    categories: CodeArray  # (n, n_categories)
    first_value: IntArray  # (n_categories + 1,) where the values of each category begin among all of them
    unequal: FloatArray  # (n_categories,) squared distance of two different values


@inline_kernel
def record_distance(points: Points, a: int, b: int) -> float:
    """Return the squared distance of two points."""
    total = 0.0
    for j in range(points.numbers.shape[1]):
        difference = points.numbers[a, j] - points.numbers[b, j]
        total += difference * difference
    for j in range(points.categories.shape[1]):
        if points.categories[a, j] != points.categories[b, j]:
            total += points.unequal[j]
    return total


class Nodes(NamedTuple):
    """Boxes around points, categories being ranges of codes. Children come after their parent."""

    begin: IntArray  # (n_nodes,) first of its points
    end: IntArray  # (n_nodes,)
    child: IntArray  # (n_nodes,) the first of its two children, which are neighbours; 0 for a leaf
    parent: IntArray  # (n_nodes,)
    low: FloatArray  # (n_nodes, n_numbers + n_categories)
    high: FloatArray
    first: IntArray  # (n_nodes,) the smallest number of its points
    left: IntArray  # (n_nodes,) points that have records left


class Tree(NamedTuple):
    """Distinct points in the order of the leaves, and how many records are left at each."""

    points: Points
    number: IntArray  # (n_points,) ascending in the order of records; ties in distance go to the smallest number
    left: IntArray  # (n_points,) records
    leaf: IntArray  # (n_points,) its node
    nodes: Nodes
    waiting: IntArray  # (n_nodes,) scratch space of searches: nodes still to visit
    bounds: FloatArray  # (n_nodes,) and the best distance that each may have


@inline_kernel
def _coordinate(points: Points, point: int, attribute: int) -> float:
    n_numbers = points.numbers.shape[1]
    if attribute < n_numbers:
        return float(points.numbers[point, attribute])
    return float(points.categories[point, attribute - n_numbers])


@kernel
def grow_tree(points: Points, counts: IntArray) -> Tree:
    """Return the tree of points that are all different, with this many records at each.

    A node is cut in the middle of its widest attribute, which makes boxes nearly cubic.
    """
    n, n_numbers = len(counts), points.numbers.shape[1]
    d, most = n_numbers + points.categories.shape[1], 2 * n
    begin, end = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    child, parent = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    first, low, high = np.full(most, n), np.full((most, d), np.inf), np.full((most, d), -np.inf)
    order, leaf = np.arange(n), np.zeros(n, dtype=np.int64)
    end[0], n_nodes, node = n, 1, 0
    while node < n_nodes:
        attribute, widest = 0, 0.0
        for place in range(begin[node], end[node]):
            first[node] = min(first[node], order[place])
            for j in range(d):
                value = _coordinate(points, order[place], j)
                low[node, j], high[node, j] = min(low[node, j], value), max(high[node, j], value)
        for j in range(d):
            width = (high[node, j] - low[node, j]) ** 2
            if j >= n_numbers:
                width = min(width, 1.0) * points.unequal[j - n_numbers]
            if width > widest:
                widest, attribute = width, j
        if end[node] - begin[node] > LEAF_POINTS and widest > 0.0:
            middle = low[node, attribute] + (high[node, attribute] - low[node, attribute]) / 2.0
            cut = begin[node]
            for place in range(begin[node], end[node]):
                if _coordinate(points, order[place], attribute) <= middle:
                    order[place], order[cut] = order[cut], order[place]
                    cut += 1
            child[node] = n_nodes
            begin[n_nodes], end[n_nodes], begin[n_nodes + 1], end[n_nodes + 1] = begin[node], cut, cut, end[node]
            parent[n_nodes : n_nodes + 2] = node
            n_nodes += 2
        else:
            leaf[begin[node] : end[node]] = node
        node += 1
    inside = Points(points.numbers[order], points.categories[order], points.first_value, points.unequal)
    nodes = Nodes(begin, end, child, parent, low, high, first, end - begin)
    return Tree(inside, order, counts[order], leaf, nodes, np.empty(n_nodes, dtype=np.int64), np.empty(n_nodes))


@kernel
def remove_record(tree: Tree, point: int) -> None:
    """Remove one record of a point."""
    tree.left[point] -= 1
    if tree.left[point] == 0:
        node = tree.leaf[point]
        tree.nodes.left[node] -= 1
        while node:
            node = tree.nodes.parent[node]
            tree.nodes.left[node] -= 1


@inline_kernel
def _bound(tree: Tree, origin: int, node: int, farthest: bool) -> float:
    """Return a squared distance that no point of a node is below or, negative, that none exceeds.

    Rounding cannot break it: terms are added in the order in which `record_distance` adds them.
    """
    points, nodes, total = tree.points, tree.nodes, 0.0
    for j in range(points.numbers.shape[1]):
        below, above = points.numbers[origin, j] - nodes.low[node, j], nodes.high[node, j] - points.numbers[origin, j]
        difference = max(abs(below), abs(above)) if farthest else max(-below, -above, 0.0)
        total += difference * difference
    for j in range(points.categories.shape[1]):
        place, code = points.numbers.shape[1] + j, float(points.categories[origin, j])
        low, high = nodes.low[node, place], nodes.high[node, place]
        if (low != code or high != code) if farthest else (code < low or code > high):
            total += points.unequal[j]
    return -total if farthest else total


@kernel
def find_points(tree: Tree, origin: int, farthest: bool, wanted: int, found: IntArray) -> int:
    """Fill in the points nearest to a point, or farthest from it, that have *wanted* records left together.

    Returns how many points these are, for which *found* has one more place than records are wanted. Points at the
    same distance are ordered by number.
    """
    if wanted == 0:
        return 0
    nodes, waiting, bounds = tree.nodes, tree.waiting, tree.bounds
    away = np.empty(wanted + 1)  # squared distances of *found*, negative in searches for the farthest
    n_found, records, worst, last = 0, 0, np.inf, len(tree.left)
    waiting[0], bounds[0], n_waiting = 0, -np.inf, 1
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        if bounds[n_waiting] > worst or (bounds[n_waiting] == worst and nodes.first[node] > last):
            continue
        child = nodes.child[node]
        if child:
            one, other = _bound(tree, origin, child, farthest), _bound(tree, origin, child + 1, farthest)
            better = child if one < other else child + 1
            for which in (2 * child + 1 - better, better):  # the last one is visited first
                bound = one if which == child else other
                if nodes.left[which] and bound <= worst:
                    waiting[n_waiting], bounds[n_waiting] = which, bound
                    n_waiting += 1
            continue
        for point in range(nodes.begin[node], nodes.end[node]):
            if tree.left[point] == 0:
                continue
            distance = record_distance(tree.points, origin, point)
            distance = -distance if farthest else distance
            if distance > worst or (distance == worst and tree.number[point] > last):
                continue
            place = n_found
            while place > 0 and (distance, tree.number[point]) < (away[place - 1], tree.number[found[place - 1]]):
                away[place], found[place] = away[place - 1], found[place - 1]
                place -= 1
            away[place], found[place] = distance, point
            n_found += 1
            records += tree.left[point]
            while records - tree.left[found[n_found - 1]] >= wanted:  # enough without the worst of them
                n_found -= 1
                records -= tree.left[found[n_found]]
            if records >= wanted:
                worst, last = away[n_found - 1], tree.number[found[n_found - 1]]
    return n_found

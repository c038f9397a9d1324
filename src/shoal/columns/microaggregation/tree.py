"""A k-d tree of records that are taken away one after the other: the nearest ones, and the farthest, of those left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import inline_kernel, kernel

LEAF_POINTS = 8
_BITS = 64  # of the set of values that a node's records have of a category
_ONE, _LAST_BIT = np.uint64(1), np.uint64(_BITS - 1)


class Points(NamedTuple):
    """Records, or centres of groups, as points in a space of numbers and categories."""

    numbers: FloatArray  # (n, n_numbers)
    categories: CodeArray  # (n, n_categories)
    first_value: IntArray  # (n_categories + 1,) where the values of each categorical attribute begin among all of them
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
    """Boxes around points. Children come after their parent; an empty box has ``low`` above ``high``."""

    begin: IntArray  # (n_nodes,) first of its points
    end: IntArray  # (n_nodes,)
    child: IntArray  # (n_nodes,) the first of its two children, which are neighbours; 0 for a leaf
    parent: IntArray  # (n_nodes,)
    low: FloatArray  # (n_nodes, n_numbers) of points left
    high: FloatArray  # (n_nodes, n_numbers)
    values: KeyArray  # (n_nodes, n_categories) a bit for each code of points left, code modulo 64
    first: IntArray  # (n_nodes,) the least number of its points left; n if there is none


class Tree(NamedTuple):
    """Distinct points, in the order of the leaves, and how many records are left at each."""

    points: Points
    number: IntArray  # (n_points,) ascending in the order of records: of points equally far the least one is taken
    left: IntArray  # (n_points,) records
    leaf: IntArray  # (n_points,) its node
    nodes: Nodes


class Search(NamedTuple):
    """The record that distances are measured from, and nodes that are still to be looked at."""

    numbers: FloatArray  # (n_numbers,)
    categories: CodeArray  # (n_categories,)
    nodes: IntArray  # (n_nodes,)
    bounds: FloatArray  # (n_nodes,) how near, or far, their points are at best


@kernel
def grow_tree(points: Points, counts: IntArray) -> Tree:
    """Return the tree of points that are all different, with this many records at each.

    A node is cut in the middle of the attribute in which it reaches farthest, so that boxes are near to cubes.
    """
    n, n_numbers, n_categories = len(counts), points.numbers.shape[1], points.categories.shape[1]
    most = 2 * n
    begin, end = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    child, parent = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    order, leaf = np.arange(n), np.zeros(n, dtype=np.int64)
    end[0], n_nodes, node = n, 1, 0
    while node < n_nodes:
        attribute, middle = 0, 0.0
        if end[node] - begin[node] > LEAF_POINTS:
            widest = 0.0
            for j in range(n_numbers + n_categories):
                low, high = np.inf, -np.inf
                for place in range(begin[node], end[node]):
                    value = _coordinate(points, order[place], j)
                    low, high = min(low, value), max(high, value)
                reach = (high - low) ** 2
                if j >= n_numbers:
                    reach = min(reach, 1.0) * points.unequal[j - n_numbers]
                if reach > widest:
                    widest, attribute, middle = reach, j, low + (high - low) / 2.0
            if widest > 0.0:
                cut = begin[node]
                for place in range(begin[node], end[node]):
                    if _coordinate(points, order[place], attribute) <= middle:
                        order[place], order[cut] = order[cut], order[place]
                        cut += 1
                child[node] = n_nodes
                begin[n_nodes], end[n_nodes], begin[n_nodes + 1], end[n_nodes + 1] = begin[node], cut, cut, end[node]
                parent[n_nodes : n_nodes + 2] = node
                n_nodes += 2
        if child[node] == 0:
            leaf[begin[node] : end[node]] = node
        node += 1
    inside = Points(points.numbers[order], points.categories[order], points.first_value, points.unequal)
    nodes = Nodes(
        begin[:n_nodes].copy(),
        end[:n_nodes].copy(),
        child[:n_nodes].copy(),
        parent[:n_nodes].copy(),
        np.full((n_nodes, n_numbers), np.inf),
        np.full((n_nodes, n_numbers), -np.inf),
        np.zeros((n_nodes, n_categories), dtype=np.uint64),
        np.full(n_nodes, n),
    )
    tree = Tree(inside, order, counts[order], leaf, nodes)
    for node in range(n_nodes - 1, -1, -1):
        _fit_box(tree, node)
    return tree


@inline_kernel
def _coordinate(points: Points, point: int, attribute: int) -> float:
    n_numbers = points.numbers.shape[1]
    if attribute < n_numbers:
        return float(points.numbers[point, attribute])
    return float(points.categories[point, attribute - n_numbers])


@kernel
def _fit_box(tree: Tree, node: int) -> bool:
    """Make the box of a node as small as what is left in it; return whether that changed it."""
    points, nodes = tree.points, tree.nodes
    changed = False
    least = len(tree.left)
    child = nodes.child[node]
    if child:
        least = min(nodes.first[child], nodes.first[child + 1])
    else:
        for point in range(nodes.begin[node], nodes.end[node]):
            if tree.left[point] > 0:
                least = min(least, tree.number[point])
    if least != nodes.first[node]:
        nodes.first[node], changed = least, True
    for j in range(points.numbers.shape[1]):
        low, high = np.inf, -np.inf
        if child:
            low = min(nodes.low[child, j], nodes.low[child + 1, j])
            high = max(nodes.high[child, j], nodes.high[child + 1, j])
        else:
            for point in range(nodes.begin[node], nodes.end[node]):
                if tree.left[point] > 0:
                    low, high = min(low, points.numbers[point, j]), max(high, points.numbers[point, j])
        if low != nodes.low[node, j] or high != nodes.high[node, j]:
            nodes.low[node, j], nodes.high[node, j], changed = low, high, True
    for j in range(points.categories.shape[1]):
        found = np.uint64(0)
        if child:
            found = nodes.values[child, j] | nodes.values[child + 1, j]
        else:
            for point in range(nodes.begin[node], nodes.end[node]):
                if tree.left[point] > 0:
                    found |= _ONE << (np.uint64(points.categories[point, j]) & _LAST_BIT)
        if found != nodes.values[node, j]:
            nodes.values[node, j], changed = found, True
    return changed


@kernel
def take_record(tree: Tree, point: int) -> None:
    """Take one record of a point away."""
    tree.left[point] -= 1
    node = tree.leaf[point]
    if tree.left[point] == 0:
        while _fit_box(tree, node) and node > 0:
            node = tree.nodes.parent[node]


@inline_kernel
def _distance(tree: Tree, search: Search, point: int) -> float:
    """Return the squared distance of a point."""
    points = tree.points
    total = 0.0
    for j in range(points.numbers.shape[1]):
        difference = points.numbers[point, j] - search.numbers[j]
        total += difference * difference
    for j in range(points.categories.shape[1]):
        if points.categories[point, j] != search.categories[j]:
            total += points.unequal[j]
    return total


@inline_kernel
def _farthest_in(tree: Tree, search: Search, node: int) -> float:
    """Return a bound that the distance of no point of a node exceeds, not even by rounding: sums are made alike."""
    points, nodes = tree.points, tree.nodes
    total = 0.0
    for j in range(points.numbers.shape[1]):
        difference = max(abs(nodes.low[node, j] - search.numbers[j]), abs(nodes.high[node, j] - search.numbers[j]))
        total += difference * difference
    for j in range(points.categories.shape[1]):
        bit = _ONE << (np.uint64(search.categories[j]) & _LAST_BIT)
        if nodes.values[node, j] != bit or points.first_value[j + 1] - points.first_value[j] > _BITS:
            total += points.unequal[j]
    return total


@inline_kernel
def _nearest_in(tree: Tree, search: Search, node: int) -> float:
    """Return a bound that the distance of no point of a node is below."""
    points, nodes = tree.points, tree.nodes
    total = 0.0
    for j in range(points.numbers.shape[1]):
        difference = max(nodes.low[node, j] - search.numbers[j], search.numbers[j] - nodes.high[node, j], 0.0)
        total += difference * difference
    for j in range(points.categories.shape[1]):
        if not nodes.values[node, j] & (_ONE << (np.uint64(search.categories[j]) & _LAST_BIT)):
            total += points.unequal[j]
    return total


@kernel
def make_search(tree: Tree) -> Search:
    """Return a search that is not started."""
    n_nodes, numbers, categories = len(tree.nodes.begin), tree.points.numbers, tree.points.categories
    return Search(
        np.empty(numbers.shape[1]),
        np.empty(categories.shape[1], dtype=np.int32),
        np.empty(n_nodes, dtype=np.int64),
        np.empty(n_nodes),
    )


@kernel
def start_search(tree: Tree, search: Search, point: int) -> None:
    """Measure distances from a point from now on."""
    search.numbers[:] = tree.points.numbers[point]
    search.categories[:] = tree.points.categories[point]


@kernel
def find_farthest(tree: Tree, search: Search) -> int:
    """Return the point with records left that is farthest; of several the one of the least number."""
    nodes, waiting, bounds = tree.nodes, search.nodes, search.bounds
    n = len(tree.left)
    best, most, number = 0, -1.0, n
    waiting[0], bounds[0], n_waiting = 0, np.inf, 1
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        if bounds[n_waiting] < most or (bounds[n_waiting] == most and nodes.first[node] > number):
            continue
        child = nodes.child[node]
        if child == 0:
            for point in range(nodes.begin[node], nodes.end[node]):
                if tree.left[point] > 0:
                    total = _distance(tree, search, point)
                    if total > most or (total == most and tree.number[point] < number):
                        best, most, number = point, total, tree.number[point]
            continue
        one = _farthest_in(tree, search, child) if nodes.first[child] < n else -1.0
        other = _farthest_in(tree, search, child + 1) if nodes.first[child + 1] < n else -1.0
        later = child if one < other else child + 1
        for place in range(2):
            which = later if place == 0 else 2 * child + 1 - later
            bound = one if which == child else other
            if bound >= most and bound >= 0.0:
                waiting[n_waiting], bounds[n_waiting] = which, bound
                n_waiting += 1
    return best


@kernel
def find_nearest(tree: Tree, search: Search, wanted: int, nearest: IntArray) -> int:
    """Fill in the nearest points that have *wanted* records left together, and return how many points these are.

    Of points equally near those of smaller number come first. *nearest* has space for one point more than records are
    wanted.
    """
    if wanted == 0:
        return 0
    near = np.empty(len(nearest))
    nodes, waiting, bounds = tree.nodes, search.nodes, search.bounds
    n = len(tree.left)
    found, records, farthest, number = 0, 0, np.inf, n
    waiting[0], bounds[0], n_waiting = 0, 0.0, 1
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        if bounds[n_waiting] > farthest or (bounds[n_waiting] == farthest and nodes.first[node] > number):
            continue
        child = nodes.child[node]
        if child:
            one = _nearest_in(tree, search, child) if nodes.first[child] < n else np.inf
            other = _nearest_in(tree, search, child + 1) if nodes.first[child + 1] < n else np.inf
            later = child if one > other else child + 1
            for place in range(2):
                which = later if place == 0 else 2 * child + 1 - later
                bound = one if which == child else other
                if bound <= farthest and bound < np.inf:
                    waiting[n_waiting], bounds[n_waiting] = which, bound
                    n_waiting += 1
            continue
        for point in range(nodes.begin[node], nodes.end[node]):
            if tree.left[point] == 0:
                continue
            total = _distance(tree, search, point)
            if total > farthest or (total == farthest and tree.number[point] > number):
                continue
            at = found
            found += 1
            records += tree.left[point]
            while at > 0 and (
                near[at - 1] > total or (near[at - 1] == total and tree.number[nearest[at - 1]] > tree.number[point])
            ):
                near[at], nearest[at] = near[at - 1], nearest[at - 1]
                at -= 1
            near[at], nearest[at] = total, point
            while records - tree.left[nearest[found - 1]] >= wanted:
                found -= 1
                records -= tree.left[nearest[found]]
            if records >= wanted:
                farthest, number = near[found - 1], tree.number[nearest[found - 1]]
    return found

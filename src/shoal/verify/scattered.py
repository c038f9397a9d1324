"""A k-d tree over points, some of which are alive: finds a live one in a box, and forgets it again.

Nodes lie in preorder: the first child follows its parent, and every node knows the node after its subtree, so a
search is one walk to the right and can go on where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray
from shoal.verify.kernels import kernel
from shoal.verify.spans import Spans, in_hull, in_ranges

BEGIN, END, AFTER, PARENT = 0, 1, 2, 3  # columns of nodes
_LEAF = 8  # points that are not worth a cut
_DEPTH = 64
_NEVER = 2**31 - 1


class Scattered(NamedTuple):
    """Room for a tree, filled anew for every set of points."""

    points: CodeArray  # (n_points, n_attributes) leaf by leaf
    leaf: CodeArray  # (n_points,)
    nodes: CodeArray  # (n_nodes, 4)
    frames: CodeArray  # (n_nodes, 2 n_attributes) the least and the greatest value of each attribute


class Marks(NamedTuple):
    """Points that are alive have a mark, the others -1; nodes know how many they are and their extreme marks."""

    mark: CodeArray  # (n_points,)
    live: CodeArray  # (n_nodes,)
    least: CodeArray  # (n_nodes,) once points were forgotten, a bound
    most: CodeArray  # (n_nodes,) likewise


@kernel
def room_for(n: int, d: int) -> Scattered:
    """Return a tree that can hold up to n points of d attributes."""
    n_nodes = n // 2 + 2  # a leaf below a cut holds four points or more
    return Scattered(
        np.empty((n, d), dtype=np.int32),
        np.empty(n, dtype=np.int32),
        np.empty((n_nodes, 4), dtype=np.int32),
        np.empty((n_nodes, 2 * d), dtype=np.int32),
    )


@kernel
def marks_for(tree: Scattered) -> Marks:
    """Return room for the marks of a tree."""
    n_nodes = tree.nodes.shape[0]
    return Marks(
        np.empty(tree.points.shape[0], dtype=np.int32),
        np.empty(n_nodes, dtype=np.int32),
        np.empty(n_nodes, dtype=np.int32),
        np.empty(n_nodes, dtype=np.int32),
    )


@kernel
def _halve(points: CodeArray, order: CodeArray, begin: int, end: int, a: int) -> int:
    """Reorder until no value of attribute a before the middle exceeds one after it; return the middle."""
    middle = (begin + end) // 2
    low, high = begin, end - 1
    while low < high:
        pivot = points[order[(low + high) // 2], a]
        i, j = low, high
        while i <= j:
            while points[order[i], a] < pivot:
                i += 1
            while points[order[j], a] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break
    return middle


@kernel
def scatter(points: CodeArray, scale: FloatArray, order: CodeArray, tree: Scattered) -> int:
    """Fill the tree with these points and *order* with where each of its points was; return the number of nodes.

    An attribute is cut where its extent is the largest multiple of *scale*, the usual width of boxes.
    """
    n, d = points.shape
    nodes, frames = tree.nodes, tree.frames
    for i in range(n):
        order[i] = i
    stack = np.empty((_DEPTH, 3), dtype=np.int32)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, -1
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        begin, end, parent = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        node = count
        count += 1
        nodes[node, BEGIN], nodes[node, END], nodes[node, PARENT] = begin, end, parent
        widest, extent = 0, 0.0
        for a in range(d):
            least = greatest = points[order[begin], a]
            for i in range(begin + 1, end):
                value = points[order[i], a]
                least, greatest = min(least, value), max(greatest, value)
            frames[node, 2 * a], frames[node, 2 * a + 1] = least, greatest
            if (greatest - least) / scale[a] > extent:
                widest, extent = a, (greatest - least) / scale[a]
        if end - begin > _LEAF:
            middle = _halve(points, order, begin, end, widest)
            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = middle, end, node
            stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = begin, middle, node
            waiting += 2
        else:
            for i in range(begin, end):
                tree.leaf[i] = node
    for i in range(n):
        for a in range(d):
            tree.points[i, a] = points[order[i], a]
    # after: (n_nodes,) a node ends where its last child ends, and children come after their parents
    for node in range(count - 1, -1, -1):
        nodes[node, AFTER] = node + 1
        if nodes[node, END] - nodes[node, BEGIN] > _LEAF:
            nodes[node, AFTER] = nodes[nodes[node + 1, AFTER], AFTER]
    return count


@kernel
def settle(tree: Scattered, n_nodes: int, marks: Marks) -> None:
    """Tell the nodes which marks their points have."""
    for node in range(n_nodes - 1, -1, -1):
        live, least, most = 0, _NEVER, -1
        if tree.nodes[node, AFTER] == node + 1:
            for i in range(tree.nodes[node, BEGIN], tree.nodes[node, END]):
                if marks.mark[i] >= 0:
                    live += 1
                    least, most = min(least, marks.mark[i]), max(most, marks.mark[i])
        else:
            first = node + 1
            second = tree.nodes[first, AFTER]
            live = marks.live[first] + marks.live[second]
            least = min(marks.least[first], marks.least[second])
            most = max(marks.most[first], marks.most[second])
        marks.live[node], marks.least[node], marks.most[node] = live, least, most


@kernel
def forget(tree: Scattered, marks: Marks, point: int) -> None:
    """Make a point dead."""
    marks.mark[point] = -1
    node = tree.leaf[point]
    while node >= 0:
        marks.live[node] -= 1
        node = tree.nodes[node, PARENT]


@kernel
def found(tree: Scattered, marks: Marks, mark: int, spans: Spans, box: int, start: int) -> int:
    """Return a point of the box that has this mark, the first after the point *start*, or -1."""
    hulls, nodes, frames = spans.hulls, tree.nodes, tree.frames
    d = tree.points.shape[1]
    last = nodes[0, AFTER]
    node = 0 if start < 0 else tree.leaf[start]
    while node < last:
        meets = (marks.live[node] > 0) & (marks.least[node] <= mark) & (marks.most[node] >= mark)
        a = 0
        while meets and a < d:
            meets = (frames[node, 2 * a] < hulls[box, 2 * a + 1]) & (frames[node, 2 * a + 1] >= hulls[box, 2 * a])
            a += 1
        if not meets:
            node = nodes[node, AFTER]
            continue
        if nodes[node, AFTER] == node + 1:
            for i in range(max(start + 1, nodes[node, BEGIN]), nodes[node, END]):
                if (
                    marks.mark[i] == mark
                    and in_hull(hulls, tree.points, i, box)
                    and (not spans.uneven[box] or in_ranges(spans.ragged, tree.points, i, box))
                ):
                    return i
        node += 1
    return -1

"""The best matching without a list of pairs, for contents in which too many boxes cover too many points.

Boxes take points that are left, small boxes first; this alone is the best where boxes are disjoint or nested. Then
boxes in want are helped along augmenting paths, on which a box takes a point from another one that finds a point
elsewhere: Dinic's algorithm (Hopcroft and Karp with capacities) from the boxes' side, in rounds of a breadth-first
measuring of distances and depth-first searches that go away step by step. A tree over the points finds the pairs,
and forgets a point once it was met (after Efrat, Itai and Katz, Algorithmica 2001). When no point with supply is
within reach of the boxes in want, no better matching exists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.verify.kernels import kernel
from shoal.verify.listed import BOX, NEXT, linked
from shoal.verify.scattered import Marks, Scattered, forget, found, marks_for, room_for, scatter, settle
from shoal.verify.spans import Spans, in_hull, in_ranges

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class _Sides(NamedTuple):
    """One content: its points and boxes, what they have left and want, and who serves whom."""

    tree: Scattered
    left: IntArray  # (n_points,)
    first: CodeArray  # (n_points,) the first of its links, or -1
    box: CodeArray  # (n_boxes,) in the order of demand
    need: IntArray  # (n_boxes,)


class _Search(NamedTuple):
    """How far points and boxes are from those in want, and where a search goes on."""

    marks: Marks
    near: CodeArray  # (n_points,) distance in boxes, or -1
    link: CodeArray  # (n_points,) the next link to try
    far: CodeArray  # (n_boxes,) distance in boxes, or -1
    point: CodeArray  # (n_boxes,) the last point tried
    queue: CodeArray  # (n_boxes,)
    boxes: CodeArray  # (n_boxes,) of a path
    points: CodeArray  # (n_boxes,) likewise
    links: CodeArray  # (n_boxes,) likewise


@kernel
def _greedy(
    spans: Spans, sides: _Sides, marks: Marks, n_boxes: int, links: CodeArray, amounts: IntArray
) -> tuple[int, int]:
    """Serve boxes in their order; return what they want in the end and the number of links."""
    wanted = used = 0
    for b in range(n_boxes):
        point = -1
        while sides.need[b] > 0:
            point = found(sides.tree, marks, 0, spans, sides.box[b], point)
            if point < 0:
                break
            amount = min(sides.need[b], sides.left[point])
            sides.need[b] -= amount
            sides.left[point] -= amount
            if sides.left[point] == 0:
                forget(sides.tree, marks, point)
            links[used, BOX], links[used, NEXT] = b, sides.first[point]
            amounts[used] = amount
            sides.first[point] = used
            used += 1
        wanted += sides.need[b]
    return wanted, used


@kernel
def _measure(
    spans: Spans,
    sides: _Sides,
    search: _Search,
    n: int,
    n_nodes: int,
    n_boxes: int,
    links: CodeArray,
    amounts: IntArray,
) -> int:
    """Find how far all are from boxes in want; return the distance of the nearest point with supply, or -1."""
    tree, marks, queue = sides.tree, search.marks, search.queue
    search.near[:n] = -1
    marks.mark[:n] = 0
    settle(tree, n_nodes, marks)
    taken = filled = 0
    for b in range(n_boxes):
        search.far[b] = -1
        if sides.need[b] > 0:
            search.far[b] = 0
            queue[filled] = b
            filled += 1
    reached, level = -1, 0
    while taken < filled:
        if taken == level:  # large boxes first, for they leave little to look at
            level = filled
            queue[taken:level] = -np.sort(-queue[taken:level])
        b = queue[taken]
        taken += 1
        if reached >= 0 and search.far[b] > reached:
            break
        point = -1
        while True:
            point = found(tree, marks, 0, spans, sides.box[b], point)
            if point < 0:
                break
            forget(tree, marks, point)
            search.near[point] = search.far[b]
            if sides.left[point] > 0:
                reached = search.far[b]
                continue
            link = sides.first[point]
            while link >= 0:
                other = links[link, BOX]
                if amounts[link] > 0 and search.far[other] < 0:
                    search.far[other] = search.far[b] + 1
                    queue[filled] = other
                    filled += 1
                link = links[link, NEXT]
    return reached


@kernel
def _augment(
    spans: Spans,
    sides: _Sides,
    search: _Search,
    n: int,
    n_nodes: int,
    n_boxes: int,
    links: CodeArray,
    amounts: IntArray,
    used: int,
    wanted: int,
) -> tuple[int, CodeArray, IntArray]:
    """Search until nobody can be helped; return what is wanted then, and the links, which may have moved."""
    tree, marks = sides.tree, search.marks
    while wanted > 0:
        reached = _measure(spans, sides, search, n, n_nodes, n_boxes, links, amounts)
        if reached < 0:
            break
        for point in range(n):
            useful = search.near[point] < reached or sides.left[point] > 0
            marks.mark[point] = search.near[point] if useful else -1
            search.link[point] = sides.first[point]
        settle(tree, n_nodes, marks)
        search.point[:n_boxes] = -1
        for source in range(n_boxes):
            if sides.need[source] == 0:
                continue
            search.boxes[0] = source
            depth = 0
            while sides.need[source] > 0:
                b = search.boxes[depth]
                point = found(tree, marks, depth, spans, sides.box[b], search.point[b])
                if point < 0:
                    search.far[b] = -1
                    if depth == 0:
                        break
                    depth -= 1
                    continue
                search.point[b] = point - 1  # it may serve again
                search.points[depth] = point
                if sides.left[point] > 0:
                    amount = min(sides.need[source], sides.left[point])
                    for i in range(depth):
                        amount = min(amount, amounts[search.links[i]])
                    for i in range(depth):
                        amounts[search.links[i]] -= amount
                    for i in range(depth + 1):
                        links, amounts, used = linked(
                            sides.first, links, amounts, used, search.points[i], search.boxes[i], amount
                        )
                    sides.need[source] -= amount
                    wanted -= amount
                    sides.left[point] -= amount
                    if sides.left[point] == 0:
                        forget(tree, marks, point)
                    depth = 0
                    continue
                link = search.link[point]
                while link >= 0 and (amounts[link] == 0 or search.far[links[link, BOX]] != depth + 1):
                    link = links[link, NEXT]
                search.link[point] = link
                if link < 0:
                    forget(tree, marks, point)
                    continue
                search.links[depth] = link
                depth += 1
                search.boxes[depth] = links[link, BOX]
    return wanted, links, amounts


@kernel
def _longest(keys: KeyArray) -> int:
    """Return how often the most frequent content occurs; keys ascend."""
    longest = begin = 0
    for i in range(keys.shape[0]):
        if keys[i] >> _SHIFT != keys[begin] >> _SHIFT:
            begin = i
        longest = max(longest, i + 1 - begin)
    return longest


@kernel
def unserved_by_tree(
    spans: Spans,
    scale: FloatArray,
    wanted: KeyArray,
    demand: IntArray,
    offered: KeyArray,
    supply: IntArray,
    cells: CodeArray,
) -> int:
    """Return the unmet demand; keys as in matching, *scale* the usual width of boxes, *supply* is used up."""
    n_most, m_most, d = _longest(offered), _longest(wanted), cells.shape[1]
    tree = room_for(n_most, d)
    sides = _Sides(
        tree,
        np.empty(n_most, dtype=np.int64),
        np.empty(n_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int64),
    )
    search = _Search(
        marks_for(tree),
        np.empty(n_most, dtype=np.int32),
        np.empty(n_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
        np.empty(m_most, dtype=np.int32),
    )
    points = np.empty((n_most, d), dtype=np.int32)
    order = np.empty(n_most, dtype=np.int32)
    links = np.empty((n_most + m_most, 2), dtype=np.int32)
    amounts = np.empty(n_most + m_most, dtype=np.int64)
    unserved = 0
    i = j = 0
    while i < wanted.shape[0]:
        content = wanted[i] >> _SHIFT
        m = 0
        while i + m < wanted.shape[0] and wanted[i + m] >> _SHIFT == content:
            sides.box[m] = wanted[i + m] & _LOW
            sides.need[m] = demand[i + m]
            m += 1
        while j < offered.shape[0] and offered[j] >> _SHIFT < content:
            j += 1
        n = 0
        while j + n < offered.shape[0] and offered[j + n] >> _SHIFT == content:
            n += 1
        if n <= 1:
            for b in range(m):
                box, need = sides.box[b], sides.need[b]
                if n == 1:
                    cell = offered[j] & _LOW
                    if in_hull(spans.hulls, cells, cell, box) and (
                        not spans.uneven[box] or in_ranges(spans.ragged, cells, cell, box)
                    ):
                        amount = min(need, supply[j])
                        supply[j] -= amount
                        need -= amount
                unserved += need
        else:
            for p in range(n):
                for a in range(d):
                    points[p, a] = cells[offered[j + p] & _LOW, a]
            n_nodes = scatter(points[:n], scale, order, tree)
            for p in range(n):
                sides.left[p] = supply[j + order[p]]
                sides.first[p] = -1
                search.marks.mark[p] = 0
            settle(tree, n_nodes, search.marks)
            left, used = _greedy(spans, sides, search.marks, m, links, amounts)
            if left > 0:
                left, links, amounts = _augment(spans, sides, search, n, n_nodes, m, links, amounts, used, left)
            unserved += left
        i += m
        j += n
    return unserved

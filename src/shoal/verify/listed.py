"""The best matching where all pairs of a box and a point that it covers can be listed.

Boxes that cover few points take first, and of their points those that few boxes cover: a box with one point and a
point with one box have no choice, so for them this is exact. Then boxes in want are helped along augmenting paths by
Dinic's algorithm, until no point with supply is within reach of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.verify.kernels import kernel
from shoal.verify.orders import Orders, covered
from shoal.verify.spans import Spans, in_hull, in_ranges

BOX, NEXT = 0, 1  # columns of links
FEW = 16  # points that are looked at one by one


class Content(NamedTuple):
    """Boxes and points of one content: what they want and have left, and which pairs there are."""

    need: IntArray  # (n_boxes,)
    left: IntArray  # (n_points,)
    start: IntArray  # (n_boxes + 1,) of each box's pairs
    pairs: CodeArray  # (n_pairs,) points


@kernel
def _ascending(degrees: IntArray) -> CodeArray:
    """Return the places of small whole numbers, least first."""
    places = np.zeros(degrees.max() + 2, dtype=np.int64)
    for degree in degrees:
        places[degree + 1] += 1
    for degree in range(1, places.shape[0]):
        places[degree] += places[degree - 1]
    order = np.empty(degrees.shape[0], dtype=np.int32)
    for i in range(degrees.shape[0]):
        order[places[degrees[i]]] = i
        places[degrees[i]] += 1
    return order


@kernel
def _by_degree(content: Content) -> CodeArray:
    """Sort the pairs of each box by how many boxes cover the point; return boxes by how many points they cover."""
    n, m = content.left.shape[0], content.need.shape[0]
    start, pairs = content.start, content.pairs
    covering = np.zeros(n + 1, dtype=np.int64)
    for e in range(start[m]):
        covering[pairs[e] + 1] += 1
    order = _ascending(covering[1:])
    # other: (n_pairs,) boxes, point by point
    for p in range(n):
        covering[p + 1] += covering[p]
    other = np.empty(start[m], dtype=np.int32)
    filled = covering[:n].copy()
    for b in range(m):
        for e in range(start[b], start[b + 1]):
            other[filled[pairs[e]]] = b
            filled[pairs[e]] += 1
    place = start[:m].copy()
    for p in order:
        for e in range(covering[p], covering[p + 1]):
            pairs[place[other[e]]] = p
            place[other[e]] += 1
    return _ascending(start[1:] - start[:m])


@kernel
def _wanted(content: Content) -> int:
    """Return what boxes want in the best matching; need and left are used up."""
    need, left, start, pairs = content
    n, m = left.shape[0], need.shape[0]
    order = _by_degree(content)
    first = np.full(n, -1, dtype=np.int32)
    links, amounts = np.empty((n + m, 2), dtype=np.int32), np.empty(n + m, dtype=np.int64)
    wanted = used = 0
    for b in order:
        for e in range(start[b], start[b + 1]):
            if need[b] == 0:
                break
            p = pairs[e]
            if left[p] > 0:
                amount = min(need[b], left[p])
                need[b] -= amount
                left[p] -= amount
                links, amounts, used = linked(first, links, amounts, used, p, b, amount)
        wanted += need[b]
    if wanted == 0:
        return 0
    near, far = np.empty(n, dtype=np.int32), np.empty(m, dtype=np.int32)
    following, cursor = np.empty(n, dtype=np.int32), np.empty(m, dtype=np.int64)
    queue, boxes = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    points, path = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    while wanted > 0:
        # near, far: how many boxes away from one in want, or -1
        near[:], far[:] = -1, -1
        taken = filled = 0
        for b in range(m):
            if need[b] > 0:
                far[b] = 0
                queue[filled] = b
                filled += 1
        sources, reached = filled, -1
        while taken < filled:
            b = queue[taken]
            taken += 1
            if reached >= 0 and far[b] > reached:
                far[b] = -1  # too far for this round
                continue
            cursor[b] = start[b]
            for e in range(start[b], start[b + 1]):
                p = pairs[e]
                if near[p] >= 0:
                    continue
                near[p] = far[b]
                following[p] = first[p]
                if left[p] > 0:
                    reached = far[b]
                    continue
                link = first[p]
                while link >= 0:
                    other = links[link, BOX]
                    if amounts[link] > 0 and far[other] < 0:
                        far[other] = far[b] + 1
                        queue[filled] = other
                        filled += 1
                    link = links[link, NEXT]
        if reached < 0:
            break
        for i in range(sources):
            source = queue[i]
            boxes[0] = source
            depth = 0
            while need[source] > 0:
                b = boxes[depth]
                e = cursor[b]
                while e < start[b + 1] and near[pairs[e]] != depth:
                    e += 1
                cursor[b] = e  # the pair may serve again
                if e == start[b + 1]:
                    far[b] = -1
                    if depth == 0:
                        break
                    depth -= 1
                    continue
                p = pairs[e]
                points[depth] = p
                if left[p] > 0:
                    amount = min(need[source], left[p])
                    for k in range(depth):
                        amount = min(amount, amounts[path[k]])
                    for k in range(depth):
                        amounts[path[k]] -= amount
                    for k in range(depth + 1):
                        links, amounts, used = linked(first, links, amounts, used, points[k], boxes[k], amount)
                    need[source] -= amount
                    wanted -= amount
                    left[p] -= amount
                    if left[p] == 0:
                        near[p] = -1
                    depth = 0
                    continue
                link = following[p]
                while link >= 0 and (amounts[link] == 0 or far[links[link, BOX]] != depth + 1):
                    link = links[link, NEXT]
                following[p] = link
                if link < 0:
                    near[p] = -1
                    continue
                path[depth] = link
                depth += 1
                boxes[depth] = links[link, BOX]
    return wanted


@kernel
def wanted_by_contents(
    spans: Spans,
    orders: Orders,
    boxes: CodeArray,
    demand: IntArray,
    box_start: IntArray,
    points: CodeArray,
    supply: IntArray,
    point_start: IntArray,
    most: int,
    large: BoolArray,
) -> int:
    """Return the unmet demand of all contents but *large* ones: those with more than *most* pairs, which it marks.

    Boxes and points of content c lie from box_start[c] and point_start[c] on.
    """
    wanted = 0
    pairs = np.empty(1024, dtype=np.int32)
    starts = np.empty(1024, dtype=np.int64)
    sides = np.empty((3, points.shape[1] + 1), dtype=np.uint64)
    for c in range(large.shape[0]):
        before, m = box_start[c], box_start[c + 1] - box_start[c]
        base, n = point_start[c], point_start[c + 1] - point_start[c]
        if m >= starts.shape[0]:
            starts = np.empty(2 * m, dtype=np.int64)
        used = 0
        for i in range(m):
            starts[i] = used
            box = boxes[before + i]
            if used + n > pairs.shape[0]:
                more = np.empty(2 * (used + n), dtype=np.int32)
                more[:used] = pairs[:used]
                pairs = more
            count = n
            if n > FEW:
                count = covered(orders, spans, box, c, sides, pairs[used:])
            uneven = spans.uneven[box]
            begin = used
            for j in range(count):
                p = pairs[begin + j] if n > FEW else base + j
                if in_hull(spans.hulls, points, p, box) and (not uneven or in_ranges(spans.ragged, points, p, box)):
                    pairs[used] = p - base
                    used += 1
            if used > most:
                large[c] = True
                break
        if large[c]:
            continue
        starts[m] = used
        if m == 1 or n <= 1:
            # All pairs have the same box or the same point.
            total_need, total_left = 0, 0
            for i in range(m):
                wanted += demand[before + i]
                total_need += demand[before + i] if starts[i + 1] > starts[i] else 0
            for e in range(used if m == 1 else min(used, 1)):
                total_left += supply[base + pairs[e]]
            wanted -= min(total_need, total_left)
        else:
            content = Content(
                demand[before : before + m].copy(), supply[base : base + n].copy(), starts[: m + 1], pairs[:used]
            )
            wanted += _wanted(content)
    return wanted


@kernel
def linked(
    first: CodeArray, links: CodeArray, amounts: IntArray, used: int, point: int, box: int, amount: int
) -> tuple[CodeArray, IntArray, int]:
    """Let a point serve a box by this much more; return the links, which may have moved, and their number."""
    link = first[point]
    while link >= 0:
        if links[link, BOX] == box:
            amounts[link] += amount
            return links, amounts, used
        link = links[link, NEXT]
    if used == links.shape[0]:
        more = np.empty((2 * used + 16, 2), dtype=np.int32)
        more[:used] = links
        totals = np.empty(2 * used + 16, dtype=np.int64)
        totals[:used] = amounts
        links, amounts = more, totals
    links[used, BOX], links[used, NEXT] = box, first[point]
    amounts[used] = amount
    first[point] = used
    return links, amounts, used + 1

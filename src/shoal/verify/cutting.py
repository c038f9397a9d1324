"""A k-d tree over boxes: cuts that halve them and go through as few as possible."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shoal.core.arrays import CodeArray, IntArray
from shoal.verify.kernels import kernel

ATTRIBUTE, CUT, FIRST, LEAF = 0, 1, 2, 3  # columns of a tree
_FEW = 3  # boxes that are not worth a cut
_TWICE = 4
_BY_PAIRS = 12  # up to so many boxes every beginning is tried against every box
_NEVER = np.int32(2**31 - 1)
_APART = 20_000  # from so many boxes on the two halves are built side by side


@kernel
def _grown(rows: CodeArray, needed: int) -> CodeArray:
    if needed <= rows.shape[0]:
        return rows
    larger = np.empty((max(needed, 2 * rows.shape[0]), rows.shape[1]), dtype=rows.dtype)
    larger[: rows.shape[0]] = rows
    return larger


@kernel
def _best_cut(boxes: CodeArray, frame: CodeArray, begins: CodeArray, ends: CodeArray) -> tuple[int, int, int, int]:
    """Return (attribute, cut, boxes left, boxes right); attribute -1 = none.

    Even halves are good, boxes on both sides are bad: classes made by cutting have a cut without any. A cut
    that is nearly the best possible is taken without looking at further attributes.
    """
    n = boxes.shape[0]
    best = (-1, 0, n, n)
    least = n
    for a in range(frame.shape[0]):
        low, high = frame[a, 0], frame[a, 1]
        first, last = high, low
        for i in range(n):
            first = min(first, max(boxes[i, 2 * a], low))
            last = max(last, min(boxes[i, 2 * a + 1], high))
        if last - first < 2:
            continue
        if n <= _BY_PAIRS:
            # Moving a cut up to where the next box begins cannot make it worse.
            for j in range(n):
                cut = boxes[j, 2 * a]
                if cut <= first or cut >= last:
                    continue
                left = right = 0
                for i in range(n):
                    left += boxes[i, 2 * a] < cut
                    right += boxes[i, 2 * a + 1] > cut
                cost = max(left, right) + _TWICE * (left + right - n)
                if cost < least and max(left, right) < n:
                    least = cost
                    best = (a, cut, left, right)
        else:
            begins[first : last + 1] = 0
            ends[first : last + 1] = 0
            for i in range(n):
                begins[max(boxes[i, 2 * a], low)] += 1
                ends[min(boxes[i, 2 * a + 1], high)] += 1
            left, right = begins[first], n - ends[first]
            for cut in range(first + 1, last):
                right -= ends[cut]
                cost = max(left, right) + _TWICE * (left + right - n)
                if cost < least and max(left, right) < n:
                    least = cost
                    best = (a, cut, left, right)
                left += begins[cut]
        if 2 * least <= n + 1 + n // 8:
            break
    return best


@kernel
def _grow(boxes: CodeArray, whole: CodeArray) -> tuple[CodeArray, CodeArray, IntArray]:
    """Return the nodes, the boxes in the order of the leaves, and where each leaf's boxes start."""
    n, width = boxes.shape
    tree = np.empty((2 * n + 64, 4), dtype=np.int32)
    kept = np.empty((n + n // 4 + 64, width), dtype=np.int32)
    starts = [0]
    n_nodes, n_kept, budget = 1, 0, 3 * n
    pool = np.empty((2 * n + 64, width), dtype=np.int32)  # a stack of boxes, the topmost belong to the next node
    pool[:n] = boxes
    top = n
    lefts = np.empty((n, width), dtype=np.int32)
    begins = np.zeros(whole.max() + 2, dtype=np.int32)
    ends = np.zeros(whole.max() + 2, dtype=np.int32)
    frames = np.empty((64, whole.shape[0], 2), dtype=np.int32)  # a stack, too
    frame = whole.copy()
    frames[0] = whole
    nodes = [0]
    counts = [n]
    while len(nodes) > 0:
        node, count = nodes.pop(), counts.pop()
        depth = len(nodes)
        frame[:] = frames[depth]
        top -= count
        a, cut, left, right = -1, 0, count, count
        if count > _FEW:
            a, cut, left, right = _best_cut(pool[top : top + count], frame, begins, ends)
        twice = left + right - count
        if a < 0 or twice > budget or max(left, right) > count - max(1, count // 16):
            kept = _grown(kept, n_kept + count)
            kept[n_kept : n_kept + count] = pool[top : top + count]
            n_kept += count
            tree[node, ATTRIBUTE], tree[node, CUT], tree[node, FIRST] = 0, _NEVER, node
            tree[node, LEAF] = len(starts) - 1
            starts.append(n_kept)
            continue
        budget -= max(0, twice)
        tree = _grown(tree, n_nodes + 2)
        tree[node, ATTRIBUTE], tree[node, CUT], tree[node, FIRST], tree[node, LEAF] = a, cut, n_nodes, -1
        n_left, end = 0, top
        for i in range(top, top + count):
            if pool[i, 2 * a] < cut:
                for c in range(width):
                    lefts[n_left, c] = pool[i, c]
                n_left += 1
            if pool[i, 2 * a + 1] > cut:
                for c in range(width):
                    pool[end, c] = pool[i, c]
                end += 1
        top = end + n_left
        pool = _grown(pool, top)
        pool[end:top] = lefts[:n_left]
        if depth + 2 > frames.shape[0]:
            deeper = np.empty((2 * frames.shape[0], frame.shape[0], 2), dtype=np.int32)
            deeper[:depth] = frames[:depth]
            frames = deeper
        frames[depth] = frame
        frames[depth, a, 0] = cut
        frames[depth + 1] = frame
        frames[depth + 1, a, 1] = cut
        nodes.append(n_nodes + 1)
        counts.append(right)
        nodes.append(n_nodes)
        counts.append(left)
        n_nodes += 2
    return tree[:n_nodes], kept[:n_kept], np.array(starts)


def grow_tree(boxes: CodeArray, sizes: IntArray) -> tuple[CodeArray, CodeArray, IntArray]:
    """Return the tree over (n, 2 d + 1) boxes, each the two edges of every attribute and its class.

    The tree has (n_nodes, 4) attribute, cut, first child and -1; the second child, of values from the cut on,
    follows the first. A leaf is its own child and has its number in the last column. Then come the boxes as
    the leaves hold them, some of them twice, and (n_leaves + 1,) where each leaf's boxes start.
    """
    whole = np.stack([np.zeros_like(sizes), sizes], axis=1).astype(np.int32)
    counts = np.zeros(int(sizes.max()) + 2, dtype=np.int32)
    a, cut, left, right = _best_cut(boxes, whole, counts, counts.copy()) if len(boxes) >= _APART else (-1, 0, 0, 0)
    if a < 0 or max(left, right) > 3 * len(boxes) // 4:
        return _grow(boxes, whole)
    frames = [whole.copy(), whole.copy()]
    frames[0][a, 1] = frames[1][a, 0] = cut
    halves = [boxes[boxes[:, 2 * a] < cut], boxes[boxes[:, 2 * a + 1] > cut]]
    with ThreadPoolExecutor(2) as threads:
        (tree, kept, starts), (other, more, others) = threads.map(_grow, halves, frames)
    # The two roots become nodes 1 and 2, the rest of the first half follows, then that of the second.
    tree[:, FIRST] += 2
    other[:, FIRST] += len(tree) + 1
    other[:, LEAF] += np.where(other[:, LEAF] >= 0, len(starts) - 1, 0).astype(np.int32)
    root = np.array([[a, cut, 1, -1]], dtype=np.int32)
    joined = np.concatenate([root, tree[:1], other[:1], tree[1:], other[1:]])
    leaves = np.flatnonzero(joined[:, LEAF] >= 0)
    joined[leaves, FIRST] = leaves
    return joined, np.concatenate([kept, more]), np.append(starts, others[1:] + starts[-1])

"""Whether supplies can fill demands: a largest flow between source rows and published rows.

Dinic's algorithm on a graph of two sides (Hopcroft and Karp with capacities): phases of shortest augmenting
paths, each phase a breadth-first layering and a blocking flow by depth-first search.
"""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.verify.kernels import kernel


@kernel
def _layers(
    start: IntArray,
    target: CodeArray,
    back_start: IntArray,
    back: IntArray,
    origin: CodeArray,
    flow: IntArray,
    supply: IntArray,
    demand: IntArray,
    left: CodeArray,
    right: CodeArray,
    queue: CodeArray,
) -> bool:
    """Layer both sides by distance from unused supply; return whether unmet demand is reached."""
    left[:] = -1
    right[:] = -1
    n_left = supply.shape[0]
    filled = 0
    for u in range(n_left):
        if supply[u] > 0:
            left[u] = 0
            queue[filled] = u
            filled += 1
    reached = False
    taken = 0
    while taken < filled:
        node = queue[taken]
        taken += 1
        if node < n_left:
            for e in range(start[node], start[node + 1]):
                v = target[e]
                if right[v] < 0:
                    right[v] = left[node] + 1
                    reached = reached or demand[v] > 0
                    queue[filled] = n_left + v
                    filled += 1
        else:
            v = node - n_left
            for b in range(back_start[v], back_start[v + 1]):
                e = back[b]
                if flow[e] > 0 and left[origin[e]] < 0:
                    left[origin[e]] = right[v] + 1
                    queue[filled] = origin[e]
                    filled += 1
    return reached


@kernel
def _largest_flow(
    start: IntArray,
    target: CodeArray,
    back_start: IntArray,
    back: IntArray,
    origin: CodeArray,
    supply: IntArray,
    demand: IntArray,
) -> int:
    n_left, n_right, n_edges = supply.shape[0], demand.shape[0], target.shape[0]
    flow = np.zeros(n_edges, dtype=np.int64)
    total = 0
    for u in range(n_left):  # a greedy start leaves little for the phases
        for e in range(start[u], start[u + 1]):
            moved = min(supply[u], demand[target[e]])
            if moved > 0:
                flow[e] += moved
                supply[u] -= moved
                demand[target[e]] -= moved
                total += moved
    left = np.empty(n_left, dtype=np.int32)
    right = np.empty(n_right, dtype=np.int32)
    queue = np.empty(n_left + n_right, dtype=np.int32)
    path = np.empty(n_left + n_right + 1, dtype=np.int64)  # edges; even places forward, odd places backward
    while _layers(start, target, back_start, back, origin, flow, supply, demand, left, right, queue):
        next_left = start[:-1].copy()
        next_right = back_start[:-1].copy()
        for source in range(n_left):
            depth = 0
            u = source
            while supply[source] > 0:
                # At left node u, with path[:depth] leading to it.
                if next_left[u] == start[u + 1]:
                    if depth == 0:
                        break
                    depth -= 2
                    v = target[path[depth + 1]]
                    next_right[v] += 1
                    u = origin[path[depth]]
                else:
                    e = next_left[u]
                    v = target[e]
                    if right[v] != left[u] + 1:
                        next_left[u] += 1
                        continue
                    path[depth] = e
                if demand[v] > 0:
                    moved = min(supply[source], demand[v])
                    for p in range(1, depth, 2):
                        moved = min(moved, flow[path[p]])
                    for p in range(depth + 1):
                        flow[path[p]] += moved if p % 2 == 0 else -moved
                    supply[source] -= moved
                    demand[v] -= moved
                    total += moved
                    depth = 0
                    u = source
                    continue
                while next_right[v] < back_start[v + 1]:
                    e = back[next_right[v]]
                    if flow[e] > 0 and left[origin[e]] == right[v] + 1:
                        break
                    next_right[v] += 1
                if next_right[v] == back_start[v + 1]:
                    next_left[u] += 1
                else:
                    path[depth + 1] = back[next_right[v]]
                    depth += 2
                    u = origin[path[depth - 1]]
    return total


def largest_flow(start: IntArray, target: CodeArray, supply: IntArray, demand: IntArray) -> int:
    """Return how much demand can be met; left node u reaches the right nodes target[start[u]:start[u + 1]].

    >>> one_each = np.array([1, 1])
    >>> largest_flow(np.array([0, 2, 3]), np.array([0, 1, 0], dtype=np.int32), one_each, one_each)
    2
    """
    degrees = np.diff(start)
    origin = np.repeat(np.arange(degrees.shape[0], dtype=np.int32), degrees)
    back = np.argsort(target, kind="stable").astype(np.int64)
    back_start = np.zeros(demand.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=demand.shape[0]), out=back_start[1:])
    return int(_largest_flow(start, target, back_start, back, origin, supply.copy(), demand.copy()))

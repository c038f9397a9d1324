"""Partitioning around medoids: clusters of few points of which only the distances are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray

_SAME = 1e-12  # of the largest distance: costs closer than this are equal, whatever their sums round to


class Clusters(NamedTuple):
    """Points around their medoids; every cluster has its medoid at least."""

    medoids: IntArray  # (k,) ascending
    labels: CodeArray  # (n_points,) the cluster of each point, in the order of the medoids
    cost: float  # sum of the distances of points to the medoids of their clusters


def pam(distances: FloatArray, k: int) -> Clusters:
    """Return k clusters that no swap of a medoid for another point makes cheaper.

    Kaufman and Rousseeuw, "Finding Groups in Data" (1990), chapter 2: BUILD takes one medoid after the other where it
    lowers the cost the most, SWAP makes the best of all swaps as long as that lowers the cost. Of equally good points
    the first is taken, so that the result depends on the distances alone; they are symmetric, with a diagonal of 0.

    >>> line = np.array([0.0, 1.0, 2.0, 10.0, 11.0])
    >>> found = pam(np.abs(line[:, None] - line), 2)
    >>> found.medoids.tolist(), found.labels.tolist(), found.cost
    ([1, 3], [0, 0, 0, 1, 1], 3.0)
    """
    if not 1 <= k <= len(distances):
        raise ValueError(f"k must be in 1..{len(distances)}, not {k}")
    margin = _SAME * float(distances.max())
    chosen = _built(distances, k, margin)
    while (swap := _best_swap(distances, chosen, margin)) is not None:
        chosen[list(swap)] = ~chosen[list(swap)]
    medoids = np.flatnonzero(chosen)
    labels = np.argmin(distances[medoids], axis=0).astype(np.int32)
    labels[medoids] = np.arange(k)  # also where another medoid is at distance 0
    return Clusters(medoids, labels, float(distances[medoids[labels], np.arange(len(distances))].sum()))


def _built(distances: FloatArray, k: int, margin: float) -> BoolArray:
    """Return (n_points,) whether each is one of the first k medoids."""
    chosen = np.zeros(len(distances), dtype=np.bool_)
    nearest = np.full(len(distances), np.inf)
    for _ in range(k):
        costs = np.minimum(nearest, distances).sum(axis=1)  # (n_points,) with each as the next medoid
        costs[chosen] = np.inf
        best = _first_best(costs, margin)
        chosen[best] = True
        nearest = np.minimum(nearest, distances[best])
    return chosen


def _best_swap(distances: FloatArray, chosen: BoolArray, margin: float) -> tuple[int, int] | None:
    """Return the medoid to give up and the point to take for it, or None if no swap lowers the cost."""
    medoids, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    if not len(others):
        return None
    costs = np.empty((len(medoids), len(others)))
    for place, medoid in enumerate(medoids):
        without = distances[medoids[medoids != medoid]].min(axis=0, initial=np.inf)
        costs[place] = np.minimum(without, distances[others]).sum(axis=1)
    best = _first_best(costs.reshape(-1), margin)
    if costs.flat[best] >= distances[medoids].min(axis=0).sum() - margin:
        return None
    given_up, taken = divmod(best, len(others))
    return int(medoids[given_up]), int(others[taken])


def _first_best(costs: FloatArray, margin: float) -> int:
    return int(np.argmax(costs <= costs.min() + margin))

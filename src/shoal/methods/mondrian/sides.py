"""Compiled loops that count and part the two sides of Mondrian's cuts: items are moved, never their indices.

Arrays are those of :mod:`shoal.methods.mondrian.kernels`; ``side`` (n_items,) is 0 for left and 1 for right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiled import compiled

Codes = NDArray[Any]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Sides = NDArray[np.uint8]


@compiled
def tally_sides(
    codes: Codes, weights: Ints, values: Small, column: int, starts: Ints, stops: Ints, attribute: Small,
    cut: Small, extra: Ints, side: Sides, sizes: Ints, counts: Ints,
) -> None:  # fmt: skip
    """Mark every item of each node 0 (left: code <= cut) or 1, and count both sides.

    A relaxed cut also sends items of the next code to the left until they hold *extra* records. Rows 2n and 2n + 1
    of *sizes* (.., w) and *counts* (.., n_values) are the sides of node n.
    """
    n_weights = weights.shape[1]
    with_values = counts.shape[1] > 0
    for node in range(len(starts)):
        j, limit, wanted = attribute[node], cut[node], extra[node]
        for item in range(starts[node], stops[node]):
            code = codes[item, j]
            right = 1 if code > limit else 0
            if right and wanted > 0 and code == limit + 1:
                right = 0
                wanted -= weights[item, 0]
            side[item] = right
            row = 2 * node + right
            for w in range(n_weights):
                sizes[row, w] += weights[item, w]
            if with_values:
                counts[row, values[item, column]] += weights[item, 0]


@compiled
def partition(
    codes: Codes, weights: Ints, values: Small, cells: Small, side: Sides, starts: Ints, stops: Ints,
    middles: Ints,
) -> None:  # fmt: skip
    """Move the items of each node so that the left side comes first; *middles* is where the right begins."""
    d = codes.shape[1]
    for node in range(len(starts)):
        left, right = starts[node], stops[node] - 1
        while True:
            while left <= right and side[left] == 0:
                left += 1
            while left <= right and side[right] == 1:
                right -= 1
            if left >= right:
                break
            for i in range(d):
                codes[left, i], codes[right, i] = codes[right, i], codes[left, i]
            for w in range(weights.shape[1]):
                weights[left, w], weights[right, w] = weights[right, w], weights[left, w]
            for s in range(values.shape[1]):
                values[left, s], values[right, s] = values[right, s], values[left, s]
            cells[left], cells[right] = cells[right], cells[left]
            side[left], side[right] = 0, 1
            left += 1
            right -= 1
        middles[node] = left

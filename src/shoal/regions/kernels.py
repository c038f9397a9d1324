"""Compiled loops over rows on their way to regions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.compiled import compiled

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Keys = NDArray[np.uint64]


class RouteTable(NamedTuple):
    """The nodes of a tree of cuts, the root first."""

    attribute: Codes  # -1: not cut
    cut: Codes
    below: Codes
    above: Codes
    region: Codes


@compiled
def route(
    keys: Keys,
    columns: Ints,
    masks: Keys,
    first: Ints,
    leaf: Codes,
    tree: RouteTable,
    complete: bool,
) -> Codes:
    """Return the region of each row, or -1 for a row that lacks a value where all must be *complete*.

    Column c stands in word ``columns[c, 0]`` of the *keys*, ``columns[c, 1]`` bits from the right; the leaf of its code
    is at ``first[c]`` and after. A node of the tree sends leaves of its attribute up to ``cut`` to ``below``.
    """
    n_rows, n_columns = keys.shape[1], len(columns)
    out = np.empty(n_rows, dtype=np.int32)
    for row in range(n_rows):
        whole = True
        if complete:
            for column in range(n_columns):
                code = (keys[columns[column, 0], row] >> np.uint64(columns[column, 1])) & masks[column]
                if code == np.uint64(0):
                    whole = False
                    break
        if not whole:
            out[row] = -1
            continue
        node = 0
        while tree.attribute[node] >= 0:
            column = tree.attribute[node]
            code = (keys[columns[column, 0], row] >> np.uint64(columns[column, 1])) & masks[column]
            under = leaf[first[column] + np.int64(code)] <= tree.cut[node]
            node = tree.below[node] if under else tree.above[node]
        out[row] = tree.region[node]
    return out


@compiled
def tally(region: Codes, values: Codes, counts: Ints) -> None:
    """Add one to the count of each row's value in its region; rows of no region count nowhere."""
    for row in range(len(region)):
        if region[row] >= 0:
            counts[region[row], values[row]] += 1

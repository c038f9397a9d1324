"""Compiled loops over the records of buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@compiled
def group_sums(item: Codes, shares: Floats, weights: Floats, group: Codes, n_groups: int) -> Floats:
    """Return (n_groups,) the weight of entries times their shares in all attributes.

    Entry e has the range ``item[j, e]`` of attribute j, of which the share ``shares[j, item[j, e]]`` counts.
    """
    result = np.zeros(n_groups, dtype=np.float64)
    for entry in range(len(weights)):
        part = weights[entry]
        for j in range(len(item)):
            part *= shares[j, item[j, entry]]
            if part == 0.0:
                break
        result[group[entry]] += part
    return result


@compiled
def spread(group: Codes, item: Codes, shares: Floats, weights: Floats, n_groups: int) -> Floats:
    """Return (n_groups, n_bins) the weight of each group's entries, spread over the bins of their ranges."""
    result = np.zeros((n_groups, shares.shape[1]), dtype=np.float64)
    first = np.zeros(shares.shape[0], dtype=np.int64)
    stop = np.zeros(shares.shape[0], dtype=np.int64)
    for r in range(shares.shape[0]):
        for place in range(shares.shape[1]):
            if shares[r, place] > 0.0:
                if stop[r] == 0:
                    first[r] = place
                stop[r] = place + 1
    for entry in range(len(weights)):
        r = item[entry]
        for place in range(first[r], stop[r]):
            result[group[entry], place] += weights[entry] * shares[r, place]
    return result

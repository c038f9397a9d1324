"""Compiled loops of the measures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@compiled
def frequencies(codes: NDArray[Any], counts: NDArray[np.int64], n_values: int) -> NDArray[np.int64]:
    """Return (n_values,) the records of each code."""
    total = np.zeros((4, n_values), dtype=np.int64)  # neighbours are often equal and would wait for each other
    for item in range(len(codes)):
        total[item & 3, codes[item]] += counts[item]
    result: NDArray[np.int64] = total.sum(axis=0)
    return result


@compiled
def open_bits(lo: Codes, hi: Codes, sizes: NDArray[np.int64], before: NDArray[np.int64]) -> float:
    """Return the sum over classes of size * log2(records from ``before[lo]`` up to ``before[hi]``)."""
    total = rest = 0.0  # what the last addition lost goes into the next one
    for row in range(len(sizes)):
        if sizes[row] > 0:
            term = sizes[row] * np.log2(before[hi[row]] - before[lo[row]]) - rest
            larger = total + term
            rest = (larger - total) - term
            total = larger
    return total


@compiled
def spans(lo: NDArray[Any], hi: NDArray[Any], line: Floats) -> Floats:
    """Return (n_ranges,) how far each leaf range reaches on the line, relative to its length.

    Leaves beyond the line are missing values: alone they are exact, together with others anything is possible.
    """
    result = np.zeros(len(lo), dtype=np.float64)
    n_places = len(line)
    length = line[-1] - line[0]
    for row in range(len(lo)):
        if lo[row] < n_places and hi[row] > n_places:
            result[row] = 1.0
        elif lo[row] < n_places and length > 0.0:
            result[row] = (line[hi[row] - 1] - line[lo[row]]) / length
    return result


@compiled
def stretches(shares: Floats) -> NDArray[np.int64]:
    """Return (n_ranges, 2) the first bin of each range that has a share, and the one after the last."""
    found = np.zeros((shares.shape[0], 2), dtype=np.int64)
    for r in range(shares.shape[0]):
        for place in range(shares.shape[1]):
            if shares[r, place] > 0.0:
                if found[r, 1] == 0:
                    found[r, 0] = place
                found[r, 1] = place + 1
    return found


@compiled
def crossed(first: Codes, first_shares: Floats, second: Codes, second_shares: Floats, records: Floats) -> Floats:
    """Return the expected table of two columns: each row's records spread over the bins of both its ranges.

    The shares of a range over the bins are a row of ``*_shares``.
    """
    table = np.zeros((first_shares.shape[1], second_shares.shape[1]), dtype=np.float64)
    first_bins, second_bins = stretches(first_shares), stretches(second_shares)
    for row in range(len(records)):
        a, b = first[row], second[row]
        for i in range(first_bins[a, 0], first_bins[a, 1]):
            weight = records[row] * first_shares[a, i]
            for j in range(second_bins[b, 0], second_bins[b, 1]):
                table[i, j] += weight * second_shares[b, j]
    return table


@compiled
def answers(item: Codes, shares: Floats, records: Floats) -> Floats:
    """Return (n_queries,) the expected count of records in each query's box.

    Row r has the range ``item[j, r]`` of attribute j, of whose records query q asks for ``shares[j, q, item[j, r]]``.
    """
    result = np.zeros(shares.shape[1], dtype=np.float64)
    for query in range(shares.shape[1]):
        total = 0.0
        for row in range(len(records)):
            part = records[row]
            for j in range(len(item)):
                part *= shares[j, query, item[j, row]]
                if part == 0.0:
                    break
            total += part
        result[query] = total
    return result

"""Compiled loops that look tuples up in the buckets of their values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.audit.membership.kernels import ones
from shoal.core.compiled import compiled
from shoal.core.pairs import place_of

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]


@compiled
def fill_bits(first: Ints, bucket: Codes, row: Ints, bits: Words) -> None:
    """Set the bits of the buckets of each value that has a row."""
    for value in range(len(row)):
        if row[value] >= 0:
            for entry in range(first[value], first[value + 1]):
                b = bucket[entry]
                bits[row[value], b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@compiled
def rarest_part(values: Codes, t: int, value_first: Ints, first: Ints, own: Ints) -> int:
    """Fill in the numbers of a tuple's values; return the part whose value has fewest buckets, -1 if one has none."""
    rarest = -1
    for d in range(len(own)):
        if values[d, t] < 0:
            return -1
        own[d] = value_first[d] + values[d, t]
        if rarest < 0 or first[own[d] + 1] - first[own[d]] < first[own[rarest] + 1] - first[own[rarest]]:
            rarest = d
    return rarest


@compiled
def matching_buckets(values: Codes, value_first: Ints, first: Ints, bucket: Codes, row: Ints, bits: Words) -> Ints:
    """Return (n_tuples,) the number of buckets that show all values of each tuple.

    ``values`` is (n_parts, n_tuples); values of all parts are numbered through from ``value_first``. Values of many
    buckets have a row of bits. A part's value of -1 is one that no bucket shows.
    """
    n_parts, n_tuples = values.shape
    found = np.zeros(n_tuples, dtype=np.int64)
    own = np.empty(n_parts, dtype=np.int64)
    for t in range(n_tuples):
        rarest = rarest_part(values, t, value_first, first, own)
        if rarest < 0:
            continue
        total = 0
        if row[own[rarest]] >= 0:  # the longer ones have bits too
            for word in range(bits.shape[1]):
                common = bits[row[own[0]], word]
                for d in range(1, n_parts):
                    common &= bits[row[own[d]], word]
                total += ones(common)
        else:
            for entry in range(first[own[rarest]], first[own[rarest] + 1]):
                b = bucket[entry]
                everywhere = True
                for d in range(n_parts):
                    if d == rarest:
                        continue
                    value = own[d]
                    if row[value] >= 0:
                        everywhere = (bits[row[value], b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != 0
                    else:
                        everywhere = place_of(bucket, first[value], first[value + 1], b) >= 0
                    if not everywhere:
                        break
                if everywhere:
                    total += 1
        found[t] = total
    return found


@compiled
def scores(
    values: Codes, value_first: Ints, first: Ints, bucket: Codes, count: Ints, sizes: Ints
) -> tuple[Ints, Floats, Floats]:
    """Return for each tuple its number of matching buckets, its matching degree and its expected copies."""
    n_parts, n_tuples = values.shape
    matching = np.zeros(n_tuples, dtype=np.int64)
    degree = np.zeros(n_tuples)
    copies = np.zeros(n_tuples)
    own = np.empty(n_parts, dtype=np.int64)
    for t in range(n_tuples):
        rarest = rarest_part(values, t, value_first, first, own)
        if rarest < 0:
            continue
        for entry in range(first[own[rarest]], first[own[rarest] + 1]):
            b = bucket[entry]
            share = count[entry] / sizes[b]
            for d in range(n_parts):
                if d != rarest:
                    other = place_of(bucket, first[own[d]], first[own[d] + 1], b)
                    if other < 0:
                        share = 0.0
                        break
                    share *= count[other] / sizes[b]
            if share > 0:
                matching[t] += 1
                degree[t] += share
                copies[t] += share * sizes[b]
    return matching, degree, copies

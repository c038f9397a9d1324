"""Regions of a generalized part must not overlap: else it is not clear what an adversary's tuple is published as."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shoal.arrays import CodeArray
from shoal.verify.covers import Covers
from shoal.verify.kernels import kernel
from shoal.verify.result import Check
from shoal.verify.sliced.reading import SlicedRows
from shoal.verify.spans import Ragged, Spans


@kernel
def _meet(ragged: Ragged, one: int, other: int) -> bool:
    """Whether two boxes have a point in common, range by range."""
    labels, offsets, start, low, high = ragged
    for a in range(labels.shape[1]):
        first, second = offsets[a] + labels[one, a], offsets[a] + labels[other, a]
        shared = False
        for i in range(start[first], start[first + 1]):
            for j in range(start[second], start[second + 1]):
                shared |= low[i] < high[j] and low[j] < high[i]
        if not shared:
            return False
    return True


@kernel
def _overlapping(hulls: CodeArray, ragged: Ragged) -> int:
    """Return how many boxes meet one after them; hulls are sorted by the low edge of the first attribute."""
    n, d = hulls.shape[0], hulls.shape[1] // 2
    found = 0
    for i in range(n):
        for j in range(i + 1, n):
            if hulls[j, 0] >= hulls[i, 1]:
                break
            apart = False
            for a in range(1, d):
                apart |= hulls[i, 2 * a] >= hulls[j, 2 * a + 1] or hulls[j, 2 * a] >= hulls[i, 2 * a + 1]
            if not apart and _meet(ragged, i, j):
                found += 1
                break
    return found


def check_regions(released: SlicedRows, covers: Mapping[str, Covers]) -> Check:
    """No two regions of a part cover the same values."""
    found = 0
    for reader in released.readers:
        if reader.layout.boxed:
            own = [covers[name] for name in reader.layout.quasi]
            spans = Spans.of(own, reader.regions.tuples())
            narrow = int(np.argmin(spans.usual_widths() / [cover.width for cover in own]))
            order = np.argsort(spans.hulls[:, 2 * narrow], kind="stable")
            swapped = spans.taken(order)
            edges = np.roll(swapped.hulls, -2 * narrow, axis=1)
            found += int(_overlapping(np.ascontiguousarray(edges), swapped.ragged))
    if found:
        return Check("regions", False, f"{found} regions of a part overlap others of it")
    return Check("regions", True, "regions of a part do not overlap")

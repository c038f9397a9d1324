"""What the records of a group are published with: their mean, their median or their most frequent value."""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, FloatArray
from shoal.microaggregation.grouping import Grouping
from shoal.microaggregation.space import UNITS, Space


def group_means(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) the mean of each group, to the last digit the same for every order of the rows."""
    in_order = np.asarray(column, dtype=np.float64)[np.lexsort((column, grouping.group))]
    sizes = grouping.sizes
    means: FloatArray = np.add.reduceat(in_order, np.cumsum(sizes) - sizes) / sizes
    return means


def group_medians(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) a number of each group that half of it does not exceed: the lower middle one."""
    order = np.lexsort((column, grouping.group))
    sizes = grouping.sizes
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    medians: FloatArray = np.asarray(column, dtype=np.float64)[order[middle]]
    return medians


def group_modes(codes: CodeArray, grouping: Grouping) -> CodeArray:
    """Return (n_groups,) the most frequent code of each group; of several the one that the table has most of.

    >>> grouping = Grouping(np.array([0, 0, 0, 1, 1], dtype=np.int32), 2)
    >>> group_modes(np.array([2, 1, 2, 0, 2], dtype=np.int32), grouping).tolist()
    [2, 2]
    """
    n_codes = int(codes.max()) + 1
    pairs, counts = np.unique(grouping.group.astype(np.int64) * n_codes + codes, return_counts=True)
    group, code = np.divmod(pairs, n_codes)
    overall = np.bincount(codes, minlength=n_codes)
    order = np.lexsort([code, -overall[code], -counts, group])
    first = np.searchsorted(group[order], np.arange(grouping.n_groups))
    modes: CodeArray = code[order[first]].astype(np.int32)
    return modes


def squared_errors(space: Space, grouping: Grouping) -> tuple[float, float]:
    """Return the squared distances of the records from their groups' centres, and from that of the table.

    Their ratio is the share of the variation that microaggregation takes away (SSE / SST). Units are those of
    :class:`Space`: standard deviations for numbers, and half the squared distance of indicators for categories.
    """
    group = grouping.group[space.order]
    return _around(space, group, grouping.n_groups), _around(space, np.zeros_like(group), 1)


def _around(space: Space, group: CodeArray, n_groups: int) -> float:
    sizes = np.bincount(group, minlength=n_groups)
    total = 0.0
    for column in space.numbers.T:
        scaled = column / UNITS
        centre = np.bincount(group, scaled, n_groups) / sizes
        total += float(np.sum((scaled - centre[group]) ** 2))
    for codes, n_values, unequal in zip(space.categories.T, space.n_values, space.unequal, strict=True):
        pairs, counts = np.unique(group.astype(np.int64) * int(n_values) + codes, return_counts=True)
        squares = np.bincount(pairs // int(n_values), counts.astype(np.float64) ** 2, n_groups)
        total += float(unequal) / UNITS**2 * float(np.sum(sizes - squares / sizes)) / 2.0
    return total

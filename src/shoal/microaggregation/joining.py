"""Joining groups that do not suffice with their nearest neighbours."""

from __future__ import annotations

import numpy as np

from shoal.arrays import BoolArray, CodeArray, FloatArray
from shoal.compiled import compiled
from shoal.microaggregation.grouping import Grouping
from shoal.microaggregation.kernels import record_distance
from shoal.microaggregation.shared import group_modes
from shoal.microaggregation.space import Space

MOST_NEIGHBOURS = 20_000  # groups that are looked at for each


def joined(space: Space, grouping: Grouping, failing: BoolArray, *, most: int = MOST_NEIGHBOURS) -> Grouping:
    """Return fewer groups: each of the (n_groups,) *failing* ones goes together with one whose centre is nearest.

    Of many groups only the *most* with the nearest numbers are looked at, which are of the same block or of the next.
    A group that another one was joined to takes no further step by itself: it may suffice now.
    """
    group = grouping.group[space.order]
    sizes = grouping.sizes
    numbers = np.zeros((grouping.n_groups, space.numbers.shape[1]))
    for j, column in enumerate(space.numbers.T):
        numbers[:, j] = np.bincount(group, column, grouping.n_groups) / sizes
    categories = np.zeros((grouping.n_groups, space.categories.shape[1]), dtype=np.int32)
    within = Grouping(group, grouping.n_groups)
    for j, codes in enumerate(space.categories.T):
        categories[:, j] = group_modes(codes, within)
    partner = _partners(numbers, categories, space.unequal, failing, most)
    first = _roots(partner)
    _, number = np.unique(first, return_inverse=True)
    number = number.reshape(-1).astype(np.int32)
    return Grouping(number[grouping.group], int(number.max()) + 1)


@compiled
def _partners(
    numbers: FloatArray, categories: CodeArray, unequal: FloatArray, failing: BoolArray, most: int
) -> CodeArray:
    """Return (n_groups,) the group that each one is joined to, or itself."""
    n_groups = len(numbers)
    partner = np.arange(n_groups).astype(np.int32)
    touched = np.zeros(n_groups, dtype=np.bool_)
    for group in range(n_groups):
        if not failing[group] or touched[group]:
            continue
        begin = max(min(group - most // 2, n_groups - most), 0)
        best, least = -1, np.inf
        for other in range(begin, min(begin + most, n_groups)):
            distance = record_distance(numbers, categories, unequal, group, other)
            if other != group and distance < least:
                best, least = other, distance
        if best >= 0:
            partner[group] = best
            touched[group] = touched[best] = True
    return partner


@compiled
def _roots(partner: CodeArray) -> CodeArray:
    """Return (n_groups,) one group of each set of groups that are joined.

    Whoever has a partner was not touched before, and its partner takes no step later: following partners ends.
    """
    root = partner.copy()
    for group in range(len(root)):
        at = group
        while partner[at] != at:
            at = partner[at]
        root[group] = at
    return root

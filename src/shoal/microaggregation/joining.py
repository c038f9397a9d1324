"""Joining groups that do not suffice with their nearest neighbours."""

from __future__ import annotations

import numpy as np

from shoal.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.compiled import compiled
from shoal.microaggregation.grouping import Grouping
from shoal.microaggregation.kernels import record_distance
from shoal.microaggregation.shared import group_modes
from shoal.microaggregation.space import Space

MOST_NEIGHBOURS = 20_000  # groups that are looked at for each


def joined(space: Space, grouping: Grouping, failing: BoolArray, *, most: int = MOST_NEIGHBOURS) -> Grouping:
    """Return fewer groups: of the (n_groups,) *failing* ones each goes together with one whose centre is nearest.

    Pairs are made, one after the other, of groups that are still by themselves: both together may suffice, and no
    group swallows all that is around it. At least one pair is made unless there is one group only. Of more than
    *most* groups only those are looked at whose numbers are nearest: number them so that near ones are near.
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
    both = np.minimum(partner, np.arange(grouping.n_groups))
    number: CodeArray = np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return Grouping(number[grouping.group], int(number.max()) + 1)


@compiled
def _partners(
    numbers: FloatArray, categories: CodeArray, unequal: FloatArray, failing: BoolArray, most: int
) -> IntArray:
    """Return (n_groups,) the group that each one is paired with, or itself."""
    n_groups = len(numbers)
    partner = np.arange(n_groups)
    for group in range(n_groups):
        if not failing[group] or partner[group] != group:
            continue
        begin = max(min(group - most // 2, n_groups - most), 0)
        best, least = -1, np.inf
        for other in range(begin, min(begin + most, n_groups)):
            if other == group or partner[other] != other:
                continue
            distance = record_distance(numbers, categories, unequal, group, other)
            if distance < least:
                best, least = other, distance
        if best >= 0:
            partner[group], partner[best] = best, group
    return partner

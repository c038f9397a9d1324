"""Dealing all rows of a source to their buckets at once."""

from __future__ import annotations

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import CodeArray
from shoal.core.errors import InputError
from shoal.core.randomness import Chance
from shoal.plan.plan import SPLIT, Assignment


def dealt(assignment: Assignment, cells: CodeArray, chance: Chance) -> CodeArray:
    """Return (n_rows,) the bucket of each row, or WITHHELD, every arrangement that the quotas allow equally likely.

    The places of each split cell are laid out one by one and put in random order; its rows take them as they come.

    >>> assignment = Assignment.of_pieces(2, np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([1, 1, 2]))
    >>> buckets = dealt(assignment, np.array([1, 0, 1, 1], dtype=np.int32), Chance.of(1)).tolist()
    >>> buckets[1], sorted(buckets)
    (0, [0, 0, 1, 1])
    """
    buckets: CodeArray = assignment.class_of[cells]
    rows = np.flatnonzero(buckets == SPLIT)
    n_split = len(assignment.split_cells)
    if not n_split:
        return buckets
    number = np.zeros(len(assignment.class_of), dtype=np.int32)  # among the split cells
    number[assignment.split_cells] = np.arange(n_split, dtype=np.int32)
    first, by_cell = kernels.grouped(number[cells[rows]], n_split)
    of_quota = np.repeat(np.arange(n_split, dtype=np.int32), np.diff(assignment.first))
    of_place = np.repeat(of_quota, assignment.quota)
    if not np.array_equal(np.diff(first), np.bincount(of_place, minlength=n_split)):
        raise InputError("the source changed while it was being read; nothing was published")
    places = np.repeat(assignment.target, assignment.quota)
    buckets[rows[by_cell]] = places[chance.order_within(of_place, n_split)]
    return buckets

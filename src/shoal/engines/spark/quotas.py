"""Which partition fills how many places of each class: the quotas of cells whose records go to several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.errors import InputError, UsageError
from shoal.plan.plan import Assignment

_MOST_RECORDS = 1_000_000_000  # of one cell: beyond that NumPy does not draw


@dataclass(frozen=True, slots=True, eq=False)
class PartitionQuotas:
    """The quotas of one partition: those that are not zero."""

    places: IntArray  # (n,) among the assignment's quotas
    records: IntArray  # (n,)

    def of(self, n_quotas: int) -> IntArray:
        """Return (n_quotas,) all of them."""
        quotas = np.zeros(n_quotas, dtype=np.int64)
        quotas[self.places] = self.records
        return quotas


def dealt_quotas(
    assignment: Assignment, held: dict[int, tuple[IntArray, IntArray]], rng: np.random.Generator
) -> dict[int, PartitionQuotas]:
    """Deal the quotas of split cells to the partitions, given how many records of which of these cells each holds.

    If all records of a cell took places in random order, the places of a partition's records would be a draw without
    replacement from those that are left: multivariate hypergeometric. Each partition then deals its places among its
    own records, and together every arrangement that the quotas allow is equally likely.

    >>> assignment = Assignment.of_pieces(1, np.array([0, 0]), np.array([0, 1]), np.array([2, 1]))
    >>> held = {0: (np.array([0]), np.array([1])), 1: (np.array([0]), np.array([2]))}
    >>> dealt = dealt_quotas(assignment, held, np.random.default_rng(1))
    >>> sum(part.of(2) for part in dealt.values()).tolist()
    [2, 1]
    """
    remaining = assignment.quota.copy()
    if len(remaining) and int(remaining.max()) >= _MOST_RECORDS:
        raise UsageError("a cell has a thousand million records or more in one class; publish the table in parts")
    dealt = {}
    for number in sorted(held):
        taken = _drawn(assignment.first, remaining, *held[number], rng)
        remaining -= taken
        places = np.flatnonzero(taken)
        dealt[number] = PartitionQuotas(places, taken[places])
    if remaining.any():
        raise InputError("the source changed while it was being read; nothing was published")
    return dealt


def _drawn(
    first: IntArray, remaining: IntArray, cells: IntArray, records: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return (n_quotas,) how many of each quota's places go to a partition; each round settles one quota of a cell."""
    taken = np.zeros_like(remaining)
    totals = np.add.reduceat(remaining, first[:-1])
    behind, wanted = totals[cells], records.copy()  # (n_cells,) places in the quotas to come, and how many of them
    if bool((wanted > behind).any()):
        raise InputError("the source changed while it was being read; nothing was published")
    place = first[cells].copy()
    active = np.flatnonzero(wanted)
    while len(active):
        here = remaining[place[active]]
        behind[active] -= here
        drawn = _hypergeometric(here, behind[active], wanted[active], rng)
        taken[place[active]] = drawn
        wanted[active] -= drawn
        place[active] += 1
        active = active[wanted[active] > 0]
    return taken


def _hypergeometric(good: IntArray, bad: IntArray, drawn: IntArray, rng: np.random.Generator) -> IntArray:
    if len(bad) and int(bad.max()) >= _MOST_RECORDS:
        raise UsageError("a cell has a thousand million records or more; publish the table in parts")
    return rng.hypergeometric(good, bad, drawn)

"""The records that a synthetic table is made of: all that is looked at of them are tables of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.synthetic.domains import Domain

MOST_CELLS = 250_000  # of one table of counts
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Cells of equal records; each record is in one cell of every table of counts."""

    codes: tuple[CodeArray, ...]  # (n_cells,) of each attribute
    counts: IntArray  # (n_cells,)
    domains: tuple[Domain, ...]

    def of(self, place: int) -> IntArray:
        """Return (size,) the records of each value."""
        return kernels.summed(self.codes[place], self.counts, self.domains[place].size)

    def of_pair(self, pair: Pair) -> IntArray:
        """Return (size, size) the records of each two values of two attributes."""
        first, second = pair
        size = self.domains[first].size, self.domains[second].size
        joint = self.codes[first] * np.int32(size[1]) + self.codes[second]  # at most MOST_CELLS
        return kernels.summed(joint, self.counts, size[0] * size[1]).reshape(size)

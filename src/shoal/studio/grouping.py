"""Cells in groups that agree in some columns, found once and kept for every promise that is asked about them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray

MOST_BYTES = 256 << 20  # of the groupings that are kept


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The cells that records have, those which agree in some columns beside each other."""

    cells: CodeArray  # (n_present,) group by group
    first: CodeArray  # (n_groups + 1,) where each group begins among them
    sizes: IntArray  # (n_groups,) records

    @classmethod
    def of(cls, columns: Sequence[AnyIntArray], counts: IntArray) -> Grouping:
        """Group the cells by their codes in all *columns*; without a column all of them are one group."""
        present = np.flatnonzero(counts).astype(np.int32)
        key = np.zeros(len(present), dtype=np.int64)
        bound = 1
        for column in columns:
            codes = column[present]
            size = int(codes.max()) + 1
            if bound * size >= 1 << 62:
                key = np.unique(key, return_inverse=True)[1].reshape(-1)
                bound = int(key.max()) + 1
            key = key * size + codes
            bound *= size
        order = np.argsort(key)
        key = key[order]
        starts = np.append(0, np.flatnonzero(key[1:] != key[:-1]) + 1)
        cells = present[order]
        sizes = np.add.reduceat(counts[cells], starts)
        return cls(cells, np.append(starts, len(cells)).astype(np.int32), sizes)

    @property
    def n_bytes(self) -> int:
        """What it takes to keep."""
        return self.cells.nbytes + self.first.nbytes + self.sizes.nbytes

    def only(self, chosen: BoolArray) -> tuple[IntArray, CodeArray]:
        """Return some of the groups alone: where each begins now, and their cells."""
        lengths = np.diff(self.first)
        starts = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)
        return starts, self.cells if chosen.all() else self.cells[np.repeat(chosen, lengths)]


@dataclass(slots=True, eq=False)
class Groupings:
    """The groupings of one table's cells; those beyond a bound of memory are found anew each time."""

    most_bytes: int = MOST_BYTES
    _kept: dict[Hashable, Grouping] = field(default_factory=dict)
    _n_bytes: int = 0

    def by(self, name: Hashable, columns: Sequence[AnyIntArray], counts: IntArray) -> Grouping:
        """Return the grouping of that *name*, by which the same columns and counts must be meant each time."""
        if name in self._kept:
            return self._kept[name]
        found = Grouping.of(columns, counts)
        if self._n_bytes + found.n_bytes <= self.most_bytes:
            self._kept[name] = found
            self._n_bytes += found.n_bytes
        return found

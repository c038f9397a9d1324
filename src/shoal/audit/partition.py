"""Cells in groups that share the values of some attributes, and what one more attribute makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from shoal.audit import kernels
from shoal.core.arrays import CodeArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """The codes of one attribute, cell by cell."""

    name: str
    codes: CodeArray  # (n_cells,)
    domain: int  # codes are below it


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Groups of cells that no attribute chosen so far tells apart.

    A cell that is alone in its group stays alone whatever attribute comes next, so such cells are only counted:
    this is what makes sets of many attributes cheap.

    >>> records = np.array([1, 2, 1])
    >>> sex = CodedColumn("sex", np.array([0, 0, 1], dtype=np.int32), 2)
    >>> by_sex = Partition.whole(records).split(sex)
    >>> by_sex.n_classes, by_sex.n_unique
    (2, 1)
    """

    records: IntArray  # (n_cells,)
    first: IntArray  # (n_groups + 1,) where each group starts in order
    order: CodeArray  # cells of the groups
    n_lone: int = 0  # cells that are alone
    n_lone_unique: int = 0  # of these, cells of one record

    @classmethod
    def whole(cls, records: IntArray) -> Self:
        """All cells as one group."""
        return cls(records, np.array([0, len(records)], dtype=np.int64), np.arange(len(records), dtype=np.int32))

    @property
    def n_classes(self) -> int:
        """Distinct combinations of the attributes chosen so far (after at least one split)."""
        return self.n_lone + len(self.first) - 1

    @property
    def n_unique(self) -> int:
        """Records that no other shares its combination with (after at least one split)."""
        return self.n_lone_unique

    def split(self, column: CodedColumn) -> Partition:
        """Return the groups that one more attribute makes."""
        first, order, lone, unique = kernels.split(self.first, self.order, column.codes, self.records, column.domain)
        return Partition(self.records, first, order, self.n_lone + lone, self.n_lone_unique + unique)

    def count(self, column: CodedColumn) -> tuple[int, int]:
        """Return the classes and unique records that one more attribute would make, without making them."""
        if not len(self.order):
            return self.n_lone, self.n_lone_unique
        distinct, unique = kernels.count_split(self.first, self.order, column.codes, self.records, column.domain)
        return self.n_lone + distinct, self.n_lone_unique + unique

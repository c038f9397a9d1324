"""The values that an attribute may have, known before anybody looks at the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy

MOST_CELLS = 250_000  # of one table of counts
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An attribute and the leaves of its declared taxonomy, one of which may stand for missing values.

    Domains never come from the data: that a rare value occurs would be told by its being there. That holds for
    missing values too, so a domain has them if the policy counts them as a value, and not because one occurs.
    """

    name: str
    taxonomy: Taxonomy

    def __post_init__(self) -> None:
        """Refuse values that were taken from the data."""
        if not self.taxonomy.declared:
            raise PolicyError(
                f"column {self.name!r}: a differentially private table needs values that are declared, not taken from "
                "the data; give it a taxonomy that lists them all: intervals, dates with min and max, groups, a tree, "
                "a file, or flat with values"
            )

    @property
    def size(self) -> int:
        """The number of values."""
        return self.taxonomy.n_leaves

    def encode(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) codes, -1 for what is outside the domain."""
        return self.taxonomy.encode(values)

    def decode(self, codes: CodeArray) -> pa.Array:
        """Return the labels of codes."""
        return pa.array(self.taxonomy.leaf_labels, pa.string()).take(pa.array(codes))


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

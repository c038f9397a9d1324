"""The values that an attribute may have, known before anybody looks at the data."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy


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

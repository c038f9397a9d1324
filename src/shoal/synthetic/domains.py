"""The values that an attribute may have, known before anybody looks at the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An attribute and the leaves of its declared taxonomy; with ``missing``, one value more for those that lack one.

    Domains never come from the data: that a rare value occurs would be told by its being there.
    """

    name: str
    taxonomy: Taxonomy
    missing: bool = False

    def __post_init__(self) -> None:
        """Refuse values that were taken from the data."""
        if not self.taxonomy.declared or self.taxonomy.missing is not None:
            raise PolicyError(
                f"column {self.name!r}: a differentially private table needs values that are declared, not taken from "
                "the data; give it a taxonomy of intervals, a tree, a file or a list of values"
            )

    @property
    def size(self) -> int:
        """The number of values."""
        return self.taxonomy.n_leaves + self.missing

    def encode(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) codes, -1 for what is outside the domain."""
        codes = np.full(len(values), self.size - 1 if self.missing else -1, dtype=np.int32)
        present = values.is_valid().to_numpy(zero_copy_only=False)
        codes[present] = self.taxonomy.encode(values.drop_null())
        return codes

    def decode(self, codes: CodeArray) -> pa.Array:
        """Return the labels of codes, null for missing."""
        labels = pa.array(self.taxonomy.leaf_labels, pa.string())
        return labels.take(pa.array(codes, mask=codes >= self.taxonomy.n_leaves))

"""Quasi columns that publish values, not labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.encoding import Encoding
from shoal.engines.local import CountedCells
from shoal.plan import Plan
from shoal.problem import Attribute
from shoal.publishing.columns import CellColumn, coded


@dataclass(frozen=True, slots=True, eq=False)
class ValueColumn:
    """One quasi attribute without labels: all records of a class publish the same value."""

    attribute: Attribute
    index: CodeArray  # (n_classes,) place among the entries, -1 for missing
    entries: pa.Array

    @classmethod
    def of(cls, attribute: Attribute, counted: CountedCells, encoding: Encoding, plan: Plan) -> ValueColumn:
        """Publish the values of the source, which all records of a class have in common."""
        values = CellColumn.of(counted, attribute.name)
        cells = np.arange(len(plan.assignment.class_of)) if encoding.kept is None else encoding.kept
        index = np.empty(plan.n_classes, dtype=np.int32)
        index[plan.assignment.class_of] = values.index[cells]  # no record is withheld, so each class has some
        return cls(attribute, index, values.values)

    def values(self, classes: CodeArray) -> pa.Array:
        """Return the published values of rows, given their classes."""
        return coded(self.index[classes], self.entries)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: how the values are read."""
        scale = self.attribute.taxonomy.scale
        return {"role": "quasi", "kind": scale.kind, **scale.reading()}

"""Published columns: what depends on a record's cell alone, or on its class alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray
from shoal.engines.local import CountedCells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute
from shoal.policy.encoding import Encoding


class ClassColumn(Protocol):
    """One quasi attribute: what each class publishes of it, and how the manifest tells of it."""

    @property
    def attribute(self) -> Attribute:
        """The attribute."""

    def values(self, classes: CodeArray) -> pa.Array:
        """Return the published values of rows, given their classes."""

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry."""


@dataclass(frozen=True, slots=True, eq=False)
class CellColumn:
    """What each counted cell publishes in one column: one of ``values``, or nothing where ``index`` is -1."""

    index: CodeArray  # (n_counted_cells,)
    values: pa.Array

    @classmethod
    def of(cls, counted: CountedCells, name: str) -> CellColumn:
        """Publish the values of the source as they are."""
        column = counted.columns.index(name)
        return cls(counted.codes(column).astype(np.int32) - 1, counted.dictionaries[column].values)

    def take(self, cells: AnyIntArray) -> pa.Array:
        """Return the values of rows, given their cells."""
        return coded(self.index[cells], self.values)


def without_dictionary(column: pa.Array) -> pa.Array:
    """Return the same values, spelled out."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def coded(index: CodeArray, values: pa.Array) -> pa.Array:
    """Return the value that each index tells, null for -1; texts stay coded.

    >>> coded(np.array([1, -1], dtype=np.int32), pa.array([30, 40])).to_pylist()
    [40, None]
    """
    indices = pa.array(index, mask=index < 0)
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(indices, values)
    return values.take(indices)


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

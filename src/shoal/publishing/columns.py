"""Published columns whose value depends on a record's cell alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import AnyIntArray, CodeArray
from shoal.engines.local import CountedCells


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

"""Classes of rows that agree in quasi attributes published as values, not as labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, KeyArray
from shoal.verify.contents import Contents, common_type
from shoal.verify.tally import Interner


class QuasiValues:
    """Numbers the distinct combinations of values as they are written, for so whoever reads them tells rows apart.

    A number in two spellings makes two classes, a text for missing values is not the same as none at all, and -0.0 is
    not 0.0: promises are then kept by each of them. Combinations are told apart by 64-bit hashes under a random key.

    >>> classes = QuasiValues(["age"], pa.schema([("age", pa.string())]))
    >>> classes.ids(classes.hashes(pa.record_batch({"age": ["7", "7.0", None, "7"]}))).tolist()
    [0, 1, 2, 0]
    """

    def __init__(self, names: Sequence[str], published: pa.Schema) -> None:
        self._names = list(names)
        kinds = [published.field(name).type for name in names]
        compared = [pa.int64() if pa.types.is_floating(kind) else common_type(kind, kind) for kind in kinds]
        self._contents = Contents(self._names, compared, ())
        self._numbers = Interner()

    @property
    def count(self) -> int:
        """How many classes were met."""
        return self._numbers.count

    def hashes(self, batch: pa.RecordBatch) -> KeyArray:
        """Return (n_rows,) what tells the rows' classes apart; any thread may ask."""
        columns = [_bits(batch.column(name)) for name in self._names]
        return self._contents.hashes(pa.RecordBatch.from_arrays(columns, names=self._names))

    def ids(self, hashes: KeyArray) -> CodeArray:
        """Return (n_rows,) the numbers of classes."""
        return self._numbers.ids(hashes)


def _bits(column: pa.Array) -> pa.Array:
    """Return floats as the whole numbers that have their bits, other columns as they are."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0), dtype=np.float64)
    return pa.array(numbers.view(np.int64), mask=np.asarray(column.is_null()))

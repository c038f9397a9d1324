"""Where rows of a source or a population lie in the space that labels cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray
from shoal.verify.covers import Covers
from shoal.verify.kernels import looked_up
from shoal.verify.reading import coded


class PointReader:
    """Turns batches of a source or population into points of the space that labels cover."""

    def __init__(self, covers: Sequence[Covers], missing: Sequence[str]) -> None:
        self._covers = covers
        self._missing = pa.array(list(missing), type=pa.string())

    def points(self, batch: pa.RecordBatch) -> CodeArray:
        """Return (n_rows, n_attributes) codes."""
        out = np.empty((batch.num_rows, len(self._covers)), dtype=np.int32, order="F")
        for a, cover in enumerate(self._covers):
            values, places = coded(batch.column(cover.attribute.name))
            codes = np.append(cover.places(values), np.int32(cover.missing))
            codes[:-1][self._is_missing(values)] = cover.missing
            looked_up(codes, places, out[:, a])
        return out

    def _is_missing(self, values: pa.Array) -> BoolArray:
        if pa.types.is_floating(values.type):
            return np.isnan(np.asarray(values, dtype=np.float64))
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            return np.asarray(pc.is_in(values.cast(pa.string()), value_set=self._missing), dtype=np.bool_)
        return np.zeros(len(values), dtype=np.bool_)

    def any_missing(self, batch: pa.RecordBatch, columns: Sequence[str]) -> BoolArray:
        """Return (n_rows,) whether one of these columns has no value."""
        out = np.zeros(batch.num_rows, dtype=np.bool_)
        for name in columns:
            values, places = coded(batch.column(name))
            out |= np.append(self._is_missing(values), True)[places]
        return out

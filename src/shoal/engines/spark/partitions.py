"""What the engine does inside a partition: the work of the local engine, on a source that is this partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.progress import Silent
from shoal.engines.local import CountedCells, LocalEngine
from shoal.sources.spark.shipping import CHUNK_ROWS, Form


@dataclass(frozen=True, slots=True, eq=False)
class CountPartition:
    """Reduces a partition to its cells."""

    form: Form
    columns: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells: a column of coded values for each attribute, and their records."""
        source = self.form.opened(number, batches)
        if source is not None:
            yield from cell_batches(LocalEngine(1).count(source, self.columns, Silent()))


@dataclass(frozen=True, slots=True, eq=False)
class LocatePartition:
    """Finds the cell of every row of a partition."""

    form: Form
    counted: CountedCells
    carried: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of rows, and beside them the columns that are carried along."""
        source = self.form.opened(number, batches)
        if source is None:
            return
        for located in LocalEngine(1).locate(source, self.counted, self.carried, Silent()):
            columns = [pa.array(located.cells.astype(np.int32)), *located.batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def cell_batches(counted: CountedCells) -> Iterator[pa.RecordBatch]:
    """Yield cells as coded values and their records, some at a time."""
    columns = []
    for place, dictionary in enumerate(counted.dictionaries):
        codes = counted.codes(place).astype(np.int32) - np.int32(1)
        columns.append(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), dictionary.values))
    columns.append(pa.array(counted.run.counts))
    batch = pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    for start in range(0, batch.num_rows, CHUNK_ROWS):
        yield batch.slice(start, CHUNK_ROWS)

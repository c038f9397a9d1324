"""The witness: the class or bucket of every row of the source, in its order; 0 if it is not published.

It is written to ``internal/`` for the verifier, which checks it instead of trusting it: see
docs/adr/0018-verification.md.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.columns.sampling import SampledSource
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.randomness import explain_file_errors
from shoal.release.release import INTERNAL, Release
from shoal.sources.base import Source, layers
from shoal.sources.writers import open_writer

FILE = "witness.parquet"
ROW = "\x1frow"  # the last column of rows on their way to be published: their places in the source
_CHUNK = 1 << 20  # rows
_BOUND = 1 << 62  # of the numbers in one column


class Witness:
    """A class number for every row of the source, 0 until the row is noted.

    A class number is 1 + the mixed radix number of the row's published labels. If they do not fit into 64 bits, there
    are several columns, each for the labels of some attributes.

    >>> witness = Witness(3, {"age": ["old", "young"], "sex": ["*"]})
    >>> rows = pa.record_batch({"age": ["young", "old"], "sex": ["*", None], ROW: [0, 2]})
    >>> [batch.column_names for batch in witness.watch(iter([rows]))], witness.numbers.tolist()
    ([['age', 'sex']], [[4, 0, 2]])
    """

    def __init__(self, n_rows: int, labels: Mapping[str, Any], folder: Path | None = None) -> None:
        """Expect columns with these labels; *folder* is for a temporary file (None: in memory)."""
        self._labels = {name: pa.array(list(own), pa.string()) for name, own in labels.items()}
        self._columns: list[list[str]] = [[]]  # the attributes of each column of numbers
        bound = 1
        for name, own in self._labels.items():
            if bound * (len(own) + 2) >= _BOUND:
                self._columns.append([])
                bound = 1
            self._columns[-1].append(name)
            bound *= len(own) + 2
        self._name = "class"
        shape = len(self._columns), n_rows
        if folder is None or n_rows < _CHUNK:
            self.numbers: IntArray = np.zeros(shape, dtype=np.int64)
        else:
            with explain_file_errors(), tempfile.TemporaryFile(dir=folder) as file:  # vanishes with the array
                if hasattr(os, "posix_fallocate"):  # a full disk is an error now rather than a signal later
                    os.posix_fallocate(file.fileno(), 0, 8 * shape[0] * shape[1])
                self.numbers = np.memmap(file, dtype=np.int64, mode="w+", shape=shape)

    @classmethod
    def of(cls, manifest: Mapping[str, Any], n_rows: int, folder: Path | None = None) -> Witness:
        attributes = manifest["attributes"].items()
        return cls(n_rows, {name: entry["labels"] for name, entry in attributes if "labels" in entry}, folder)

    @classmethod
    def of_buckets(cls, buckets: CodeArray) -> Witness:
        """Return the witness of a sliced release, given (n_rows,) the bucket of each row."""
        found = cls(0, {})
        found._name, found.numbers = "bucket", buckets.astype(np.int64)[np.newaxis]
        return found

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Note the class of every row and yield the batches without the column of places."""
        for batch in batches:
            rows = batch.column(batch.num_columns - 1).to_numpy()
            for column, names in enumerate(self._columns):
                numbers = np.zeros(batch.num_rows, dtype=np.int64)
                for name in names:
                    numbers *= len(self._labels[name]) + 2
                    numbers += self._numbers(name, batch.column(name))
                self.numbers[column, rows] = numbers + 1
            yield batch.select(batch.schema.names[:-1])

    def _numbers(self, name: str, texts: pa.Array) -> IntArray:
        """Return (n_rows,) the numbers of labels; missing values have the number after the last."""
        coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        numbers = pc.index_in(coded.dictionary, value_set=self._labels[name]).fill_null(len(self._labels[name]) + 1)
        places: IntArray = coded.indices.fill_null(len(coded.dictionary)).to_numpy().astype(np.int64)
        table: IntArray = np.append(numbers.to_numpy(), len(self._labels[name])).astype(np.int64)
        return table[places]

    def of_given(self, source: Source) -> Witness:
        """Return the witness for all rows that *source* was sampled from; the others are in no class."""
        for layer in layers(source):
            if isinstance(layer, SampledSource):
                drawn = layer.find_drawn()
                whole = copy.copy(self)
                whole.numbers = np.zeros((len(self.numbers), len(drawn)), dtype=np.int64)
                whole.numbers[:, drawn] = self.numbers
                return whole
        return self

    def write(self, path: Path) -> None:
        names = [self._name, *(f"{self._name} {number}" for number in range(2, len(self._columns) + 1))]
        schema = pa.schema([(name, pa.int64()) for name in names])
        with open_writer(path, schema, "parquet", repeated=True) as writer:
            for begin in range(0, self.numbers.shape[1], _CHUNK):
                columns = [pa.array(column) for column in self.numbers[:, begin : begin + _CHUNK]]
                writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))


def find_sampled(release: Release | str | Path) -> BoolArray | None:
    """Return (n_source_rows,) which source records are in the release, from the release or its witness; else None."""
    if isinstance(release, Release) and release.sampled is not None:
        return release.sampled
    folder = release.folder if isinstance(release, Release) else Path(release)
    for path in [] if folder is None else [folder / INTERNAL / FILE, folder.parent / INTERNAL / FILE]:
        if path.is_file():
            numbers = np.array([column.to_numpy() for column in pq.read_table(path).columns])
            return np.asarray(np.count_nonzero(numbers, axis=0) > 0)
    return None

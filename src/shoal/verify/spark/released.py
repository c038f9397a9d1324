"""A release that Spark keeps, or a file that workers read by themselves, as the verifier and its tasks read it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import PartitionForm, ShipPartition, arrow_schema, by_places, pieces_of, stream_pieces
from shoal.verify.reading import ParquetRows, PublishedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_TOGETHER = 1 << 20  # of a partition, as far as row groups allow


class ReleaseForm(Protocol):
    """What tasks must know to read their rows of a release."""

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PublishedRows:
        """Return the rows of one partition, given its number and what Spark sends."""


class _Partition(PublishedRows):
    """The rows of one partition of a DataFrame."""

    def __init__(self, form: PartitionForm, number: int, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = form.schema
        self.columns = tuple(form.schema.names)
        self._rows = ShipPartition(form)(number, batches)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            yield batch.select(list(columns))


@dataclass(frozen=True, slots=True, eq=False)
class FrameForm:
    """How tasks read partitions of a DataFrame."""

    form: PartitionForm

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PublishedRows:
        """Return the rows that Spark sends."""
        return _Partition(self.form, number, batches)


class SparkRows(PublishedRows):
    """The rows of a DataFrame that Spark has computed once and keeps, a partition at a time."""

    def __init__(self, frame: DataFrame) -> None:
        with explain_failures("the release"):
            self.schema = arrow_schema(frame)
        self.columns = tuple(self.schema.names)
        self._frame = frame

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, FrameForm]:
        """Return these columns, named by their places, and how they are read."""
        wanted, form = self._selected(columns)
        return wanted, FrameForm(form)

    def _selected(self, columns: Sequence[str]) -> tuple[DataFrame, PartitionForm]:
        places = [self.schema.get_field_index(name) for name in columns]
        wanted = by_places(by_places(self._frame).select(*(str(place) for place in places)))
        return wanted, PartitionForm("the release", pa.schema([self.schema.field(place) for place in places]), ())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; texts come as dictionaries, a new one for every batch."""
        wanted, form = self._selected(columns)
        with explain_failures("the release"):
            for _, batch in stream_pieces(pieces_of(wanted, ShipPartition(form))):
                yield batch


@dataclass(frozen=True, slots=True, eq=False)
class FileForm:
    """How tasks read their row groups of a file, which must be the one that the driver sees."""

    path: Path
    size: int
    modified: int
    row_groups: tuple[tuple[int, ...], ...]  # of each partition

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> ParquetRows:  # noqa: ARG002
        """Return the rows of a partition; what Spark sends is its number, whatever the task is called."""
        (own,) = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        found = self.path.stat()
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise FileNotFoundError("the file is another one than the driver's")
        return ParquetRows(self.path, self.row_groups[own])


class SparkFileRows(ParquetRows):
    """The rows of a Parquet file that tasks read by themselves, where they see it under the path of the driver."""

    def __init__(self, path: Path, session: SparkSession) -> None:
        super().__init__(path)
        self._session = session

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, FileForm]:  # noqa: ARG002  tasks say which they read
        """Return a number for each partition, and what tasks must know to read its row groups."""
        with pq.ParquetFile(self._path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        found = self._path.stat()
        before = itertools.accumulate(sizes, initial=0)
        together = itertools.groupby(zip(before, range(len(sizes)), strict=False), lambda one: one[0] // ROWS_TOGETHER)
        groups = tuple(tuple(group for _, group in some) for _, some in together)
        form = FileForm(self._path.absolute(), found.st_size, found.st_mtime_ns, groups)
        return self._session.range(0, len(groups), 1, len(groups)), form

    def note_unused(self, columns: Sequence[str]) -> None:
        """Take note of columns whose dictionaries hold entries of no row, as tasks found them."""
        self._unused |= dict.fromkeys(columns)

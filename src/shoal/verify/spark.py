"""A release that Spark keeps, or a file that workers read by themselves, counted and compared where its partitions are.

What tasks find can be added up, so no row travels: the driver joins classes and sums of partitions.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.errors import InputError
from shoal.sources.columns import UNCHANGED
from shoal.sources.spark import shipping
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.source import SparkSource
from shoal.verify.cells import Counting
from shoal.verify.coding import Compared, ReleaseCoder, SourceCoder
from shoal.verify.passes import Reader
from shoal.verify.reading import ParquetRows, PublishedRows
from shoal.verify.truth import TOO_LONG, Witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shoal.sources.base import Source

_FOUND = "found"
ROWS_TOGETHER = 1 << 20  # of a partition, as far as row groups allow


class SparkRows(PublishedRows):
    """The rows of a DataFrame that Spark has computed once and keeps, a partition at a time."""

    def __init__(self, frame: DataFrame) -> None:
        with explain_failures("the release"):
            self.schema = shipping.arrow_schema(frame)
        self.columns = tuple(self.schema.names)
        self._frame = frame

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.PartitionForm]:
        """Return these columns, named by their places, and how they are read."""
        places = [self.schema.get_field_index(name) for name in columns]
        wanted = shipping.by_places(shipping.by_places(self._frame).select(*(str(place) for place in places)))
        return wanted, shipping.PartitionForm(
            "the release", pa.schema([self.schema.field(place) for place in places]), UNCHANGED
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; texts come as dictionaries, a new one for every batch."""
        wanted, form = self.select_columns(columns)
        with explain_failures("the release"):
            for _, batch in shipping.stream_pieces(shipping.pieces_of(wanted, shipping.ShipPartition(form))):
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


@dataclass(frozen=True, slots=True, eq=False)
class PartitionCounted:
    """What a task found in one partition of a release."""

    counting: Counting
    unused: tuple[str, ...]  # columns whose dictionaries hold entries of no row


@dataclass(frozen=True, slots=True, eq=False)
class CountPartition:
    """Counts the classes in the rows of a partition."""

    form: shipping.PartitionForm | FileForm
    shared: shipping.Shared[tuple[ReleaseCoder, Counting]]  # a coder and a counting that have met nothing

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        coder, counting = copy.deepcopy(self.shared.value)
        file: ParquetRows | None = None
        if isinstance(self.form, shipping.PartitionForm):
            rows = shipping.ShipPartition(self.form)(number, batches)
        else:
            file = self.form.open(number, batches)
            rows = file.batches(coder.columns)
        for batch in rows:
            counting.add(coder.code(batch))
        counting.settle()
        yield pack_found(PartitionCounted(counting, () if file is None else file.list_unused()))


@dataclass(frozen=True, slots=True, eq=False)
class ComparePartition:
    """Compares the rows of a partition of the source with what the witness tells of them."""

    form: shipping.Form
    shared: shipping.Shared[tuple[SourceCoder, Witness]]
    first_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        coder, witness = self.shared.value
        found, row = coder.nothing(), self.first_rows[number]
        source = self.form.open(number, batches)
        for batch in () if source is None else source.batches(coder.columns, dictionary=coder.dictionaries):
            found += coder.compare(batch, witness.read(row, batch.num_rows))
            row += batch.num_rows
        yield pack_found(found)


def pack_found(found: object) -> pa.RecordBatch:
    """Return what a task found, for the driver."""
    content = pa.array([pickle.dumps(found, protocol=5)], pa.large_binary())
    return pa.RecordBatch.from_arrays([content], names=[_FOUND])


def unpack_found(message: pa.RecordBatch) -> Any:
    """Return what a task found, of its message."""
    return pickle.loads(message.column(0)[0].as_py())  # noqa: S301  what a task of this run has packed


class SparkReader(Reader):
    """Has tasks of Spark read both tables, each its own partitions; the driver reads if they do not come to an end."""

    @staticmethod
    def can_read(rows: PublishedRows, source: Source | None) -> bool:
        """Whether both tables are where tasks see them."""
        return isinstance(rows, SparkRows | SparkFileRows) and (source is None or isinstance(source, SparkSource))

    def count(self, coder: ReleaseCoder, counting: Counting, n_rows: int) -> Counting:
        """Join what tasks count."""
        assert isinstance(self.rows, SparkRows | SparkFileRows)  # noqa: S101  can_read has seen to it
        joined = copy.deepcopy(counting)
        frame, form = self.rows.select_columns(coder.columns)
        work = CountPartition(form, shipping.Shared((coder, replace(counting, limit=None))))
        try:
            with explain_failures("the release"), self.progress.step("reading the release", n_rows) as step:
                for _, message in shipping.collect_pieces(shipping.pieces_of(frame, work)):
                    found = unpack_found(message)
                    joined.absorb(found.counting)
                    if isinstance(self.rows, SparkFileRows):
                        self.rows.note_unused(found.unused)
                step.advance(joined.rows)
        except InputError:
            return super().count(coder, counting, n_rows)
        return joined

    def compare(self, coder: SourceCoder, witness: Witness) -> Compared:
        """Add up what tasks find."""
        source = self.source
        assert isinstance(source, SparkSource)  # noqa: S101  without a source nothing is compared
        first_rows = tuple(itertools.accumulate(source.partitions, initial=0))
        wanted, form = source.select_columns(coder.columns)
        work = ComparePartition(form, shipping.Shared((coder, witness)), first_rows)
        found = coder.nothing()
        try:
            with explain_failures(source.name), self.progress.step("comparing with the source", source.n_rows) as step:
                for _, message in shipping.collect_pieces(shipping.pieces_of(wanted, work)):
                    found += unpack_found(message)
                step.advance(found.rows)
        except InputError:
            return super().compare(coder, witness)
        if found.rows != source.n_rows:
            raise InputError(f"{source.name} changed while it was being read")
        return replace(found, misfit=TOO_LONG) if witness.n_rows > found.rows else found

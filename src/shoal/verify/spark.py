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
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import (
    Form,
    PartitionForm,
    Shared,
    ShipPartition,
    arrow_schema,
    by_places,
    collect_pieces,
    pieces_of,
    stream_pieces,
)
from shoal.sources.spark.source import SparkSource
from shoal.verify.coding import Met, ReleaseCoder
from shoal.verify.counting import Share, Tallied
from shoal.verify.hashing import RowSums
from shoal.verify.passes import (
    Compared,
    Comparing,
    Counted,
    LocalReader,
    Means,
    Question,
    Reader,
    add_counts,
    sum_published,
)
from shoal.verify.reading import ParquetRows, PublishedRows
from shoal.verify.truth import TOO_LONG, Witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shoal.sources.base import Source

_FOUND = "found"
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


@dataclass(frozen=True, slots=True, eq=False)
class PartitionCounted:
    """What a task found in one partition of a release, by numbers of its own."""

    rows: int
    met: Met
    tallied: Tallied
    totals: tuple[IntArray, ...]
    sums: RowSums
    unused: tuple[str, ...]  # columns whose dictionaries hold entries of no row


@dataclass(frozen=True, slots=True, eq=False)
class CountPartition:
    """Counts the classes of a share in the rows of a partition."""

    form: ReleaseForm
    shared: Shared[tuple[Question, ReleaseCoder]]  # a coder that has met nothing
    share: Share

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        question, blank = self.shared.value
        coder, rows = copy.deepcopy(blank), self.form.open(number, batches)
        counted = Counted.nothing(question, self.share, None)
        for batch in rows.batches(coder.columns):
            own, values = coder.code(batch)
            sums = sum_published(own, question.numbers, question.contents)
            counted.add(own, coder.number(values), sums, classes=bool(question.promises))
        found = PartitionCounted(
            rows=counted.rows,
            met=coder.met,
            tallied=counted.counting.export(),
            totals=tuple(counted.totals),
            sums=counted.sums,
            unused=rows.unused_entries(),
        )
        yield pack_found(found)


@dataclass(frozen=True, slots=True, eq=False)
class ComparePartition:
    """Compares the rows of a partition of the source with what the witness tells of them."""

    form: Form
    shared: Shared[tuple[Question, Witness]]
    first_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        question, witness = self.shared.value
        comparing = Comparing(question)
        found, row = comparing.nothing(), self.first_rows[number]
        source = self.form.open(number, batches)
        columns, coded = comparing.coder.columns, comparing.coder.dictionaries
        for batch in () if source is None else source.batches(columns, dictionary=coded):
            found += comparing.compare(batch, witness.read(row, batch.num_rows))
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
    """Has tasks of Spark read both tables, each its own partitions."""

    def __init__(self, here: LocalReader, rows: SparkRows | SparkFileRows, question: Question, source: Source | None,
                 progress: Progress, limit: int | None) -> None:  # fmt: skip
        self.coder = here.coder
        self._blank = copy.deepcopy(here.coder)
        self._here = here
        self._rows = rows
        self._question = question.settle()
        self._source = source
        self._progress = progress
        self._limit = limit

    @classmethod
    def of(
        cls, rows: PublishedRows, question: Question, source: Source | None, progress: Progress, means: Means
    ) -> SparkReader | None:
        """Return it if rows are where tasks see them, and None if not."""
        if not isinstance(rows, SparkRows | SparkFileRows) or not (source is None or isinstance(source, SparkSource)):
            return None
        here = LocalReader(rows, question, source, progress, means)
        return cls(here, rows, question, source, progress, means.limit)

    def count(self, share: Share) -> Counted:
        """Join what tasks count; raise InputError if Spark does not come to an end."""
        counted = Counted.nothing(self._question, share, self._limit)
        frame, form = self._rows.select_columns(self._blank.columns)
        work = CountPartition(form, Shared((self._question, self._blank)), share)
        with (
            explain_failures("the release"),
            self._progress.step("reading the release", self._question.manifest.rows) as step,
        ):
            for _, message in collect_pieces(pieces_of(frame, work)):
                self._join(counted, unpack_found(message))
            step.advance(counted.rows)
        return counted

    def _join(self, counted: Counted, found: PartitionCounted) -> None:
        numbers = self.coder.add(found.met)
        for place, (own, total) in enumerate(zip(numbers, found.totals, strict=True)):
            here = np.zeros(int(own.max(initial=-1)) + 1, dtype=np.int64)
            here[own] = total
            counted.totals[place] = add_counts(counted.totals[place], here)
        counted.rows += found.rows
        counted.sums += found.sums
        counted.counting.absorb(found.tallied, numbers)
        if isinstance(self._rows, SparkFileRows):
            self._rows.note_unused(found.unused)

    def compare(self, witness: Witness) -> Compared:
        """Add up what tasks find; the driver compares if Spark does not come to an end."""
        source, comparing = self._source, Comparing(self._question)
        assert isinstance(source, SparkSource)  # noqa: S101  without a source nothing is compared
        first_rows = tuple(itertools.accumulate(source.partitions, initial=0))
        wanted, form = source.select_columns(comparing.coder.columns)
        work = ComparePartition(form, Shared((self._question, witness)), first_rows)
        found = comparing.nothing()
        try:
            with explain_failures(source.name), self._progress.step("comparing with the source", source.n_rows) as step:
                for _, message in collect_pieces(pieces_of(wanted, work)):
                    found += unpack_found(message)
                step.advance(found.facts.rows)
        except InputError:
            return self._here.compare(witness)
        if found.facts.rows != source.n_rows:
            raise InputError(f"{source.name} changed while it was being read")
        if witness.n_rows > found.facts.rows:
            return replace(found, misfit=TOO_LONG)
        return found

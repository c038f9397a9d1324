"""Rows of a partition as batches, and batches as messages that Spark carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.sources.base import Source
from shoal.sources.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK_ROWS = 1 << 18
PIECES = "partition int, entries bigint, message binary"
_PIECES = pa.schema([("partition", pa.int32()), ("entries", pa.int64()), ("message", pa.binary())])

# Work on one partition, given its number and its batches.
Work = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSource(Source):
    """The rows of one partition, which can be read once."""

    rows: Iterable[pa.RecordBatch]

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for batch in gathered(self.rows):
            yield batch.select(columns)

    def digest(self) -> str:
        """Refuse: a partition is not data that somebody gave."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class PartitionForm:
    """What all partitions of a table have in common; columns go by their places, for Spark stumbles over some names."""

    name: str
    schema: pa.Schema
    missing: tuple[str, ...]

    def opened(self, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:
        """Return the rows of one partition as a source; None if there are none."""
        some = (batch for batch in batches if batch.num_rows)
        first = next(some, None)
        if first is None:
            return None
        rows = (self._typed(batch) for batch in chain([first], some))
        return PartitionSource(self.name, self.schema, None, self.missing, rows)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give columns the table's own types: Spark tells the time zone of its session instead of UTC."""
        arrays = [
            column if column.type == field.type or pa.types.is_nested(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


@dataclass(frozen=True, slots=True, eq=False)
class ShipPartition:
    """Hands the rows of a partition on, texts by their dictionaries."""

    form: PartitionForm

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the rows in larger batches."""
        source = self.form.opened(batches)
        for batch in () if source is None else gathered(source.rows):
            columns = [
                column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of CHUNK_ROWS or a little more, for Spark's are small."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= CHUNK_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def packed_message(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked_message(message: bytes) -> pa.RecordBatch:
    """Return the batch of such bytes."""
    with pa.ipc.open_stream(message) as stream:
        return stream.read_next_batch()


def piece(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row for Spark: whose it is, how many entries it has, and these as bytes."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number], pa.int32()),
            pa.array([batch.num_rows], pa.int64()),
            pa.array([packed_message(batch)], pa.binary()),
        ],
        schema=_PIECES,
    )


def on_partitions(frame: DataFrame, work: Work, schema: Any) -> DataFrame:
    """Return what *work* makes of each partition of a table; nothing runs before somebody asks for it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # noqa: S101  only Spark's workers call this
        yield from work(context.partitionId(), batches)

    with quiet():
        return frame.mapInArrow(run, schema)


def pieces_of(frame: DataFrame, work: Work) -> DataFrame:
    """Return what *work* makes of each partition of a table, as pieces."""

    def packed(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in work(number, batches):
            yield piece(number, batch)

    return on_partitions(frame, packed, PIECES)


def streamed(pieces: DataFrame) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the partition and the batch of each piece, by partitions, two of which are under way."""
    for row in pieces.toLocalIterator(prefetchPartitions=True):
        yield int(row.partition), unpacked_message(bytes(row.message))


def collected(pieces: DataFrame) -> list[tuple[int, pa.RecordBatch]]:
    """Return the same all at once, by partitions, all of which are under way together."""
    found = [(int(row.partition), unpacked_message(bytes(row.message))) for row in pieces.collect()]
    return sorted(found, key=lambda one: one[0])


def by_places(frame: DataFrame) -> DataFrame:
    """Return the same rows with columns named by their places."""
    return frame.toDF(*(str(place) for place in range(len(frame.columns))))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the names and Arrow types of a DataFrame's columns."""
    types = by_places(frame.limit(0)).toArrow().schema.types
    return pa.schema(list(zip(frame.columns, types, strict=True)))

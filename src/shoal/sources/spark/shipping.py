"""Rows of a partition as batches, and batches as messages that Spark carries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.sources.base import Source
from shoal.sources.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 64 << 20
_GROUP_BYTES = 64 << 20  # of pieces that are on their way to the driver at a time
PIECES = "partition int, entries bigint, message binary"
_PIECES = pa.schema([("partition", pa.int32()), ("entries", pa.int64()), ("message", pa.binary())])

# Work on one partition, given its number and its batches.
Work = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSource(Source):
    """The rows of one partition, which can be read once."""

    rows: Iterable[pa.RecordBatch]

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for batch in self.rows:
            yield batch.select(columns)

    def digest(self) -> str:
        """Refuse: a partition is not data that somebody gave."""
        raise NotImplementedError


class Form(Protocol):
    """What all partitions of a table have in common, sent to every task."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""

    def opened(self, number: int, batches: Iterator[pa.RecordBatch]) -> Source | None:
        """Return the rows of one partition, given its number and what Spark sends; None if there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionForm:
    """What all partitions of a table have in common; columns go by their places, for Spark stumbles over some names."""

    name: str
    schema: pa.Schema
    missing: tuple[str, ...]

    def opened(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        """Return the rows of one partition as a source; None if there are none."""
        some = (batch for batch in batches if batch.num_rows)
        first = next(some, None)
        if first is None:
            return None
        rows = (self.typed(batch.columns) for batch in itertools.chain([first], some))
        return PartitionSource(self.name, self.schema, None, self.missing, gathered(rows))

    def typed(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return columns in the table's own types: Spark tells the time zone of its session instead of UTC."""
        arrays = [
            column if column.type == field.type or pa.types.is_nested(field.type) else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


@dataclass(frozen=True, slots=True, eq=False)
class ShipPartition:
    """Hands the rows of a partition on, texts by their dictionaries."""

    form: PartitionForm

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in larger batches."""
        source = self.form.opened(number, batches)
        for batch in () if source is None else source.rows:
            columns = [
                column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of CHUNK_ROWS or _CHUNK_BYTES or a little more, for Spark's are small."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if (
            sum(one.num_rows for one in waiting) >= CHUNK_ROWS
            or sum(one.get_total_buffer_size() for one in waiting) >= _CHUNK_BYTES
        ):
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def packed_message(batch: pa.RecordBatch, *, compressed: bool = True) -> bytes:
    """Return a batch as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked_message(message: bytes | pa.Buffer, places: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return the batch of such bytes, or only its columns at *places*."""
    options = pa.ipc.IpcReadOptions(included_fields=None if places is None else sorted(places))
    with pa.ipc.open_stream(message, options=options) as stream:
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


@contextmanager
def held(pieces: DataFrame) -> Iterator[HeldPieces]:
    """Have all pieces computed, and kept until they are read; a piece that is lost meanwhile is made again."""
    kept = pieces.persist()
    try:
        yield HeldPieces.of(kept)
    finally:
        kept.unpersist()


@dataclass(frozen=True, slots=True, eq=False)
class HeldPieces:
    """Pieces that wait in Spark to be read."""

    frame: DataFrame
    numbers: tuple[int, ...]  # of the partitions that have some
    entries: tuple[int, ...]  # of each of these partitions
    n_bytes: tuple[int, ...]

    @classmethod
    def of(cls, kept: DataFrame) -> HeldPieces:
        """Look what there is of pieces that are kept."""
        from pyspark.sql import functions

        sizes = kept.select("partition", "entries", functions.length("message").alias("bytes")).toArrow()
        listing = sizes.group_by("partition").aggregate([("entries", "sum"), ("bytes", "sum")]).sort_by("partition")
        numbers, entries, n_bytes = (column.to_pylist() for column in listing.columns)
        return cls(kept, tuple(numbers), tuple(entries), tuple(n_bytes))

    def batches(self, places: Sequence[int] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the number of the partition and the batch of each piece, while the next ones are on their way."""
        with ThreadPoolExecutor(1) as pool:
            fetched = [pool.submit(self._fetched, *bounds) for bounds in self._groups()[:1]]
            for bounds in [*self._groups()[1:], None]:
                pieces = fetched.pop().result()
                if bounds is not None:
                    fetched.append(pool.submit(self._fetched, *bounds))
                yield from unpacked_pieces(pieces, places)

    def _groups(self) -> list[tuple[int, int]]:
        """Return the first and last number of partitions that are fetched together."""
        before = itertools.accumulate(self.n_bytes, initial=0)
        groups = itertools.groupby(zip(self.numbers, before, strict=False), key=lambda one: one[1] // _GROUP_BYTES)
        found = [[number for number, _ in group] for _, group in groups]
        return [(numbers[0], numbers[-1]) for numbers in found]

    def _fetched(self, first: int, last: int) -> pa.Table:
        from pyspark.sql import functions

        return self.frame.where(functions.col("partition").between(first, last)).toArrow()


def streamed(pieces: DataFrame) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the partition and the batch of each piece, by partitions, some of which are on their way."""
    with held(pieces) as waiting:
        yield from waiting.batches()


def collected(pieces: DataFrame) -> list[tuple[int, pa.RecordBatch]]:
    """Return the same all at once, for what is known to be little."""
    return list(unpacked_pieces(pieces.toArrow()))


def unpacked_pieces(pieces: pa.Table, places: Sequence[int] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the partition and the batch of each piece, by partitions."""
    numbers = np.array(pieces.column("partition"))
    messages = [message for chunk in pieces.column("message").chunks for message in chunk]
    for place in np.argsort(numbers, kind="stable").tolist():
        yield int(numbers[place]), unpacked_message(messages[place].as_buffer(), places)


def by_places(frame: DataFrame) -> DataFrame:
    """Return the same rows with columns named by their places."""
    return frame.toDF(*(str(place) for place in range(len(frame.columns))))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the names and Arrow types of a DataFrame's columns."""
    types = by_places(frame.limit(0)).toArrow().schema.types
    return pa.schema(list(zip(frame.columns, types, strict=True)))

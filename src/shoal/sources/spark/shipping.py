"""Batches of rows as messages that Spark carries to the driver or from task to task."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.sources.base import Source, join_batches, read_ahead
from shoal.sources.columns import Cleaning
from shoal.sources.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 64 << 20
_GROUP_BYTES = 64 << 20  # of pieces that the driver fetches together
_HASH_BYTES = 32  # of SHA-256

# Columns of the rows that Spark carries: the partition of origin, the number of entries, and a batch as a message.
PIECES = pa.schema([("partition", pa.int32()), ("entries", pa.int64()), ("message", pa.binary())])
PACKED = PIECES.append(pa.field("sums", pa.binary()))
ROUTED = pa.schema([("partition", pa.int32()), ("place", pa.int32()), ("destination", pa.int32()), *list(PIECES)[1:]])
_SPARK_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}

T = TypeVar("T")
# A function of a partition's number and batches.
Work = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# The same with a destination for each batch.
Router = Callable[[int, Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]

_opened: dict[str, object] = {}  # the last value of `Shared` that this process unpacked, by its token


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSource(Source):
    """The rows of a partition, which can be read once."""

    rows: Iterable[pa.RecordBatch]

    @classmethod
    def of(cls, form: PartitionForm | PackedForm, rows: Iterator[pa.RecordBatch]) -> PartitionSource | None:
        """Return the rows as a source, or None if there are none."""
        first = next(rows, None)
        whole = itertools.chain([first], rows)
        return None if first is None else cls(form.name, form.schema, None, form.cleaning, whole)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for batch in self.rows:
            yield batch.select(columns)

    def digest(self) -> str:
        raise NotImplementedError


class Form(Protocol):
    """The properties that all partitions of a table share, sent to every task."""

    @property
    def schema(self) -> pa.Schema: ...

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> Source | None:
        """Return the rows of a partition, given its number and Spark's batches; None if it has no rows."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionForm:
    """The form of a DataFrame's partitions; columns have numbers as names because Spark mishandles some names."""

    name: str
    schema: pa.Schema
    cleaning: Cleaning

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        rows = gather(self.convert(batch.columns) for batch in batches if batch.num_rows)
        return PartitionSource.of(self, rows)

    def convert(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Convert columns to the table's types, because Spark uses the session's time zone instead of UTC."""
        arrays = [
            column if column.type == field.type or pa.types.is_nested(field.type) else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


@dataclass(frozen=True, slots=True, eq=False)
class ShipPartition:
    """Yields the rows of a partition in larger batches, with texts as dictionaries."""

    form: PartitionForm

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = self.form.open(number, batches)
        for batch in () if source is None else source.rows:
            columns = [
                column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join Spark's small batches."""
    for rows in join_batches(batches, CHUNK_ROWS, _CHUNK_BYTES):
        yield from rows.combine_chunks().to_batches()


def pack_message(batch: pa.RecordBatch, *, compressed: bool = True) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack_message(message: bytes | pa.Buffer, places: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return the batch of a message, or only its columns at *places*."""
    options = pa.ipc.IpcReadOptions(included_fields=None if places is None else sorted(places))
    with pa.ipc.open_stream(message, options=options) as stream:
        return stream.read_next_batch()


def carry(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def make_piece(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    return carry(PIECES, number, batch.num_rows, pack_message(batch))


def spark_schema(schema: pa.Schema) -> str:
    """Return a schema in Spark's notation.

    >>> spark_schema(PIECES)
    'partition int, entries bigint, message binary'
    """
    return ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in schema)


def on_partitions(frame: DataFrame, work: Work, schema: Any) -> DataFrame:
    """Return a DataFrame of the results of *work* on each partition, which Spark computes when they are needed."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # noqa: S101  only Spark's workers call this
        yield from work(context.partitionId(), batches)

    with quiet():
        return frame.mapInArrow(run, spark_schema(schema) if isinstance(schema, pa.Schema) else schema)


def pieces_of(frame: DataFrame, work: Work) -> DataFrame:
    """Return a DataFrame of the results of *work* on each partition, as messages."""

    def pack(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in work(number, batches):
            yield make_piece(number, batch)

    return on_partitions(frame, pack, PIECES)


@contextmanager
def hold(pieces: DataFrame) -> Iterator[HeldPieces]:
    """Compute all pieces and cache them until the end of the context; Spark computes lost pieces again."""
    kept = pieces.persist()
    try:
        yield HeldPieces.of(kept)
    finally:
        kept.unpersist()


@dataclass(frozen=True, slots=True, eq=False)
class HeldPieces:
    """Pieces that Spark caches."""

    frame: DataFrame
    numbers: tuple[int, ...]  # the nonempty partitions
    entries: tuple[int, ...]  # (n_partitions,)
    n_bytes: tuple[int, ...]  # (n_partitions,)

    @classmethod
    def of(cls, kept: DataFrame) -> HeldPieces:
        """List the partitions of cached pieces."""
        from pyspark.sql import functions

        sizes = kept.select("partition", "entries", functions.length("message").alias("bytes")).toArrow()
        listing = sizes.group_by("partition").aggregate([("entries", "sum"), ("bytes", "sum")]).sort_by("partition")
        numbers, entries, n_bytes = (column.to_pylist() for column in listing.columns)
        return cls(kept, tuple(numbers), tuple(entries), tuple(n_bytes))

    def batches(self, places: Sequence[int] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each piece's partition and batch, and fetch the next pieces meanwhile."""
        for pieces in read_ahead((self._fetch(*bounds) for bounds in self._groups()), 1):
            yield from unpack_pieces(pieces, places)

    def _groups(self) -> list[tuple[int, int]]:
        """Return the first and the last partition of each group that is fetched together."""
        before = itertools.accumulate(self.n_bytes, initial=0)
        groups = itertools.groupby(zip(self.numbers, before, strict=False), key=lambda one: one[1] // _GROUP_BYTES)
        found = [[number for number, _ in group] for _, group in groups]
        return [(numbers[0], numbers[-1]) for numbers in found]

    def _fetch(self, first: int, last: int) -> pa.Table:
        from pyspark.sql import functions

        return self.frame.where(functions.col("partition").between(first, last)).toArrow()


def stream_pieces(pieces: DataFrame) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Compute all pieces and yield each one's partition and batch, by partition."""
    with hold(pieces) as waiting:
        yield from waiting.batches()


def collect_pieces(pieces: DataFrame) -> list[tuple[int, pa.RecordBatch]]:
    """Return the partition and the batch of each of a few small pieces, by partition."""
    return list(unpack_pieces(pieces.toArrow()))


def unpack_pieces(pieces: pa.Table, places: Sequence[int] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each piece's partition and batch, by partition."""
    numbers = np.array(pieces.column("partition"))
    messages = [message for chunk in pieces.column("message").chunks for message in chunk]
    for place in np.argsort(numbers, kind="stable").tolist():
        yield int(numbers[place]), unpack_message(messages[place].as_buffer(), places)


def by_places(frame: DataFrame) -> DataFrame:
    """Return the DataFrame with column names 0, 1, 2, ..."""
    return frame.toDF(*(str(place) for place in range(len(frame.columns))))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    types = by_places(frame.limit(0)).toArrow().schema.types
    return pa.schema(list(zip(frame.columns, types, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class PackPartition:
    """Packs the rows of a partition, and sums the row hashes in its last column."""

    form: PartitionForm

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in gather(batch for batch in batches if batch.num_rows):
            *columns, hashes = batch.columns
            rows = self.form.convert(columns)
            message = pack_message(
                pa.RecordBatch.from_arrays([_compact(column) for column in rows.columns], names=rows.schema.names)
            )
            yield carry(PACKED, number, batch.num_rows, message, _sums(hashes).tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class PackedForm:
    """The form of packed partitions; workers unpack only the columns at *places*."""

    name: str
    schema: pa.Schema
    cleaning: Cleaning
    places: tuple[int, ...]  # among the packed columns

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        messages = (message.as_buffer() for batch in batches for message in batch.column("message"))
        return PartitionSource.of(self, (unpack_message(message, self.places) for message in messages))


def digest_of(names: Sequence[str], n_rows: int, sums: Sequence[bytes]) -> str:
    """Return the SHA-256 of the sums of all row hashes, which do not depend on the order of rows or partitions."""
    totals = [sum(column) for column in zip(*(np.frombuffer(one, np.uint64).tolist() for one in sums), strict=True)]
    return hashlib.sha256("\n".join([*names, *map(str, [n_rows, *totals])]).encode()).hexdigest()


def _sums(hashes: pa.Array) -> KeyArray:
    """Return (8,) the sums of the 32-bit words of hashes, which do not overflow for fewer than 2**32 rows."""
    fixed = hashes.cast(pa.binary(_HASH_BYTES))
    words = np.frombuffer(fixed.buffers()[1], dtype=">u4").reshape(-1, 8)
    return np.asarray(words[fixed.offset : fixed.offset + len(fixed)].sum(axis=0, dtype=np.uint64))


def _compact(column: pa.Array) -> pa.Array:
    """Encode texts by a dictionary if it has at most half as many entries as there are rows."""
    if not pa.types.is_string(column.type):
        return column
    coded = column.dictionary_encode()
    return coded if 2 * len(coded.dictionary) <= len(column) else column


class Shared(Generic[T]):
    """A value that all tasks need; each worker unpacks it once, not once per task."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._token = secrets.token_hex(16)
        self._content: bytes | None = None

    def __reduce__(self) -> tuple[Callable[[str, bytes], Shared[T]], tuple[str, bytes]]:
        """Pack the value once for all steps that use it."""
        if self._content is None:
            self._content = pickle.dumps(self.value, protocol=5)
        return _open_parcel, (self._token, self._content)


def _open_parcel(token: str, content: bytes) -> Shared[T]:
    found = _opened.get(token)
    if not isinstance(found, Shared):
        found = Shared(pickle.loads(content))  # noqa: S301  packed by the driver of this run
        _opened.clear()
        _opened[token] = found
    return found


def route(frame: DataFrame, router: Router) -> DataFrame:
    """Return a DataFrame of the router's pieces with their partition, their place in it, and their destination."""

    def pack(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, (destination, batch) in enumerate(router(number, batches)):
            message = pack_message(batch, compressed=False)  # Spark's shuffle compresses it
            yield carry(ROUTED, number, place, destination, batch.num_rows, message)

    return on_partitions(frame, pack, ROUTED)


def exchange(pieces: DataFrame, n_destinations: int) -> DataFrame:
    """Move the pieces to *n_destinations* partitions, by their destinations.

    Pieces arrive in any order; :func:`receive` sorts them by their origin.
    """
    return pieces.repartitionById(n_destinations, "destination")


def receive(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, pa.RecordBatch]]:
    """Return the pieces that a task received and their partitions of origin, in an order that is always the same."""
    pieces = [
        (partition, place, message.as_buffer())
        for batch in batches
        for partition, place, message in zip(
            batch.column("partition").to_pylist(),
            batch.column("place").to_pylist(),
            batch.column("message"),
            strict=True,
        )
    ]
    return [
        (partition, unpack_message(message))
        for partition, _, message in sorted(pieces, key=lambda piece: (piece[0], piece[1]))
    ]

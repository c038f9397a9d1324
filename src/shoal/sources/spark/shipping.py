"""Rows of a partition as batches, and batches as messages that Spark carries: to the driver, or from task to task."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.sources.base import Source
from shoal.sources.columns import Cleaning
from shoal.sources.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 64 << 20
_GROUP_BYTES = 64 << 20  # of pieces that are on their way to the driver at a time
_HASH_BYTES = 32  # of SHA-256

# What Spark carries: from which partition, how many entries, and these as a message.
PIECES = pa.schema([("partition", pa.int32()), ("entries", pa.int64()), ("message", pa.binary())])
PACKED = PIECES.append(pa.field("sums", pa.binary()))
ROUTED = pa.schema([("partition", pa.int32()), ("place", pa.int32()), ("destination", pa.int32()), *list(PIECES)[1:]])
_SPARK_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}

T = TypeVar("T")
# Work on one partition, given its number and its batches.
Work = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# The same, with the destination of each batch.
Router = Callable[[int, Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]

_opened: dict[str, object] = {}  # the last parcel that this process has opened


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

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> Source | None:
        """Return the rows of one partition, given its number and what Spark sends; None if there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionForm:
    """What all partitions of a table have in common; columns go by their places, for Spark stumbles over some names."""

    name: str
    schema: pa.Schema
    cleaning: Cleaning

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        """Return the rows of one partition as a source; None if there are none."""
        some = (batch for batch in batches if batch.num_rows)
        first = next(some, None)
        if first is None:
            return None
        rows = (self.convert(batch.columns) for batch in itertools.chain([first], some))
        return PartitionSource(self.name, self.schema, None, self.cleaning, gather(rows))

    def convert(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
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
        source = self.form.open(number, batches)
        for batch in () if source is None else source.rows:
            columns = [
                column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def pack_message(batch: pa.RecordBatch, *, compressed: bool = True) -> bytes:
    """Return a batch as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack_message(message: bytes | pa.Buffer, places: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return the batch of such bytes, or only its columns at *places*."""
    options = pa.ipc.IpcReadOptions(included_fields=None if places is None else sorted(places))
    with pa.ipc.open_stream(message, options=options) as stream:
        return stream.read_next_batch()


def carry(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """Return one row for Spark."""
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def make_piece(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    return carry(PIECES, number, batch.num_rows, pack_message(batch))


def spark_schema(schema: pa.Schema) -> str:
    """Return a schema as Spark wants it.

    >>> spark_schema(PIECES)
    'partition int, entries bigint, message binary'
    """
    return ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in schema)


def on_partitions(frame: DataFrame, work: Work, schema: Any) -> DataFrame:
    """Return what *work* makes of each partition of a table; nothing runs before somebody asks for it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # noqa: S101  only Spark's workers call this
        yield from work(context.partitionId(), batches)

    with quiet():
        return frame.mapInArrow(run, spark_schema(schema) if isinstance(schema, pa.Schema) else schema)


def pieces_of(frame: DataFrame, work: Work) -> DataFrame:
    """Return what *work* makes of each partition of a table, as pieces."""

    def pack(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in work(number, batches):
            yield make_piece(number, batch)

    return on_partitions(frame, pack, PIECES)


@contextmanager
def hold(pieces: DataFrame) -> Iterator[HeldPieces]:
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
            fetched = [pool.submit(self._fetch, *bounds) for bounds in self._groups()[:1]]
            for bounds in [*self._groups()[1:], None]:
                pieces = fetched.pop().result()
                if bounds is not None:
                    fetched.append(pool.submit(self._fetch, *bounds))
                yield from unpack_pieces(pieces, places)

    def _groups(self) -> list[tuple[int, int]]:
        """Return the first and last number of partitions that are fetched together."""
        before = itertools.accumulate(self.n_bytes, initial=0)
        groups = itertools.groupby(zip(self.numbers, before, strict=False), key=lambda one: one[1] // _GROUP_BYTES)
        found = [[number for number, _ in group] for _, group in groups]
        return [(numbers[0], numbers[-1]) for numbers in found]

    def _fetch(self, first: int, last: int) -> pa.Table:
        from pyspark.sql import functions

        return self.frame.where(functions.col("partition").between(first, last)).toArrow()


def stream_pieces(pieces: DataFrame) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the partition and the batch of each piece, by partitions, some of which are on their way."""
    with hold(pieces) as waiting:
        yield from waiting.batches()


def collect_pieces(pieces: DataFrame) -> list[tuple[int, pa.RecordBatch]]:
    """Return the same all at once, for what is known to be little."""
    return list(unpack_pieces(pieces.toArrow()))


def unpack_pieces(pieces: pa.Table, places: Sequence[int] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the partition and the batch of each piece, by partitions."""
    numbers = np.array(pieces.column("partition"))
    messages = [message for chunk in pieces.column("message").chunks for message in chunk]
    for place in np.argsort(numbers, kind="stable").tolist():
        yield int(numbers[place]), unpack_message(messages[place].as_buffer(), places)


def by_places(frame: DataFrame) -> DataFrame:
    """Return the same rows with columns named by their places."""
    return frame.toDF(*(str(place) for place in range(len(frame.columns))))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the names and Arrow types of a DataFrame's columns."""
    types = by_places(frame.limit(0)).toArrow().schema.types
    return pa.schema(list(zip(frame.columns, types, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class PackPartition:
    """Packs the rows of a partition, whose last column is a hash of each row, and adds up the hashes."""

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
    """How workers read some columns of what is packed; only these are taken out."""

    name: str
    schema: pa.Schema
    cleaning: Cleaning
    places: tuple[int, ...]  # of the columns among those that are packed

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        """Return the rows of one partition as a source; None if there are none."""
        messages = (message.as_buffer() for batch in batches for message in batch.column("message"))
        first = next(messages, None)
        if first is None:
            return None
        rows = (unpack_message(message, self.places) for message in itertools.chain([first], messages))
        return PartitionSource(self.name, self.schema, None, self.cleaning, rows)


def digest_of(names: Sequence[str], n_rows: int, sums: Sequence[bytes]) -> str:
    """Return the SHA-256 of what the hashes of all rows add up to, which no order and no partitioning changes."""
    totals = [sum(column) for column in zip(*(np.frombuffer(one, np.uint64).tolist() for one in sums), strict=True)]
    return hashlib.sha256("\n".join([*names, *map(str, [n_rows, *totals])]).encode()).hexdigest()


def _sums(hashes: pa.Array) -> KeyArray:
    """Return (8,) the sums of the words of 32 bits that hashes are made of; far fewer than 2**32 rows are added up."""
    fixed = hashes.cast(pa.binary(_HASH_BYTES))
    words = np.frombuffer(fixed.buffers()[1], dtype=">u4").reshape(-1, 8)
    return np.asarray(words[fixed.offset : fixed.offset + len(fixed)].sum(axis=0, dtype=np.uint64))


def _compact(column: pa.Array) -> pa.Array:
    """Return texts by their dictionary, if that is short."""
    if not pa.types.is_string(column.type):
        return column
    coded = column.dictionary_encode()
    return coded if 2 * len(coded.dictionary) <= len(column) else column


class Shared(Generic[T]):
    """A value that goes with the work on all partitions, unpacked once in each worker, not once for each task."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._token = secrets.token_hex(16)
        self._content: bytes | None = None

    def __reduce__(self) -> tuple[Callable[[str, bytes], Shared[T]], tuple[str, bytes]]:
        """Pack the value once, for however many steps it goes with."""
        if self._content is None:
            self._content = pickle.dumps(self.value, protocol=5)
        return _open_parcel, (self._token, self._content)


def _open_parcel(token: str, content: bytes) -> Shared[T]:
    found = _opened.get(token)
    if not isinstance(found, Shared):
        found = Shared(pickle.loads(content))  # noqa: S301  what the driver of this run has packed
        _opened.clear()
        _opened[token] = found
    return found


def route(frame: DataFrame, router: Router) -> DataFrame:
    """Return what *router* makes of each partition as pieces: from which partition, its how manieth, and where to."""

    def pack(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, (destination, batch) in enumerate(router(number, batches)):
            message = pack_message(batch, compressed=False)  # Spark's shuffle does
            yield carry(ROUTED, number, place, destination, batch.num_rows, message)

    return on_partitions(frame, pack, ROUTED)


def exchange(pieces: DataFrame, n_destinations: int) -> DataFrame:
    """Return the same pieces in *n_destinations* partitions: those for destination d are the partition d.

    Pieces arrive in any order; :func:`receive` puts them into the order of where they come from.
    """
    return pieces.repartitionById(n_destinations, "destination")


def receive(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, pa.RecordBatch]]:
    """Return the pieces that came to a task, each with the partition it is from, in an order that never changes."""
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

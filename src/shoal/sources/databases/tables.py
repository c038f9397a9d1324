"""Database tables: reading one in a transaction, and creating one completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.sources.addresses import DatabaseTable, quote_name
from shoal.sources.base import SourceOptions
from shoal.sources.columns import check_names, normal_column, normal_schema
from shoal.sources.databases.base import Column, Connection, check_column
from shoal.sources.databases.files import DuckDB, SQLite
from shoal.sources.databases.postgresql import PostgreSQL
from shoal.sources.snapshots import Snapshot, SnapshotSource

_SEND_ROWS = 1 << 16
_BESIDE = ("-journal", "-wal", "-shm", ".wal")  # endings of additional files of a database
_KINDS = {kind.kind: kind for kind in (PostgreSQL, SQLite, DuckDB)}


def connect(asked: DatabaseTable, *, write: bool = False) -> Connection:
    return _KINDS[asked.kind](asked, write=write)


def open_database(asked: DatabaseTable, options: SourceOptions) -> SnapshotSource:
    """Read a table, a view or a query once and keep the rows in a temporary file."""
    with connect(asked) as connection:
        connection.find()
        columns = connection.columns()
        check_names([column.name for column in columns], asked.name)
        readable = [column for column in columns if column.kind is not None]
        if not readable:
            raise InputError(f"{asked.name} has no column that shoal can read; cast them in a query: #SELECT ...")
        schema = pa.schema([pa.field(column.name, column.kind) for column in readable])
        snapshot = Snapshot(_rows(connection, readable, schema), schema)
    if snapshot.n_rows == 0:
        raise InputError(f"{asked.name} has no rows")
    return SnapshotSource(
        name=asked.name,
        schema=normal_schema(pa.schema([(column.name, column.kind or pa.binary()) for column in columns])),
        n_rows=snapshot.n_rows,
        cleaning=options.cleaning,
        snapshot=snapshot,
        sha256=snapshot.sha256,
        refused={
            column.name: f"holds {column.stated}, which shoal does not read; cast it in a query: #SELECT ..."
            for column in columns
            if column.kind is None
        },
    )


def _rows(connection: Connection, columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    name = connection.asked.name
    for batch in connection.read(columns):
        arrays = [check_column(array, column, name) for array, column in zip(batch.columns, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class Delivery:
    """A transaction that creates one table; leaving the context undoes everything that was not committed.

    After an error between the commit and the end of the context the table is dropped again. Without a destination all
    methods do nothing.
    """

    def __init__(self, to: DatabaseTable | None) -> None:
        """Store the destination; entering the context opens the database."""
        if to is not None and to.table is None:
            raise UsageError("a release is written to a table, not to a query: name a new table after `#`")
        self._to = to
        self._connection: Connection | None = None
        self._committed = False
        self._made: Path | None = None  # a new database file

    def __enter__(self) -> Delivery:
        if self._to is None:
            return self
        try:
            self._make_file(self._to)
            self._connection = connect(self._to, write=True)
            if self._connection.exists():
                raise UsageError(f"{self._to.name} exists already; shoal never overwrites: choose another name")
        except BaseException as error:
            self.__exit__()
            if isinstance(error, InputError):  # a wrong destination is not an error of the data
                raise UsageError(str(error)) from None
            raise
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._committed and kind is None:
            return
        if self._committed and self._to is not None:  # a later step failed
            with suppress(ShoalError), connect(self._to, write=True) as connection:
                connection.drop()
        if self._made is not None:
            for path in (self._made, *(self._made.with_name(self._made.name + end) for end in _BESIDE)):
                path.unlink(missing_ok=True)
            self._made = None

    def send(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Create the table and insert all rows in their order; other connections do not see them yet."""
        if self._connection is None:
            return
        connection = self._connection
        check_names(schema.names, connection.asked.name)
        columns, kinds = [], []
        for field in normal_schema(schema):
            found = connection.find_type(field.type)
            if found is None:
                raise UsageError(
                    f"column {field.name!r} holds {field.type}, which {connection.asked.title} cannot keep"
                )
            columns.append(f"{quote_name(field.name)} {found[0]}")
            kinds.append(pa.field(field.name, found[1]))
        connection.create(", ".join(columns))
        target = pa.schema(kinds)
        stopped: list[BaseException] = []
        rows = pa.RecordBatchReader.from_batches(target, _noting(self._convert(batches, target), stopped))
        try:
            connection.insert(rows)
        except ShoalError:
            if stopped:  # the driver replaced this error by its own
                raise stopped[0] from None
            raise

    def send_file(self, path: Path) -> None:
        """Insert the rows of the Parquet file that was verified."""
        if self._connection is None:
            return
        with pq.ParquetFile(path, pre_buffer=False) as file:
            self.send(file.iter_batches(batch_size=_SEND_ROWS), file.schema_arrow)

    def commit(self) -> None:
        """Commit; if the connection breaks while doing so, check whether the table exists."""
        if self._connection is None or self._to is None:
            return
        try:
            self._connection.commit()
        except self._connection.failures as error:
            message = self._connection.cannot_write(error)
            self._connection.close()
            try:
                with connect(self._to) as again:
                    committed = again.exists()
            except ShoalError:
                raise UsageError(
                    f"{message}. The connection broke at the very end: see whether the table is there, and drop it"
                ) from None
            if not committed:
                raise message from None
        self._committed = True

    def _make_file(self, to: DatabaseTable) -> None:
        """Create the file of a new database, which is removed after an error."""
        path = Path(to.location)
        if to.kind == "postgresql" or path.exists():
            return
        try:
            if to.kind == "sqlite":
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            elif not path.parent.is_dir():
                raise FileNotFoundError(2, "No such file or directory")
        except OSError as error:
            raise UsageError(f"cannot write {path.name}: {error.strerror}; nothing was published") from None
        self._made = path

    def _convert(self, batches: Iterable[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = []
            for field, given in zip(target, batch.columns, strict=True):
                try:
                    arrays.append(normal_column(given, coded=False).cast(field.type))
                except pa.ArrowInvalid:
                    raise UsageError(
                        f"column {field.name!r} holds values that the database's {field.type} cannot keep exactly"
                    ) from None
            yield pa.RecordBatch.from_arrays(arrays, schema=target)


def _noting(rows: Iterator[pa.RecordBatch], stopped: list[BaseException]) -> Iterator[pa.RecordBatch]:
    """Yield the rows and store an exception, because drivers replace it by one of their own."""
    try:
        yield from rows
    except GeneratorExit:
        raise
    except BaseException as error:
        stopped.append(error)
        raise


def destination_table(to: str | DatabaseTable, folder: Path | None, format: str | None) -> DatabaseTable:  # noqa: A002
    """Return the table that a release is also written to; raise now if it cannot be created, by creating it once."""
    asked = DatabaseTable.of(to) if isinstance(to, str) else to
    if folder is None:
        raise UsageError("a release is written to a database in addition to its folder: give the folder too")
    if format == "csv":
        raise UsageError(
            "the files of a release to a database are kept as Parquet, with its types; leave out the format csv"
        )
    with Delivery(asked) as delivery:
        delivery.send(iter(()), pa.schema([pa.field("tried", pa.int64())]))
    return asked


def write_table(to: str | DatabaseTable, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write rows to a new table in one transaction, in their order."""
    with Delivery(DatabaseTable.of(to) if isinstance(to, str) else to) as delivery:
        delivery.send(batches, schema)
        delivery.commit()

"""Tables of databases as sources: read once, in one transaction, and kept as they were at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from shoal.core.errors import InputError
from shoal.sources.addresses import DatabaseTable
from shoal.sources.columns import check_names, normal_type
from shoal.sources.databases import connect
from shoal.sources.databases.base import Column, Connection, checked
from shoal.sources.options import SourceOptions
from shoal.sources.snapshots import Snapshot, SnapshotSource

__all__ = ["DatabaseTable", "open_database"]


def open_database(asked: DatabaseTable, options: SourceOptions) -> SnapshotSource:
    """Read a table, a view or a query now; later reads come from a temporary file, always with the same rows."""
    with connect(asked) as connection:
        connection.find()
        columns = connection.columns()
        check_names([column.name for column in columns], asked.name)
        readable = [column for column in columns if column.kind is not None]
        if not readable:
            raise InputError(f"{asked.name} has no column that shoal can read; cast them in a query: #SELECT ...")
        schema = pa.schema([pa.field(column.name, column.kind) for column in readable])
        snapshot = Snapshot.of(_rows(connection, readable, schema), schema)
    if snapshot.n_rows == 0:
        raise InputError(f"{asked.name} has no rows")
    return SnapshotSource(
        name=asked.name,
        schema=pa.schema(
            [
                pa.field(column.name, pa.binary() if column.kind is None else normal_type(column.kind))
                for column in columns
            ]
        ),
        n_rows=snapshot.n_rows,
        missing=tuple(options.missing),
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
        arrays = [checked(array, column, name) for array, column in zip(batch.columns, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)

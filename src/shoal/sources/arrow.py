"""Tables in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from shoal.core.errors import InputError
from shoal.sources.base import Source
from shoal.sources.columns import check_names, normal_schema, plain
from shoal.sources.options import SourceOptions

BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ArrowSource(Source):
    """An Arrow table; metadata and indexes that came with it are not looked at."""

    table: pa.Table
    batch_rows: int

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield from self.table.select(columns).to_batches(max_chunksize=self.batch_rows)

    def digest(self) -> str:
        """Return the SHA-256 of the rows as an Arrow stream, however the table is cut into chunks."""
        digest = RowsDigest(self.schema)
        for start in range(0, self.table.num_rows, BATCH_ROWS):
            digest.add(plain(self.table.slice(start, BATCH_ROWS)).combine_chunks())
        return digest.finish()


class RowsDigest:
    """The SHA-256 of rows as an Arrow stream; it depends on how they are cut into batches."""

    def __init__(self, schema: pa.Schema) -> None:
        """Begin with no rows."""
        self._sink = _Digest()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), schema)

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Take the next rows."""
        self._stream.write(rows)

    def finish(self) -> str:
        """Return the digest of all rows."""
        self._stream.close()
        return self._sink.hash.hexdigest()


class _Digest:
    """A file that keeps nothing but the digest of what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.closed = False
        self._size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True


def open_arrow(table: pa.Table, options: SourceOptions, name: str, batch_rows: int = BATCH_ROWS) -> ArrowSource:
    """Open a table in memory."""
    check_names(table.column_names, name)
    if table.num_rows == 0:
        raise InputError(f"{name} has no rows")
    return ArrowSource(
        name=name,
        schema=normal_schema(table.schema),
        n_rows=table.num_rows,
        missing=tuple(options.missing),
        table=table,
        batch_rows=batch_rows,
    )

"""What the databases behind an ADBC driver share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from shoal.sources.addresses import quoted
from shoal.sources.databases.base import Connection, arrow_batches


class AdbcConnection(Connection):
    """A connection whose transaction begins with its first statement."""

    _driver: Any
    _connection: Any = None
    _cursor: Any = None

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What the driver raises."""
        return (self._driver.Error,)

    def create(self, columns: str) -> None:
        """Make the table."""
        with self._writing():
            self._cursor.execute(f"CREATE TABLE {quoted(*self.asked.parts)} ({columns})")

    def drop(self) -> None:
        """Remove the table."""
        with self._writing():
            self._cursor.execute(f"DROP TABLE {quoted(*self.asked.parts)}")
            self._connection.commit()

    def insert(self, rows: pa.RecordBatchReader) -> None:
        """Hand the rows to the driver."""
        *schema, table = self.asked.parts
        with self._writing():
            self._cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema[-1] if schema else None)

    def commit(self) -> None:
        """Commit."""
        self._connection.commit()

    def close(self) -> None:
        """Roll back and close."""
        for part in (self._cursor, self._connection):
            if part is not None:
                with contextlib.suppress(*self.failures):
                    part.close()

    def _read(self, query: str) -> Iterator[pa.RecordBatch]:
        try:
            self._cursor.execute(query)
            reader = self._cursor.fetch_record_batch()
        except (*self.failures, pa.ArrowException, OSError) as error:
            raise self.refusal(error) from None
        yield from arrow_batches(self, reader)

    def _answer(self, query: str) -> list[tuple[Any, ...]]:
        try:
            self._cursor.execute(query)
            return list(self._cursor.fetchall())
        except (*self.failures, pa.ArrowException, OSError) as error:
            raise self.refusal(error) from None

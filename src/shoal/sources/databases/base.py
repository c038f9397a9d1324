"""The interface of database connections: a transaction that reads a table or creates one."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.sources.addresses import DatabaseTable, Kind, quote_name

READ_ROWS = 1 << 16
_LAST_DAY = 2_147_000_000  # larger numbers encode infinity
_LAST_TIME = 2**63 - 2
_FIRST_MICROSECOND = -9_222_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the database; ``kind`` is None if shoal cannot read its type."""

    name: str
    expression: str
    kind: pa.DataType | None
    stated: str


class Connection(ABC):
    """A connection with one open transaction, which is rolled back unless it is committed.

    With an ADBC driver the transaction begins with the first statement.
    """

    kind: ClassVar[Kind]
    stored: ClassVar[Mapping[pa.DataType, tuple[str, pa.DataType]]]  # results of find_type by Arrow type
    decimals: ClassVar[tuple[str, int]] = ("DECIMAL", 38)  # the SQL name of the type, and its largest precision
    _driver: Any  # the driver's DB-API module
    _connection: Any = None
    _cursor: Any = None

    def __init__(self, asked: DatabaseTable) -> None:
        """Store the requested table; subclasses connect."""
        self.asked = asked

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def tables(self) -> list[str]:
        """Return the names of tables and views, qualified unless they are in the default schema."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the requested table exists."""

    @abstractmethod
    def columns(self) -> list[Column]:
        """Return the columns of the requested rows."""

    def find_type(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        """Return an SQL type that stores the values exactly, and the Arrow type to send; None if there is none."""
        if pt.is_decimal(kind):
            name, most_digits = self.decimals
            return (f"{name}({kind.precision}, {kind.scale})", kind) if kind.precision <= most_digits else None
        if pt.is_time(kind):
            kind = pa.time64("us")
        elif pt.is_date(kind):
            kind = pa.date32()
        elif pt.is_timestamp(kind) and (kind.tz is not None or kind not in self.stored):
            kind = pa.timestamp("us", None if kind.tz is None else "UTC")
        return self.stored.get(kind)

    @abstractmethod
    def reason(self, error: Exception) -> str:
        """Describe the database's error without the values that its message may quote."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return (self._driver.Error,)

    def read(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns in the types of the driver."""
        listed = ", ".join(column.expression for column in columns)
        return self._batches(f"SELECT {listed} FROM {self.asked.relation}")  # noqa: S608

    def insert(self, rows: pa.RecordBatchReader) -> None:
        """Append rows to the table in their order."""
        *schema, table = self.asked.parts
        with self._writing():
            self._cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema[-1] if schema else None)

    def create(self, columns: str) -> None:
        """Create the table, given the SQL text of its columns."""
        with self._writing():
            self._cursor.execute(f"CREATE TABLE {quote_name(*self.asked.parts)} ({columns})")

    def drop(self) -> None:
        """Drop the table and commit."""
        with self._writing():
            self._cursor.execute(f"DROP TABLE {quote_name(*self.asked.parts)}")
            self.commit()

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        """Roll back changes that were not committed and close the connection; never raises."""
        for part in (self._cursor, self._connection):
            if part is not None:
                with contextlib.suppress(*self.failures):
                    part.close()

    def find(self) -> None:
        """Raise if the table does not exist."""
        if self.asked.table is None or self.exists():
            return
        known = self.tables()
        same = [name for name in known if name.lower() == self.asked.table.lower()]
        near = did_you_mean(self.asked.table, same or known) or did_you_mean(self.asked.parts[-1], known)
        raise InputError(f"the {self.asked.title} database has no table {self.asked.table!r}{near}")

    def cannot_write(self, error: Exception) -> UsageError:
        """Return the error for a table that cannot be written; raise if memory ran out."""
        if isinstance(error, MemoryError):
            raise error
        return UsageError(f"cannot write {self.asked.name}: {self.reason(error)}; nothing was published")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (*self.failures, pa.ArrowException, OSError) as error:
            raise self.cannot_write(error) from None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:  # a subclass of ArrowException that is not an error of the rows
            raise
        except (*self.failures, pa.ArrowException, OSError) as error:
            raise InputError(f"cannot read {self.asked.name}: {self.reason(error)}") from None

    def _answer(self, query: str) -> list[tuple[Any, ...]]:
        with self._reading():
            self._cursor.execute(query)
            return list(self._cursor.fetchall())

    def _stream(self, query: str) -> pa.RecordBatchReader:
        self._cursor.execute(query)
        return self._cursor.fetch_record_batch()

    def _batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query; raise the driver's errors as :class:`InputError`."""
        with self._reading():
            reader = self._stream(query)
        while True:
            try:
                with self._reading():
                    batch = reader.read_next_batch()
            except StopIteration:
                return
            yield batch


def check_column(column: pa.Array, wanted: Column, where: str) -> pa.Array:
    """Convert a column to its type; raise if a value does not fit the type."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {wanted.name!r} of {where} holds bytes that are not UTF-8 text; correct them"
        ) from None
    kind: Any = wanted.kind
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pt.is_decimal(kind) and not pt.is_decimal(column.type):
        column = pc.if_else(pc.equal(pc.utf8_lower(column), "nan"), pa.scalar(None, column.type), column)
    try:
        column = column.cast(kind)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {wanted.name!r} of {where} holds numbers that {kind} cannot keep, or infinite ones; round or "
            "cast it in a query"
        ) from None
    if _is_infinite(column):
        raise InputError(
            f"column {wanted.name!r} of {where} holds infinite dates; make them null in a query: "
            f"#SELECT CASE WHEN isfinite(...) THEN ... END"
        )
    return column


def _is_infinite(column: pa.Array) -> bool:
    """Whether a column of dates or times contains a code for infinity."""
    if pt.is_date32(column.type):
        stored, first, last = pa.int32(), -_LAST_DAY - 1, _LAST_DAY + 1
    elif pt.is_timestamp(column.type):
        stored, last = pa.int64(), _LAST_TIME
        first = _FIRST_MICROSECOND if column.type.unit == "us" else -_LAST_TIME
    else:
        return False
    ends = pc.min_max(column.cast(stored)).as_py()
    return ends["min"] is not None and (ends["min"] <= first or ends["max"] >= last)

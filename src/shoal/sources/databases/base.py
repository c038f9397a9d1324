"""What a connection to a database can do: one transaction that reads a table, or makes one."""

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
_LAST_DAY = 2_147_000_000  # beyond it lie only the codes of infinity
_LAST_TIME = 2**63 - 2
_FIRST_MICROSECOND = -9_222_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the database has it; ``kind`` is None if it cannot be read."""

    name: str
    expression: str
    kind: pa.DataType | None
    stated: str


class Connection(ABC):
    """A connection with one open transaction; closing it without a commit leaves the database as it was.

    The transaction of an ADBC driver begins with its first statement.
    """

    kind: ClassVar[Kind]
    stored: ClassVar[Mapping[pa.DataType, tuple[str, pa.DataType]]]  # columns for new tables, as find_type returns them
    decimals: ClassVar[tuple[str, int]] = ("DECIMAL", 38)  # the name of the type, and its digits at most
    _driver: Any  # module of the driver, as the DB-API has it
    _connection: Any = None
    _cursor: Any = None

    def __init__(self, asked: DatabaseTable) -> None:
        """Remember what is asked for; subclasses connect."""
        self.asked = asked

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def tables(self) -> list[str]:
        """Return the names of tables and views, with their schema unless it is the usual one."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the table that is asked for is there."""

    @abstractmethod
    def columns(self) -> list[Column]:
        """Look what columns the rows have."""

    def find_type(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        """Return the type of a column that keeps such values exactly, and the Arrow type they are sent in."""
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
        """Say in words that carry no value of a row what the database complains about."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What the driver raises."""
        return (self._driver.Error,)

    def read(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Read these columns in batches, in whatever types the driver gives."""
        listed = ", ".join(column.expression for column in columns)
        return self._batches(f"SELECT {listed} FROM {self.asked.relation}")  # noqa: S608

    def insert(self, rows: pa.RecordBatchReader) -> None:
        """Add rows to the table, in their order; the driver is ADBC's unless a subclass has another."""
        *schema, table = self.asked.parts
        with self._writing():
            self._cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema[-1] if schema else None)

    def create(self, columns: str) -> None:
        """Make the table with these columns, in SQL."""
        with self._writing():
            self._cursor.execute(f"CREATE TABLE {quote_name(*self.asked.parts)} ({columns})")

    def drop(self) -> None:
        """Remove the table, and commit."""
        with self._writing():
            self._cursor.execute(f"DROP TABLE {quote_name(*self.asked.parts)}")
            self.commit()

    def commit(self) -> None:
        """End the transaction so that all of it holds."""
        self._connection.commit()

    def close(self) -> None:
        """Drop what was not committed, and the connection; never raises."""
        for part in (self._cursor, self._connection):
            if part is not None:
                with contextlib.suppress(*self.failures):
                    part.close()

    def find(self) -> None:
        """Raise if the table is not there."""
        if self.asked.table is None or self.exists():
            return
        known = self.tables()
        same = [name for name in known if name.lower() == self.asked.table.lower()]
        near = did_you_mean(self.asked.table, same or known) or did_you_mean(self.asked.parts[-1], known)
        raise InputError(f"there is no table {self.asked.table!r} in the {self.asked.title} database{near}")

    def cannot_write(self, error: Exception) -> UsageError:
        """Return the error for a table that cannot be written; memory that ran out is raised."""
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
        except MemoryError:  # one of Arrow's errors, but no fault of the rows
            raise
        except (*self.failures, pa.ArrowException, OSError) as error:
            raise InputError(f"cannot read {self.asked.name}: {self.reason(error)}") from None

    def _answer(self, query: str) -> list[tuple[Any, ...]]:
        with self._reading():
            self._cursor.execute(query)
            return list(self._cursor.fetchall())

    def _stream(self, query: str) -> pa.RecordBatchReader:
        """Start a query."""
        self._cursor.execute(query)
        return self._cursor.fetch_record_batch()

    def _batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, with the driver's failures as messages."""
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
    """Return a column in its type, if the values are what the type promises."""
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
    """Whether a date or a time is one of the codes that databases keep for infinity."""
    if pt.is_date32(column.type):
        stored, first, last = pa.int32(), -_LAST_DAY - 1, _LAST_DAY + 1
    elif pt.is_timestamp(column.type):
        stored, last = pa.int64(), _LAST_TIME
        first = _FIRST_MICROSECOND if column.type.unit == "us" else -_LAST_TIME
    else:
        return False
    ends = pc.min_max(column.cast(stored)).as_py()
    return ends["min"] is not None and (ends["min"] <= first or ends["max"] >= last)

"""Databases in one file: DuckDB through its own Arrow streams, SQLite through ADBC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.types as pt

from shoal.core.errors import InputError
from shoal.sources.addresses import DatabaseTable, Kind, quote_name
from shoal.sources.base import import_optional
from shoal.sources.databases.base import READ_ROWS, Column, Connection

_INCOMING = "shoal_incoming"
_SQLITE = b"SQLite format 3\0"
_DUCKDB_KINDS = {
    "TINYINT": pa.int8(),
    "UTINYINT": pa.uint8(),
    "SMALLINT": pa.int16(),
    "USMALLINT": pa.uint16(),
    "INTEGER": pa.int32(),
    "UINTEGER": pa.uint32(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}
_DUCKDB_SIGNS = {
    "Could not set lock": "another program has it open",
    "different configuration": "this program has it open already; close that connection first",
    "No space left": "no space is left on the disk",
}
_CAST = {"UUID": "VARCHAR", "HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)", '"NULL"': "VARCHAR"}
# DuckDB must not download extensions, whatever a query or a file needs.
_SETTINGS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class DuckDB(Connection):
    """A transaction on a DuckDB file."""

    kind: ClassVar[Kind] = "duckdb"
    stored = {arrow: (name, arrow) for name, arrow in _DUCKDB_KINDS.items()}  # noqa: RUF012  never changed

    def __init__(self, asked: DatabaseTable, *, write: bool) -> None:
        super().__init__(asked)
        self._driver = import_optional("duckdb", "DuckDB", "databases")
        path = Path(asked.location)
        if path.exists() or not write:
            _check_file(path)
        try:
            self._cursor = self._connection = self._driver.connect(str(path), read_only=not write, config=_SETTINGS)
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute("BEGIN")
        except self.failures as error:
            self.close()
            raise InputError(f"cannot open {path.name}: {self.reason(error)}") from None

    def tables(self) -> list[str]:
        return [
            name if schema == "main" else f"{schema}.{name}"
            for schema, name in self._answer("SELECT table_schema, table_name FROM information_schema.tables")
        ]

    def exists(self) -> bool:
        name = ".".join(self.asked.parts).lower().removeprefix("main.")
        return name in map(str.lower, self.tables())

    def columns(self) -> list[Column]:
        return [self._column(*row[:2]) for row in self._answer(f"DESCRIBE SELECT * FROM {self.asked.relation}")]  # noqa: S608

    def _stream(self, query: str) -> pa.RecordBatchReader:
        return self._connection.sql(query).to_arrow_reader(READ_ROWS)

    def insert(self, rows: pa.RecordBatchReader) -> None:
        """Insert rows through DuckDB's reader, which keeps their order."""
        with self._writing():
            self._connection.register(_INCOMING, rows)
            self._connection.execute(f"INSERT INTO {quote_name(*self.asked.parts)} SELECT * FROM {_INCOMING}")  # noqa: S608
            self._connection.unregister(_INCOMING)

    def reason(self, error: Exception) -> str:
        """Describe an error, in DuckDB's own words only if they are about the query and not about rows."""
        for sign, words in _DUCKDB_SIGNS.items():
            if sign in str(error):
                return words
        named = re.search(r"(?:Catalog|Binder|Parser) Error: (.*)", str(error))
        if named and isinstance(error, self._driver.ProgrammingError):
            return named[1]
        fault = isinstance(error, self._driver.DataError)
        return "a value does not fit its type" if fault else "DuckDB reports an error"

    def _column(self, name: str, stated: str) -> Column:
        place = quote_name(name)
        if stated in _CAST:
            kind = pa.string() if _CAST[stated] == "VARCHAR" else pa.decimal128(38, 0)
            return Column(name, f"CAST({place} AS {_CAST[stated]}) AS {place}", kind, stated)
        if stated.startswith("ENUM("):
            return Column(name, f"CAST({place} AS VARCHAR) AS {place}", pa.string(), "ENUM")
        digits = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", stated)
        if digits:
            return Column(name, place, pa.decimal128(int(digits[1]), int(digits[2])), stated)
        return Column(name, place, _DUCKDB_KINDS.get(stated), stated)


def _check_file(path: Path) -> None:
    """Raise unless the file is a DuckDB database: DuckDB would open others and download extensions for them."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(16)
    if start == _SQLITE:
        raise InputError(f"cannot open {path.name}: it is a SQLite database; write sqlite:/// before its path")
    if start[8:12] != b"DUCK":
        raise InputError(f"cannot open {path.name}: it is not a DuckDB database")


_EXACT = 2**53  # floats represent integers exactly up to here
_SORTS = ("blob", "integer", "real", "text")
_SORT = "CASE typeof({0}) WHEN 'integer' THEN 1 WHEN 'text' THEN 3 WHEN 'real' THEN 2 WHEN 'blob' THEN 0 END"
# By the smallest and the largest storage class in a column.
_SQLITE_KINDS = {
    (None, None): pa.string(),
    ("integer", "integer"): pa.int64(),
    ("real", "real"): pa.float64(),
    ("integer", "real"): pa.float64(),
    ("text", "text"): pa.string(),
}
_SQLITE_SIGNS = {
    "not a database": "it is not a SQLite database",
    "malformed": "the file is damaged",
    "locked": "another program holds it locked",
    "full": "no space is left on the disk",
    "readonly": "the file is read-only",
}
_FIRST = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''"}


class SQLite(Connection):
    """A transaction on an SQLite file; column types follow from the stored values, not from the declaration."""

    kind: ClassVar[Kind] = "sqlite"

    def __init__(self, asked: DatabaseTable, *, write: bool) -> None:
        super().__init__(asked)
        self._driver = import_optional("adbc_driver_sqlite.dbapi", "SQLite", "databases")
        path = Path(asked.location)
        if not path.is_file():
            raise InputError(f"there is no file {path}")
        try:
            self._connection = self._driver.connect(f"{path.absolute().as_uri()}?mode={'rw' if write else 'ro'}")
            self._cursor = self._connection.cursor()
            self._cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": READ_ROWS})
            self._cursor.execute("SELECT count(*) FROM sqlite_master")
            self._cursor.fetchall()
        except self.failures as error:
            self.close()
            raise InputError(f"cannot open {path.name}: {self.reason(error)}") from None

    def tables(self) -> list[str]:
        return [name for (name,) in self._answer("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]

    def exists(self) -> bool:
        if self.asked.parts[:-1] not in ((), ("main",)):
            raise InputError("a SQLite database has no schemas: name the table alone")
        return self.asked.parts[-1].lower() in map(str.lower, self.tables())

    def columns(self) -> list[Column]:
        """Find the types of the stored values, because SQLite does not enforce declared types."""
        with self._reading():
            self._cursor.execute(f"SELECT * FROM {self.asked.relation} LIMIT 0")  # noqa: S608
            names = [entry[0] for entry in self._cursor.description]
        looked = ", ".join(
            f"min({_SORT.format(place)}), max({_SORT.format(place)})" for place in map(quote_name, names)
        )
        (row,) = self._answer(f"SELECT {looked} FROM {self.asked.relation}")  # noqa: S608
        sorts = [None if sort is None else _SORTS[sort] for sort in row]
        return [self._column(name, *sorts[2 * i : 2 * i + 2]) for i, name in enumerate(names)]

    def read(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the driver takes the types from a first row, which is dropped."""
        first = ", ".join(f"{_FIRST[column.kind]} AS {quote_name(column.name)}" for column in columns)
        listed = ", ".join(column.expression for column in columns)
        dropped = 1
        for batch in self._batches(f"SELECT {first} UNION ALL SELECT {listed} FROM {self.asked.relation}"):  # noqa: S608
            yield batch.slice(dropped)
            dropped = 0

    def find_type(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        """Return one of SQLite's three types; other values are stored as text."""
        if pt.is_integer(kind) or pt.is_boolean(kind):
            return "INTEGER", pa.int64()
        if pt.is_floating(kind):
            return "REAL", pa.float64()
        return "TEXT", pa.string()

    def reason(self, error: Exception) -> str:
        """Describe an error, in SQLite's own words only if they are about the query and not about rows."""
        for sign, words in _SQLITE_SIGNS.items():
            if sign in str(error):
                return words
        named = re.search(r"(no such (?:table|column|function): .*|near \".*\": syntax error)", str(error))
        return named[1] if named else "SQLite reports an error"

    def _column(self, name: str, low: str | None, high: str | None) -> Column:
        kind = _SQLITE_KINDS.get((low, high))
        stated = high or "nothing" if low == high else f"both {low} and {high}"
        place = quote_name(name)
        if (low, high) == ("integer", "real"):
            whole = f"{place}) FROM {self.asked.relation} WHERE typeof({place}) = 'integer'"
            ((least,),), ((most,),) = (self._answer(f"SELECT {end}({whole}") for end in ("min", "max"))
            if least is None or max(-least, most) > _EXACT:
                return Column(name, place, None, "both fractions and integers too large for fractions")
            place = f"CAST({place} AS REAL)"
        return Column(name, place, kind, stated)

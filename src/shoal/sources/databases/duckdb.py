"""DuckDB through its own Arrow streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from shoal.core.errors import InputError
from shoal.sources.addresses import DatabaseTable, Kind, quote_name
from shoal.sources.base import import_optional
from shoal.sources.databases.base import READ_ROWS, Column, Connection

_INCOMING = "shoal_incoming"
_SQLITE = b"SQLite format 3\0"
_KINDS = {
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
_SIGNS = {
    "Could not set lock": "another program has it open",
    "different configuration": "this program has it open already; close that connection first",
    "No space left": "no space is left on the disk",
}
_CAST = {"UUID": "VARCHAR", "HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)", '"NULL"': "VARCHAR"}
# Nothing is fetched from a network, whatever a query or a file asks for.
_SETTINGS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class DuckDB(Connection):
    """One transaction on a file."""

    kind: ClassVar[Kind] = "duckdb"
    stored = {arrow: (name, arrow) for name, arrow in _KINDS.items()}  # noqa: RUF012  never changed

    def __init__(self, asked: DatabaseTable, *, write: bool) -> None:
        """Open the file and begin."""
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
        """Return all tables and views."""
        return [
            name if schema == "main" else f"{schema}.{name}"
            for schema, name in self._answer("SELECT table_schema, table_name FROM information_schema.tables")
        ]

    def exists(self) -> bool:
        """Whether it is there; case does not count."""
        name = ".".join(self.asked.parts).lower().removeprefix("main.")
        return name in map(str.lower, self.tables())

    def columns(self) -> list[Column]:
        """Look at the types."""
        return [self._column(*row[:2]) for row in self._answer(f"DESCRIBE SELECT * FROM {self.asked.relation}")]  # noqa: S608

    def _stream(self, query: str) -> pa.RecordBatchReader:
        return self._connection.sql(query).to_arrow_reader(READ_ROWS)

    def insert(self, rows: pa.RecordBatchReader) -> None:
        """Let DuckDB read the rows; it keeps their order."""
        with self._writing():
            self._connection.register(_INCOMING, rows)
            self._connection.execute(f"INSERT INTO {quote_name(*self.asked.parts)} SELECT * FROM {_INCOMING}")  # noqa: S608
            self._connection.unregister(_INCOMING)

    def reason(self, error: Exception) -> str:
        """Say what happened; DuckDB's own words only where they speak of the query, not of rows."""
        for sign, words in _SIGNS.items():
            if sign in str(error):
                return words
        named = re.search(r"(?:Catalog|Binder|Parser) Error: (.*)", str(error))
        if named and isinstance(error, self._driver.ProgrammingError):
            return named[1]
        return "a value does not fit its type" if isinstance(error, self._driver.DataError) else "DuckDB refuses it"

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
        return Column(name, place, _KINDS.get(stated), stated)


def _check_file(path: Path) -> None:
    """Raise if the file is no database: DuckDB would open tables of other kinds, and fetch what it needs for them."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(16)
    if start == _SQLITE:
        raise InputError(f"cannot open {path.name}: it is a SQLite database; write sqlite:/// before its path")
    if start[8:12] != b"DUCK":
        raise InputError(f"cannot open {path.name}: it is not a DuckDB database")

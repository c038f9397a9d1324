"""SQLite through ADBC."""

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

_EXACT = 2**53  # whole numbers up to here are floats exactly
_SORTS = ("blob", "integer", "real", "text")
_SORT = "CASE typeof({0}) WHEN 'integer' THEN 1 WHEN 'text' THEN 3 WHEN 'real' THEN 2 WHEN 'blob' THEN 0 END"
# By the first and the last sort of value that a column holds.
_KINDS = {
    (None, None): pa.string(),
    ("integer", "integer"): pa.int64(),
    ("real", "real"): pa.float64(),
    ("integer", "real"): pa.float64(),
    ("text", "text"): pa.string(),
}
_SIGNS = {
    "not a database": "it is not a SQLite database",
    "malformed": "the file is damaged",
    "locked": "another program holds it locked",
    "full": "no space is left on the disk",
    "readonly": "it must not be written to",
}
_FIRST = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''"}


class SQLite(Connection):
    """One transaction on a file; what is stored is read, whatever type the table declares."""

    kind: ClassVar[Kind] = "sqlite"

    def __init__(self, asked: DatabaseTable, *, write: bool) -> None:
        """Open the file."""
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
        """Return all tables and views."""
        return [name for (name,) in self._answer("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]

    def exists(self) -> bool:
        """Whether it is there; case does not count."""
        if self.asked.parts[:-1] not in ((), ("main",)):
            raise InputError("a SQLite database has no schemas: name the table alone")
        return self.asked.parts[-1].lower() in map(str.lower, self.tables())

    def columns(self) -> list[Column]:
        """Look at what is stored: SQLite does not hold values to the declared types."""
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
        """Read by batches; a first row, which is dropped again, tells the driver the types."""
        first = ", ".join(f"{_FIRST[column.kind]} AS {quote_name(column.name)}" for column in columns)
        listed = ", ".join(column.expression for column in columns)
        dropped = 1
        for batch in self._batches(f"SELECT {first} UNION ALL SELECT {listed} FROM {self.asked.relation}"):  # noqa: S608
            yield batch.slice(dropped)
            dropped = 0

    def find_type(self, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
        """Return a type of SQLite's three; what it does not have is kept as text."""
        if pt.is_integer(kind) or pt.is_boolean(kind):
            return "INTEGER", pa.int64()
        if pt.is_floating(kind):
            return "REAL", pa.float64()
        return "TEXT", pa.string()

    def reason(self, error: Exception) -> str:
        """Say what happened; SQLite's own words only where they speak of the query, not of rows."""
        for sign, words in _SIGNS.items():
            if sign in str(error):
                return words
        named = re.search(r"(no such (?:table|column|function): .*|near \".*\": syntax error)", str(error))
        return named[1] if named else "SQLite refuses it"

    def _column(self, name: str, low: str | None, high: str | None) -> Column:
        kind = _KINDS.get((low, high))
        stated = high or "nothing" if low == high else f"both {low} and {high}"
        place = quote_name(name)
        if (low, high) == ("integer", "real"):
            whole = f"{place}) FROM {self.asked.relation} WHERE typeof({place}) = 'integer'"
            ((least,),), ((most,),) = (self._answer(f"SELECT {end}({whole}") for end in ("min", "max"))
            if least is None or max(-least, most) > _EXACT:
                return Column(name, place, None, "both fractions and integers too large for fractions")
            place = f"CAST({place} AS REAL)"
        return Column(name, place, kind, stated)

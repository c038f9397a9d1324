"""DuckDB as the verifier uses it: closed to everything except the named files, and within a limit of memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa

_OURS, _LEAST = 200 << 20, 96 << 20  # bytes of the rest of the process, and that DuckDB needs
_ANY, _ROW, _COLUMN = 256 << 20, 16, 4 << 20  # bytes that it may use for any table, each row and each column
MOST_THREADS = 8

_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d([.]\d{1,6})?"
_NUMBER = r"[-+]?(\d+[.]?\d*|[.]\d+)([eE][-+]?\d+)?|[-+]?inf"
_MOMENT, _ZONE = f"{_DAY}( {_CLOCK})?", r"(Z|[-+]\d\d(:?\d\d)?)"
_FORMS = {  # type -> the texts that are read as it: DuckDB rounds others, or leaves out a part of them
    "HUGEINT": r"[-+]?\d+",
    "DOUBLE": _NUMBER,
    "FLOAT": _NUMBER,
    "BOOLEAN": "true|false",
    "DATE": _DAY,
    "TIME": _CLOCK,
    "TIME_NS": _CLOCK.replace("6", "9"),
    "TIMESTAMP": _MOMENT,
    "TIMESTAMP_NS": _MOMENT.replace("6", "9"),
    "TIMESTAMP WITH TIME ZONE": _MOMENT + _ZONE,
    "TIMESTAMPTZ_NS": _MOMENT.replace("6", "9") + _ZONE,
}

Error = duckdb.Error
T = TypeVar("T")


class CannotCheckError(Exception):
    """Something that the manifest claims cannot be checked; the message says why, and quotes no value."""


def quote_name(name: str) -> str:
    """Return the name of a column or table as SQL has it.

    >>> print(quote_name('a"; DROP TABLE x; --'))
    "a""; DROP TABLE x; --"
    """
    return '"' + _demand_text(name).replace('"', '""') + '"'


def quote_text(text: str | None) -> str:
    """Return a text as SQL has it.

    >>> print(quote_text("it's"), quote_text(None))
    'it''s' NULL
    """
    return "NULL" if text is None else "'" + _demand_text(text).replace("'", "''") + "'"


def _demand_text(text: str) -> str:
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise CannotCheckError("a text cannot be written in SQL")
    return text


def read_as(value: str, kind: str, *, text: bool = True) -> str:
    """Return a value as a type in SQL, and NULL for a *text* that is not all of such a value."""
    read = f"try_cast({value} AS {kind})"
    form = quote_text(_FORMS[kind]) if text and kind in _FORMS else None
    return read if form is None else f"CASE WHEN regexp_full_match({value}::VARCHAR, {form}) THEN {read} END"


def name_columns(names: Sequence[str]) -> dict[str, str]:
    """Return each column's name in SQL, where upper and lower case are the same.

    >>> name_columns(["age", "zip", "Age"])
    {'age': '"age"', 'zip': '"zip"', 'Age': '"Age (3)"'}
    """
    found: dict[str, str] = {}
    for place, name in enumerate(names, 1):
        unique = name
        while unique.lower() in map(str.lower, found.values()):
            unique += f" ({place})"
        found[name] = unique
    return {name: quote_name(unique) for name, unique in found.items()}


class Engine:
    """A private database in memory that spills into its own temporary folder."""

    def __init__(
        self, files: Sequence[Path] = (), *, memory: int | None = None, rows: int = 0, columns: int = 0
    ) -> None:
        """Allow DuckDB to read *files*; *memory* is the limit of the whole process, in bytes."""
        limit = _ANY + _ROW * rows + _COLUMN * columns
        if memory is not None:
            limit = min(limit, max(memory - _OURS, _LEAST))
        self._folder = tempfile.TemporaryDirectory(prefix="shoal-verify-")
        self._connection = duckdb.connect(
            config={
                "memory_limit": f"{limit >> 20}MiB",
                "temp_directory": self._folder.name,
                "threads": max(1, min(MOST_THREADS, os.cpu_count() or 1)),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        allowed = ", ".join(quote_text(str(path)) for path in files)
        self._connection.execute(
            f"SET TimeZone = 'UTC'; SET allowed_paths = [{allowed}]; SET enable_external_access = false;"
            "SET lock_configuration = true;"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._folder.cleanup()

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except duckdb.OutOfMemoryException as error:
            if "temp" in str(error) and "directory" in str(error):  # its size is limited by the disk
                raise OSError(28, "No space left on device") from None
            raise MemoryError from None

    def run(self, *statements: str) -> None:
        """Execute statements that answer nothing."""
        for statement in statements:
            self._guard(lambda: self._connection.execute(statement))  # noqa: B023 - it is called right away

    def make(self, table: str, query: str) -> None:
        """Make a table of the rows of a query, in place of an earlier one of that name."""
        self.run(f"CREATE OR REPLACE TEMP TABLE {table} AS {query}")

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of an answer, which are few."""
        return self._guard(lambda: self._connection.execute(sql).fetchall())

    def fetch_one(self, sql: str) -> tuple[Any, ...]:
        """Return the only row of an answer."""
        (row,) = self.fetch(sql)
        return row

    def value(self, sql: str) -> Any:
        """Return the only value of an answer."""
        return self.fetch_one(sql)[0]

    def read(self, sql: str) -> pa.Table:
        """Return an answer as a table of Arrow."""
        return self._guard(lambda: self._connection.sql(sql).to_arrow_table())

    def put(self, name: str, table: pa.Table | Mapping[str, Any]) -> None:
        """Let statements read a table of Arrow under a name."""
        self._connection.register(name, table if isinstance(table, pa.Table) else pa.table(dict(table)))

    @contextmanager
    def stream(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """Let one statement read batches under a name; what reading them raises is raised here."""
        fault: BaseException | None = None

        def watch() -> Iterator[pa.RecordBatch]:
            nonlocal fault
            try:
                yield from batches
            except BaseException as error:
                fault = error
                raise

        self._connection.register(name, pa.RecordBatchReader.from_batches(schema, watch()))
        try:
            yield
        except Exception:
            if fault is not None:
                raise fault from None
            raise
        finally:
            self._connection.unregister(name)

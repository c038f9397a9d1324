"""Addresses of tables and queries in databases, which messages never show.

``postgresql://user@host:5432/clinic#public.stays``, ``sqlite:///stays.db#stays``, ``duckdb:////data/stays.duckdb#stays``:
after ``#`` comes a table, or a query if it begins with SELECT or WITH.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from shoal.core.errors import UsageError, did_you_mean

Kind = Literal["postgresql", "sqlite", "duckdb"]

TITLES: dict[Kind, str] = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "duckdb": "DuckDB"}
_SCHEMES: dict[str, Kind] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_AS_A_PATH = re.compile(r"(?:^|[/\\])(?:postgres(?:ql)?|sqlite|duckdb):[/\\]")
_QUERY = re.compile(r"\s*(?:SELECT|WITH)\s", re.IGNORECASE)
_NAME = re.compile(r'(?:"(?:[^"]|"")+"|[^".]+)(?:\.(?:"(?:[^"]|"")+"|[^".]+))*')
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseTable:
    """A table, a view or a query in a database; its text representation does not contain the address.

    >>> DatabaseTable("postgresql://ann:secret@db.example/clinic", table="public.stays")
    DatabaseTable(PostgreSQL table 'public.stays')
    """

    address: str
    table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        """Raise if the address is not one of a supported database or the table is not named correctly."""
        scheme = _ADDRESS.match(self.address)
        if scheme is None:
            raise UsageError("a database's address begins with postgresql://, sqlite:/// or duckdb:///")
        if scheme[1].lower() not in _SCHEMES:
            nearest = did_you_mean(scheme[1].lower(), _SCHEMES)
            raise UsageError(
                f"shoal reads databases at postgresql://, sqlite:/// and duckdb:///, not at {scheme[1]}://{nearest}"
            )
        if "#" in self.address:
            raise UsageError("an address has only one `#`, before the table; write %23 for any other")
        if (self.table is None) == (self.query is None):
            raise UsageError("give either a table or a query of the database")
        if self.table is not None and not _NAME.fullmatch(self.table):
            raise UsageError(
                'the table after `#` is not a valid name; write it as table, schema.table or "a name with a . in it"'
            )
        if self.kind != "postgresql" and not self.location:
            raise UsageError(f"the address has no file; write {self.kind}:///path/to/file#table")

    @classmethod
    def of(cls, text: str) -> DatabaseTable:
        """Read an address with its table or its query after the first ``#``."""
        address, _, asked = text.partition("#")
        if not asked.strip():
            DatabaseTable(address, table="any")  # reports errors of the address first
            raise UsageError("the address has no table; add `#table`, `#schema.table` or `#SELECT ...` to it")
        return cls(address, query=asked) if _QUERY.match(asked) else cls(address, table=asked)

    @property
    def kind(self) -> Kind:
        return _SCHEMES[self.address.partition("://")[0].lower()]

    @property
    def title(self) -> str:
        return TITLES[self.kind]

    @property
    def name(self) -> str:
        """The kind of database and the table, for messages."""
        return f"the {self.title} query" if self.table is None else f"{self.title} table {self.table!r}"

    @property
    def location(self) -> str:
        """The path of the file."""
        after = self.address.partition("://")[2]
        return after.removeprefix("/")

    @property
    def server(self) -> str:
        """Host and port of the server, which the message about a failed connection shows."""
        try:
            split = urlsplit(self.address)
            return f"{split.hostname or 'localhost'}:{split.port or 5432}"
        except ValueError:
            return "an unreadable host and port"

    @property
    def parts(self) -> tuple[str, ...]:
        """The unquoted parts of the table's name: an optional schema, and the table."""
        found = _PART.findall(self.table or "")
        return tuple(quoted.replace('""', '"') if quoted else bare for quoted, bare in found)

    @property
    def relation(self) -> str:
        """The SQL text after FROM."""
        if self.query is not None:
            return f"(\n{self.query.rstrip().rstrip(';')}\n) AS asked"
        return quote_name(*self.parts)

    def __repr__(self) -> str:
        return f"DatabaseTable({self.name})"

    def __str__(self) -> str:
        return self.name


def is_address(data: object) -> bool:
    """Whether a text is an address rather than a path.

    >>> is_address("sqlite:///stays.db#stays"), is_address("stays.csv")
    (True, False)
    """
    return isinstance(data, str) and _ADDRESS.match(data) is not None


def is_address_as_path(path: str) -> bool:
    """Whether a text is an address that was converted to a path, which removes a slash.

    >>> is_address_as_path(str(Path("sqlite:///stays.db"))), is_address_as_path("stays.db")
    (True, False)
    """
    return _AS_A_PATH.search(path) is not None


def refuse_address_as_path(path: str) -> None:
    """Raise if an address was converted to a path, without repeating it."""
    if is_address_as_path(path):
        raise UsageError(
            "a database address was given in place of a path; if only files are accepted here, write the table to a "
            "file first"
        )


def name_of(data: str) -> str:
    """Return the name of a file, or the part of an address that titles may show.

    >>> name_of("data/stays.csv"), name_of("sqlite:///stays.db#stays")
    ('stays.csv', "SQLite table 'stays'")
    """
    return DatabaseTable.of(data).name if is_address(data) else Path(data).name


def hide_address(data: str) -> str:
    """Return the text without server, user and password if it is the address of a server.

    >>> hide_address("postgresql://ann:secret@db.example/clinic#stays")
    'postgresql://...#stays'
    """
    if not is_address(data) or DatabaseTable.of(data).kind != "postgresql":
        return data
    address, _, asked = data.partition("#")
    return f"{address.partition('://')[0]}://...#{asked}"


def quote_name(*names: str) -> str:
    """Quote the parts of a name for SQL.

    >>> quote_name("public", 'odd "name"')
    '"public"."odd ""name\"""'
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)

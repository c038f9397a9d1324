"""The service's database: reads without a transaction, writes in a transaction that waits for its turn."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.sql.schema import Table

from shoal.agency.service import schema
from shoal.agency.service.refusals import conflict
from shoal.core.errors import InputError, UsageError

AUDIT_LOCK, COUNT_LOCK, TABLES_LOCK = 7_201, 7_202, 7_203  # PostgreSQL's advisory locks
_SECONDS = 10
_CONNECTIONS = 8
_SPARE = 8
_KEY = "key of the page"


@dataclass(frozen=True, slots=True)
class Database:
    """One SQLite file or one PostgreSQL database."""

    engine: Engine

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection whose statements are not in a common transaction."""
        engine = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction.

        On SQLite, writers wait for a limited time and then hold the file's only write lock from the first statement on;
        on PostgreSQL, statements lock rows.
        """
        with self.engine.execution_options(writing=True).begin() as connection:
            yield connection

    def lock(self, connection: Connection, key: int) -> None:
        """Hold a lock until the transaction ends; SQLite has only one writer at a time."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def upsert(self, table: Table, values: dict[str, Any], key: list[str]) -> Executable:
        """Return an insert that replaces the row with the same key, if there is one."""
        made = sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)
        replaced = {name: made.excluded[name] for name in values if name not in key}
        return made.values(values).on_conflict_do_update(index_elements=key, set_=replaced)


def insert_limited(
    database: Database,
    connection: Connection,
    table: Table,
    values: dict[str, Any],
    limit: int,
    message: str,
    *where: ColumnElement[bool],
) -> int:
    """Insert a row and return its number, unless the limit of such rows is reached."""
    database.lock(connection, COUNT_LOCK)
    if connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one() >= limit:
        raise conflict(message, "limit_reached")
    return int(connection.execute(table.insert().values(values).returning(table.c.id)).scalar_one())


class Paging(NamedTuple):
    after: int
    limit: int


def read_page(
    connection: Connection,
    asked: Select[Any],
    key: ColumnElement[Any],
    paging: Paging,
    change: Callable[[Mapping[Any, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """Return the entries after a number, and the number after which the next page begins; None at the end."""
    keyed = asked.add_columns(key.label(_KEY)).where(key > paging.after).order_by(key).limit(paging.limit)
    rows = [dict(row) for row in connection.execute(keyed).mappings()]
    keys = [row.pop(_KEY) for row in rows]
    following = keys[-1] if len(keys) == paging.limit else None
    return {"items": [change(row) for row in rows], "next": following}


def open_database(address: str) -> Database:
    """Return the database of a URL, without connecting."""
    url = _read_url(address)
    pool: dict[str, Any] = {"pool_size": _CONNECTIONS, "max_overflow": _SPARE, "pool_timeout": _SECONDS}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, **pool, connect_args={"timeout": _SECONDS, "check_same_thread": False})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return Database(engine)
    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{_SECONDS}s",
        "statement_timeout": f"{3 * _SECONDS}s",
        "idle_in_transaction_session_timeout": f"{6 * _SECONDS}s",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    connect_args = {"connect_timeout": _SECONDS, "options": options}
    return Database(create_engine(url, **pool, pool_pre_ping=True, connect_args=connect_args))


def _read_url(address: str) -> URL:
    try:
        url = make_url(address)
        name = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise UsageError("--database must be a URL such as sqlite:///agency.db or postgresql://host/name") from None
    if name == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise UsageError("--database needs a file, such as sqlite:///agency.db")
        return url.set(drivername="sqlite+pysqlite")
    if name != "postgresql":
        raise UsageError(f"--database must be of sqlite or postgresql, got {name}")
    return url.set(drivername="postgresql+psycopg")


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # no implicit transactions
    until = time.monotonic() + _SECONDS
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "recursive_triggers=ON"):
        while True:
            try:
                connection.execute(f"PRAGMA {pragma}")
                break
            except sqlite3.OperationalError as error:  # SQLite does not wait while another process sets WAL
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    if connection.get_execution_options().get("writing"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def create_tables(database: Database) -> None:
    """Create the tables of an empty database; a database of another version is refused and not changed."""
    with naming_failures(database), database.writing() as connection:
        database.lock(connection, TABLES_LOCK)  # or two commands at a time would both create them
        if not _has_tables(connection):
            schema.create(connection)


def open_with_tables(address: str, *, creating: bool) -> Database:
    """Open a database; create its tables if the file is new or if *creating*."""
    database = open_database(address)
    if _make_file(database) or creating:
        create_tables(database)
        return database
    with naming_failures(database), database.reading() as connection:
        if not _has_tables(connection):
            raise UsageError("the database has no tables yet; run `shoal agency migrate` on it")
    return database


def _make_file(database: Database) -> bool:
    """Create the SQLite file, readable by its owner only, if it does not exist; return whether it was created."""
    path = database.engine.url.database
    if not database.is_sqlite or not path or Path(path).exists():
        return False
    with suppress(OSError):  # SQLite reports it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return True


@contextmanager
def naming_failures(database: Database) -> Iterator[None]:
    """Replace errors of the driver by one without address and password."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"the package {error.name} is not installed; install shoal[agency,postgresql]") from None
    except SQLAlchemyError as error:
        kind = "file" if database.is_sqlite else "server"
        raise InputError(
            f"the database cannot be used ({type(error).__name__}); is its {kind} there, and may shoal write to it?"
        ) from None


def _has_tables(connection: Connection) -> bool:
    """Return whether the tables exist; a database of another version is refused."""
    if not inspect(connection).has_table(schema.version.name):
        return False
    if connection.execute(select(schema.version.c.version_num)).scalars().all() != [schema.VERSION]:
        raise UsageError("the database was made by another version of shoal; update shoal, or begin a new database")
    return True

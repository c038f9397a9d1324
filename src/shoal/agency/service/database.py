"""Connections to the service's database: reads without a transaction, writes in one that waits for its turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import URL, Connection, Engine, Executable, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.sql.schema import Table

from shoal.core.errors import UsageError

AUDIT_LOCK, COUNT_LOCK, MIGRATION_LOCK = 7_201, 7_202, 7_203  # names of PostgreSQL's advisory locks
_SECONDS = 10
_CONNECTIONS = 8
_SPARE = 8


class TurnTimeoutError(Exception):
    """Other writers of SQLite took too long."""


@dataclass(frozen=True, slots=True)
class Database:
    """One SQLite file or one PostgreSQL database."""

    engine: Engine
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a file of SQLite."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection whose statements each stand alone."""
        engine = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that is committed at the end, or not at all.

        On SQLite writers queue here, for a bounded time, and then hold the file's one write lock from the first
        statement on; on PostgreSQL statements lock rows.
        """
        turn = self._queued() if self.is_sqlite else nullcontext()
        with turn, self.engine.execution_options(writing=True).begin() as connection:
            yield connection

    @contextmanager
    def _queued(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=_SECONDS):
            raise TurnTimeoutError
        try:
            yield
        finally:
            self._turn.release()

    def lock(self, connection: Connection, key: int) -> None:
        """Hold a lock until the transaction ends; SQLite's writers are alone anyway."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def insert(self, table: Table, values: dict[str, Any], key: list[str]) -> Executable:
        """Return an insert that changes all other columns of the row with the same key, if there is one."""
        made = sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)
        replaced = {name: made.excluded[name] for name in values if name not in key}
        return made.values(values).on_conflict_do_update(index_elements=key, set_=replaced)


def open_database(address: str) -> Database:
    """Return the database of a URL; nothing is connected yet."""
    url = _url(address)
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url,
            pool_size=_CONNECTIONS,
            max_overflow=_SPARE,
            pool_timeout=_SECONDS,
            connect_args={"timeout": _SECONDS, "check_same_thread": False},
        )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return Database(engine)
    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{_SECONDS}s",
        "statement_timeout": f"{3 * _SECONDS}s",
        "idle_in_transaction_session_timeout": f"{6 * _SECONDS}s",
    }
    return Database(
        create_engine(
            url,
            pool_size=_CONNECTIONS,
            max_overflow=_SPARE,
            pool_timeout=_SECONDS,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": _SECONDS,
                "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            },
        )
    )


def _url(address: str) -> URL:
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
    connection.isolation_level = None  # transactions begin where they are asked for, not where the driver guesses
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "recursive_triggers=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    if connection.get_execution_options().get("writing"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

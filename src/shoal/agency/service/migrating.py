"""Bringing a database to the version of the schema that this version of shoal needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from shoal.agency.service.database import MIGRATION_LOCK, Database, open_database
from shoal.agency.service.schema import metadata
from shoal.core.errors import InputError, UsageError

_SCRIPTS = Path(__file__).parent / "migrations"


def alembic_config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration; its commands work on the given connection."""
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def run_environment(context: Any) -> None:
    """Run what Alembic was asked for, all in one transaction."""
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


def migrate(database: Database) -> None:
    """Bring a database to the newest version; one that a later shoal made is refused and left as it is."""
    with telling_unreachable(database), database.writing() as connection:
        database.lock(connection, MIGRATION_LOCK)  # two that begin at once would both make the first table
        _refuse_unknown(connection)
        command.upgrade(alembic_config(connection), "head")


def check_migrated(database: Database) -> None:
    """Raise unless a database is at the newest version."""
    with telling_unreachable(database), database.reading() as connection:
        present = _refuse_unknown(connection)
    if present != _head():
        state = "has no tables yet" if present is None else "is of an older version"
        raise UsageError(f"the database {state}; run `shoal agency migrate` on it, or serve with --migrate")


def ready_database(address: str, *, migrating: bool) -> Database:
    """Open a database that is at the newest version, after migrating it if that was asked for or the file is new."""
    database = open_database(address)
    if _made(database) or migrating:
        migrate(database)
    else:
        check_migrated(database)
    return database


def _made(database: Database) -> bool:
    """Make the file of SQLite, for its owner's eyes only, if it is not there; say whether that was done."""
    path = database.engine.url.database
    if not database.is_sqlite or not path or Path(path).exists():
        return False
    with suppress(OSError):  # SQLite will say so
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return True


@contextmanager
def telling_unreachable(database: Database) -> Iterator[None]:
    """Turn errors of the driver into one that shows no address and no password."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"the package {error.name} is not installed; install shoal[agency,postgresql]") from None
    except SQLAlchemyError as error:
        kind = "file" if database.is_sqlite else "server"
        raise InputError(
            f"the database cannot be used ({type(error).__name__}); is its {kind} there, and may shoal write to it?"
        ) from None


def _head() -> str | None:
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def _refuse_unknown(connection: Connection) -> str | None:
    present = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    if present is not None and present not in known:
        raise UsageError("the database was made by a later version of shoal; update shoal")
    return present

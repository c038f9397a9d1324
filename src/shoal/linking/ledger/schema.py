"""The file of a ledger: a SQLite database to which rows are added, and whose rows are never changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shoal.core.errors import InputError, UsageError

APPLICATION = 0x53484F4C  # "SHOL", by which files of others are told apart
PATIENCE = 30.0  # seconds to wait for another run that is writing

FORM = 2  # of the tables; rows are sealed, so that those of another form cannot be brought to this one
TABLES = ("population", "limits", "entry", "piece", "settlement", "evaluation")
_TABLES = """
CREATE TABLE population (
    name TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    seal TEXT NOT NULL
) STRICT;
CREATE TABLE limits (
    number INTEGER PRIMARY KEY,
    population TEXT NOT NULL REFERENCES population (name),
    at TEXT NOT NULL,
    floor INTEGER NOT NULL CHECK (floor >= 1),
    warns INTEGER NOT NULL CHECK (warns IN (0, 1)),
    epsilon REAL CHECK (epsilon >= 0),
    delta REAL CHECK (delta >= 0),
    seal TEXT NOT NULL
) STRICT;
CREATE TABLE entry (
    number INTEGER PRIMARY KEY,
    population TEXT NOT NULL REFERENCES population (name),
    at TEXT NOT NULL,
    recipient TEXT NOT NULL,
    method TEXT NOT NULL,
    guarantees TEXT NOT NULL,
    sensitive TEXT NOT NULL,
    rows INTEGER NOT NULL,
    files TEXT NOT NULL,
    folder TEXT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('made', 'added')),
    version TEXT NOT NULL,
    terms TEXT NOT NULL,
    cost TEXT NOT NULL,
    previous TEXT NOT NULL,
    seal TEXT NOT NULL
) STRICT;
CREATE TABLE piece (
    entry INTEGER NOT NULL REFERENCES entry (number),
    name TEXT NOT NULL,
    place INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (entry, name, place)
) STRICT;
CREATE TABLE settlement (
    entry INTEGER PRIMARY KEY REFERENCES entry (number),
    at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('published', 'struck')),
    reason TEXT NOT NULL,
    seal TEXT NOT NULL
) STRICT;
CREATE TABLE evaluation (
    number INTEGER PRIMARY KEY,
    population TEXT NOT NULL REFERENCES population (name),
    at TEXT NOT NULL,
    releases TEXT NOT NULL,
    sensitive TEXT NOT NULL,
    attributes TEXT NOT NULL,
    basis TEXT NOT NULL CHECK (basis IN ('source', 'people', 'classes')),
    floor INTEGER NOT NULL,
    l INTEGER,
    people INTEGER NOT NULL,
    linked INTEGER NOT NULL,
    below INTEGER NOT NULL,
    exact INTEGER NOT NULL CHECK (exact IN (0, 1)),
    problem TEXT,
    belief REAL,
    promised TEXT,
    unkept INTEGER NOT NULL,
    accepted TEXT,
    seal TEXT NOT NULL
) STRICT;
"""
_REFUSED = "".join(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
    f"BEGIN SELECT RAISE (ABORT, 'what a ledger holds is never changed'); END;\n"
    for table in TABLES
    for verb in ("UPDATE", "DELETE")
)


@contextmanager
def connect(path: Path, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a ledger; every failure of the database becomes an error of shoal."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise UsageError(f"a ledger takes SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}")
    if create:
        _touch(path)
    elif not path.is_file():
        raise UsageError(f"there is no ledger {path}; `shoal anonymize --ledger` makes one")
    with explain_failures(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"  # also to read: what a killed run left is rolled back first
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA recursive_triggers = ON")  # else REPLACE would delete past the triggers
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")
            _bring_up(connection, path, create=create)
            yield connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing, alone."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def explain_failures(path: Path) -> Iterator[None]:
    """Turn a failure of the database into a message."""
    try:
        yield
    except sqlite3.Error as error:
        raise _message(path, error) from None
    except UnicodeDecodeError:
        raise ledger_error(path) from None


def _message(path: Path, error: sqlite3.Error) -> InputError | UsageError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return InputError(f"{path} is no ledger")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return UsageError(f"cannot read or write the ledger {path}; is there room on the disk?")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return UsageError(f"cannot write to the ledger {path} or to its folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UsageError(f"the ledger {path} is in use; try again")
    return ledger_error(path)


def ledger_error(path: Path) -> InputError:
    """Return the error for a ledger whose contents contradict themselves."""
    return InputError(f"the ledger {path} is spoiled: use a copy of it that is not, and find out what changed it")


def _touch(path: Path) -> None:
    """Make an empty file that only its owner can read, unless there is something already."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise UsageError(f"{path} is no file, so it is no ledger") from None
    except OSError as error:
        raise UsageError(f"cannot make the ledger {path}: {error.strerror}") from None


def _bring_up(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Make the tables in an empty file, and refuse files of others and of other forms."""
    version, application, tables = _state(connection)
    if application != APPLICATION and (application or version or tables or not create):
        raise InputError(f"{path} is no ledger")
    if application == APPLICATION and version != FORM:
        age = "a newer" if version > FORM else "an older"
        raise UsageError(
            f"{path} was written by {age} shoal (form {version}, this one has {FORM}); use that version, or enter "
            "its releases into a new ledger with `shoal ledger add`"
        )
    if application == APPLICATION:
        return
    with transaction(connection):
        if _state(connection)[0] == FORM:  # another run may have done it meanwhile
            return
        for statement in _statements(_TABLES + _REFUSED):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORM}")


def _state(connection: sqlite3.Connection) -> tuple[int, int, int]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return version, application, connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def _statements(script: str) -> Iterator[str]:
    """Return the statements of a script one by one: run as a whole, it would end the transaction first."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

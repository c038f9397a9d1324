"""A ledger: a SQLite file to which records are added, and in which records are never changed.

The module does not load linking, which only a run with a ledger needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import shoal
from shoal.core.errors import InputError, ShoalError, UsageError, did_you_mean
from shoal.core.results import Finding
from shoal.linking.ledger import records
from shoal.release.forms.base import Cost
from shoal.release.release import PUBLIC

NEW = 0  # the provisional number of a new release


@dataclass(frozen=True, slots=True)
class PopulationState:
    """The state of a population when a run linked its releases: if it has changed, the run must link again."""

    name: str
    releases: tuple[int, ...]
    limits: records.Limits | None  # None: the population is new


class Ledger:
    """An open ledger. Every record is checked against its seal, which includes the seal of the previous one."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, write: bool = False, create: bool = False) -> Iterator[Ledger]:
        """Open a ledger for reading or writing, or create it."""
        with connect(path, write=write or create, create=create) as connection:
            yield cls(connection, path)

    def populations(self) -> dict[str, records.Population]:
        """Return all populations by name, in order of creation."""
        return self._look()[0]

    def choose(self, asked: str | None) -> str:
        """Return the population: the one *asked* for, or the only one.

        A new name that differs from a known one only by case, spaces or separators is an error.
        """
        known = list(self.populations())
        if asked is not None:
            for name in known if asked not in known else ():
                if _fold(name) == _fold(asked):
                    raise UsageError(f"{self.path} has no population {asked!r}; did you mean {name!r}?")
            return asked
        if len(known) > 1:
            names = ", ".join(map(repr, known))
            raise UsageError(f"{self.path} has the populations {names}; say which one with --population")
        return known[0] if known else records.EVERYBODY

    def find_population(self, population: str) -> records.Population:
        """Return an existing population."""
        known = self.populations()
        if population not in known:
            raise UsageError(f"{self.path} has no population {population!r}{did_you_mean(population, known)}")
        return known[population]

    def entries(self, population: str | None = None) -> tuple[records.Entry, ...]:
        return tuple(entry for entry in self._look()[1] if population in (None, entry.population))

    def entry(self, number: int) -> records.Entry:
        found = [entry for entry in self.entries() if entry.number == number]
        if not found:
            raise UsageError(f"{self.path} has no release {number}; `shoal ledger show` lists them")
        return found[0]

    def evaluations(self, population: str | None = None) -> list[records.Evaluation]:
        """Return all evaluations in chronological order."""
        (rows,) = self._read("evaluation")
        return [_evaluation(row) for row in rows if population in (None, row["population"])]

    def look_at(self, population: str) -> PopulationState:
        """Return the present state of a population."""
        populations, entries = self._look()
        releases = tuple(entry.number for entry in entries if entry.population == population and entry.counts)
        return PopulationState(
            population, releases, populations[population].limits if population in populations else None
        )

    def unpack(self, entry: records.Entry, folder: Path) -> None:
        """Write the public files of a release into a folder; a file that differs from the one entered is an error."""
        for name, expected in entry.files.items():
            if Path(name).name != name:
                raise ledger_error(self.path)
            found = self._connection.execute(
                "SELECT content FROM piece WHERE entry = ? AND name = ? ORDER BY place", (entry.number, name)
            )
            if not records.unpack_file((row[0] for row in found), expected, folder / name):
                raise ledger_error(self.path)

    def enter(
        self,
        draft: dict[str, Any],
        packed: records.PackedFiles,
        seen: PopulationState,
        limits: records.Limits,
        evaluations: Sequence[records.Evaluation],
    ) -> records.Entry | None:
        """Add a release as unfinished, with its evaluations; None if the population is not as it was seen.

        *draft* has the entry's fields about the release itself.
        """
        with transaction(self._connection):
            if self.look_at(seen.name) != seen:
                return None
            if limits != seen.limits:
                self._add_limits(seen.name, limits)
            entered = {"population": seen.name, **draft, "files": packed.files, "version": shoal.__version__}
            number = self._add("entry", entered)
            pieces = ((number, name, *one) for name, each in packed.pieces.items() for one in enumerate(each))
            self._connection.executemany("INSERT INTO piece VALUES (?, ?, ?, ?)", pieces)
            for one in evaluations:
                self._add_evaluation(seen.name, one.renumber(number))
        return self.entry(number)

    def settle(self, number: int, status: records.Status, reason: str = "") -> None:
        """Record that an unfinished release was published, or that it never was."""
        with transaction(self._connection):
            entry = self.entry(number)
            if entry.status == status:
                return
            if entry.status != "unfinished":
                raise UsageError(f"release {number} is {entry.status}; only unfinished ones can be settled")
            self._add("settlement", {"entry": number, "status": status, "reason": reason})

    def set_limits(self, population: str, **changes: Any) -> records.Population:
        """Set limits of a population, which may be lower than before; limits that are not named stay as they are."""
        with transaction(self._connection):
            self._add_limits(population, replace(self.find_population(population).limits, **changes))
        return self.find_population(population)

    def add_evaluations(self, population: str, evaluations: Sequence[records.Evaluation]) -> None:
        with transaction(self._connection):
            for evaluation in evaluations:
                self._add_evaluation(population, evaluation)

    def check_pages(self) -> None:
        if self._connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            raise ledger_error(self.path)

    def _look(self) -> tuple[dict[str, records.Population], list[records.Entry]]:
        """Return all populations and all entries at one point in time."""
        limits, entries, settlements = self._read("limits", "entry", "settlement")
        changes: dict[str, tuple[records.Limits, ...]] = {}
        for row in limits:
            values = {name: value for name, value in row.items() if name not in ("number", "seal")}
            population = values.pop("population")
            changes[population] = (*changes.get(population, ()), records.Limits(**values))
        settled = {row["entry"]: row for row in settlements}
        found = [_entry(row, settled.pop(row["number"], None)) for row in entries]
        if settled or not {entry.population for entry in found} <= changes.keys():
            raise ledger_error(self.path)
        return {name: records.Population(name, each) for name, each in changes.items()}, found

    def _add_limits(self, population: str, limits: records.Limits) -> None:
        self._add("limits", {"population": population, **asdict(limits)})

    def _add_evaluation(self, population: str, evaluation: records.Evaluation) -> None:
        self._add("evaluation", {"population": population, **asdict(evaluation)})

    def _add(self, kind: str, content: dict[str, Any]) -> int:
        """Add a record with the current time, and return its number among the records of its kind."""
        asked = "SELECT number, seal FROM record WHERE kind = ? ORDER BY number DESC LIMIT 1"
        last, previous = self._connection.execute(asked, (kind,)).fetchone() or (0, "")
        text = json.dumps(content | {"at": records.now()}, ensure_ascii=False, separators=(",", ":"), default=repr)
        row = kind, last + 1, text, _seal(previous, kind, text)
        self._connection.execute("INSERT INTO record VALUES (?, ?, ?, ?)", row)
        return int(last) + 1

    def _read(self, *kinds: str) -> list[list[dict[str, Any]]]:
        """Return the records of some kinds, kind by kind."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        marks = ", ".join("?" * len(kinds))
        asked = f"SELECT * FROM record WHERE kind IN ({marks}) ORDER BY kind, number"  # noqa: S608
        for kind, number, content, seal in self._connection.execute(asked, kinds):
            before = found[kind]
            if number != len(before) + 1 or seal != _seal(before[-1]["seal"] if before else "", kind, content):
                raise ledger_error(self.path)
            before.append({**json.loads(content), "number": number, "seal": seal})
        return [found[kind] for kind in kinds]


def _fold(population: str) -> str:
    from shoal.linking.space import fold_name  # loads linking, which is not needed for a known name

    return fold_name(population)


def _seal(previous: str, *record: str) -> str:
    """Return the SHA-256 that reveals a changed, exchanged or removed record."""
    return hashlib.sha256(json.dumps([previous, *record]).encode()).hexdigest()


def _entry(row: dict[str, Any], settled: dict[str, Any] | None) -> records.Entry:
    end = settled or {"status": "unfinished", "at": None, "reason": ""}
    row |= {name: tuple(row[name]) for name in ("guarantees", "sensitive")}
    row["terms"] = records.Terms(**row["terms"])
    row["cost"] = None if row["cost"] is None else Cost(*row["cost"])
    row["files"] = {name: records.StoredFile(*file) for name, file in row["files"].items()}
    return records.Entry(**row, status=end["status"], settled=end["at"], reason=end["reason"])


def _evaluation(row: dict[str, Any]) -> records.Evaluation:
    values = {name: value for name, value in row.items() if name not in ("number", "seal", "population")}
    return records.Evaluation(**values | {name: tuple(row[name]) for name in ("releases", "attributes", "joined")})


@dataclass(slots=True)
class PendingEntry:
    """A context in which a release of the ledger is moved into place, and which settles its entry at the end.

    After an error, the entry is marked as never published unless the files are in place. Without a ledger, the context
    does nothing.
    """

    path: Path | None = None
    entry: records.Entry | None = None
    warnings: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unsettled: list[str] = field(default_factory=list)  # why a published release could not be marked as such

    def __enter__(self) -> PendingEntry:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.path is None or self.entry is None:
            return
        if kind is None:
            try:
                _settle(self.path, self.entry)
            except ShoalError as error:
                self.unsettled.append(
                    f"the release is in place, but the ledger does not list it as published ({error}); run `shoal "
                    "ledger check`, or `shoal ledger add` if it was struck"
                )
        else:
            with suppress(ShoalError, OSError):
                settle_by_folder(self.path, self.entry, "the run ended before anything was published")


def settle_by_folder(path: Path, entry: records.Entry, otherwise: str = "") -> bool:
    """Mark an unfinished release as published if its files are in place; else as struck, if a reason is given."""
    if records.same_files(Path(entry.folder) / PUBLIC, entry.files):
        _settle(path, entry)
        return True
    if otherwise:
        with Ledger.open(path, write=True) as ledger:
            ledger.settle(entry.number, "struck", otherwise)
    return False


def _settle(path: Path, entry: records.Entry) -> None:
    with Ledger.open(path, write=True) as ledger:
        ledger.settle(entry.number, "published")


APPLICATION = 0x53484F4C  # "SHOL", SQLite's mark for files of shoal
PATIENCE = 30.0  # seconds to wait for another run that is writing

FORM = 4  # version of the tables; rows are sealed, so they cannot be converted to another version
TABLES = {
    "record": "kind TEXT, number INTEGER, content TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (kind, number)",
    "piece": "entry INTEGER, name TEXT, place INTEGER, content BLOB NOT NULL, PRIMARY KEY (entry, name, place)",
}
_STATEMENTS = [f"CREATE TABLE {table} ({columns}) STRICT" for table, columns in TABLES.items()] + [
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
    "BEGIN SELECT RAISE (ABORT, 'what a ledger holds is never changed'); END"
    for table in TABLES
    for verb in ("UPDATE", "DELETE")
]


@contextmanager
def connect(path: Path, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a ledger; every failure of the database becomes an error of shoal."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise UsageError(f"a ledger takes SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}")
    if create:
        _touch(path)
    elif not path.is_file():
        raise UsageError(f"there is no ledger {path}; `shoal anonymize --ledger` creates one")
    with explain_failures(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"  # even for reading, to roll back the changes of a killed run
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA recursive_triggers = ON")  # without it, REPLACE deletes without a trigger
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")
            _bring_up(connection, path, create=create)
            # Seals reveal changed or exchanged records. A damaged page can hide the last records of a kind without a
            # gap, but then the table and its index differ.
            if connection.execute("PRAGMA integrity_check(record)").fetchall() != [("ok",)]:
                raise ledger_error(path)
            yield connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing, exclusively."""
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
    try:
        yield
    except sqlite3.Error as error:
        raise _message(path, error) from None
    except UnicodeDecodeError:
        raise ledger_error(path) from None


def _message(path: Path, error: sqlite3.Error) -> InputError | UsageError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return InputError(f"{path} is not a ledger")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return UsageError(f"cannot read or write the ledger {path}; is there room on the disk?")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return UsageError(f"cannot write to the ledger {path} or to its folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UsageError(f"the ledger {path} is in use; try again")
    return ledger_error(path)


def ledger_error(path: Path) -> InputError:
    """Return the error for a ledger whose contents are inconsistent."""
    return InputError(f"the ledger {path} is spoiled: restore an intact copy, and find out what changed it")


def _touch(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise UsageError(f"{path} is not a file, so it is not a ledger") from None
    except OSError as error:
        raise UsageError(f"cannot make the ledger {path}: {error.strerror}") from None


def _bring_up(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Create the tables in an empty file, and refuse files of other programs and versions."""
    version, application, tables = _state(connection)
    if application != APPLICATION and (application or version or tables or not create):
        raise InputError(f"{path} is not a ledger")
    if application == APPLICATION and version != FORM:
        age = "a newer" if version > FORM else "an older"
        raise UsageError(
            f"{path} was written by {age} version of shoal (form {version}, this one has {FORM}); use that version, or "
            "enter its releases into a new ledger with `shoal ledger add`"
        )
    if application == APPLICATION:
        return
    with transaction(connection):
        if _state(connection)[0] == FORM:  # another run may have created them in the meantime
            return
        for statement in _STATEMENTS:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORM}")


def _state(connection: sqlite3.Connection) -> tuple[int, int, int]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return version, application, connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]

"""A ledger: entries are added and settled, and nothing in it is ever changed.

It does not load linking, which only a run with a ledger needs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import shoal
from shoal.core.errors import ShoalError, UsageError, did_you_mean
from shoal.core.results import Finding
from shoal.linking.ledger.records import (
    EVERYBODY,
    Draft,
    Entry,
    Evaluation,
    Limits,
    Packed,
    Population,
    Status,
    StoredFile,
    Terms,
    now,
    same_files,
    unpack_file,
)
from shoal.linking.ledger.schema import connect, ledger_error, transaction
from shoal.release.forms.base import Cost
from shoal.release.release import PUBLIC

NEW = 0  # the number of a release that has none yet
_ENTRY = ("number", "population", "at", "recipient", "method", "rows", "folder", "origin", "version", "seal")
_LIMITS = tuple(one.name for one in fields(Limits))
_EVALUATION = tuple(one.name for one in fields(Evaluation) if one.name != "at")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run saw of a population when it linked: if it is not so any more, it must look again."""

    name: str
    releases: tuple[int, ...]
    limits: Limits | None  # None: there is no such population yet


class Ledger:
    """An open ledger; every row that is read is held against its seal."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, write: bool = False, create: bool = False) -> Iterator[Ledger]:
        """Open a ledger for reading, for writing, or make it if there is none."""
        with connect(path, write=write or create, create=create) as connection:
            yield cls(connection, path)

    def populations(self) -> dict[str, Population]:
        """Return all populations by name, in the order in which they came."""
        with self._snapshot():
            changes: dict[str, list[Limits]] = {row["name"]: [] for row in self._rows("population", "rowid")}
            limits = self._rows("limits", "number")
        for row in limits:
            if row["population"] not in changes:
                raise ledger_error(self.path)
            values = {name: row[name] for name in _LIMITS} | {"warns": bool(row["warns"])}
            changes[row["population"]].append(Limits(**values))
        if not all(changes.values()):
            raise ledger_error(self.path)
        return {name: Population(name, tuple(each)) for name, each in changes.items()}

    def choose(self, asked: str | None) -> str:
        """Return the population that is meant: the one asked for, or the only one."""
        known = list(self.populations())
        if asked is not None:
            return asked
        if len(known) > 1:
            names = ", ".join(map(repr, known))
            raise UsageError(f"{self.path} has the populations {names}; say which one with --population")
        return known[0] if known else EVERYBODY

    def find_population(self, population: str) -> Population:
        """Return a population that must be there."""
        known = self.populations()
        if population not in known:
            raise UsageError(f"{self.path} has no population {population!r}{did_you_mean(population, known)}")
        return known[population]

    def entries(self, population: str | None = None) -> tuple[Entry, ...]:
        """Return the entries in order, of one population or of all."""
        with self._snapshot():
            settled = {row["entry"]: row for row in self._rows("settlement", "entry")}
            rows = self._rows("entry", "number")
        found: list[Entry] = []
        previous = ""
        for number, row in enumerate(rows, start=1):
            if (row["number"], row["previous"]) != (number, previous):
                raise ledger_error(self.path)
            previous = row["seal"]
            found.append(_entry(row, settled.pop(number, None)))
        if settled:
            raise ledger_error(self.path)
        return tuple(entry for entry in found if population in (None, entry.population))

    def entry(self, number: int) -> Entry:
        """Return one entry."""
        found = [entry for entry in self.entries() if entry.number == number]
        if not found:
            raise UsageError(f"{self.path} has no release {number}; `shoal ledger show` lists them")
        return found[0]

    def evaluations(self, population: str | None = None) -> list[Evaluation]:
        """Return all evaluations in the order in which they were made."""
        rows = self._rows("evaluation", "number")
        return [_evaluation(row) for row in rows if population in (None, row["population"])]

    def look_at(self, population: str) -> Seen:
        """Return what there is about a population now."""
        with self._snapshot():
            known = self.populations().get(population)
            releases = tuple(entry.number for entry in self.entries(population) if entry.counts)
        return Seen(population, releases, None if known is None else known.limits)

    def unpack(self, entry: Entry, folder: Path) -> None:
        """Write the public files of a release into a folder; a file that is not as it was entered is an error."""
        for name, expected in entry.files.items():
            if Path(name).name != name:
                raise ledger_error(self.path)
            found = self._connection.execute(
                "SELECT content FROM piece WHERE entry = ? AND name = ? ORDER BY place", (entry.number, name)
            )
            if not unpack_file((row[0] for row in found), expected, folder / name):
                raise ledger_error(self.path)

    def enter(
        self, draft: Draft, packed: Packed, seen: Seen, limits: Limits, evaluations: Sequence[Evaluation]
    ) -> Entry | None:
        """Add a release as unfinished, with what was found of it; None if the population is not as it was seen."""
        with transaction(self._connection):
            if self.look_at(draft.population) != seen:
                return None
            if seen.limits is None:
                self._insert("population", {"name": draft.population, "at": now()})
            if limits != seen.limits:
                self._add_limits(draft.population, limits)
            number = self._add_entry(draft, packed)
            for one in evaluations:
                releases = tuple(sorted(each or number for each in one.releases))
                self._add_evaluation(draft.population, replace(one, releases=releases))
        return self.entry(number)

    def settle(self, number: int, status: Status, reason: str = "") -> None:
        """Say that an unfinished release was published, or that it never was."""
        with transaction(self._connection):
            entry = self.entry(number)
            if entry.status == status:
                return
            if entry.status != "unfinished":
                raise UsageError(f"release {number} is {entry.status}; only unfinished ones can be settled")
            values = {"entry": number, "at": now(), "status": status, "reason": reason}
            self._insert("settlement", values)

    def set_limits(self, population: str, **changes: Any) -> Population:
        """Set what releases about a population are held to, to less too; what is not named stays as it is."""
        with transaction(self._connection):
            self._add_limits(population, replace(self.find_population(population).limits, **changes))
        return self.find_population(population)

    def add_evaluations(self, population: str, evaluations: Sequence[Evaluation]) -> None:
        """Keep what was found anew."""
        with transaction(self._connection):
            for evaluation in evaluations:
                self._add_evaluation(population, evaluation)

    def check_pages(self) -> None:
        """Raise if the database itself is damaged."""
        if self._connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            raise ledger_error(self.path)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read several tables as they are at one time."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _add_limits(self, population: str, limits: Limits) -> None:
        values = {name: getattr(limits, name) for name in _LIMITS} | {"warns": int(limits.warns), "at": now()}
        self._insert("limits", {"number": self._next("limits"), "population": population, **values})

    def _add_entry(self, draft: Draft, packed: Packed) -> int:
        entries = self.entries()
        number = len(entries) + 1
        files = {name: [file.size, file.sha256] for name, file in packed.files.items()}
        values = {
            "number": number,
            "population": draft.population,
            "at": now(),
            "recipient": draft.recipient,
            "method": str(draft.manifest["method"]),
            "guarantees": _json(draft.manifest["guarantees"]),
            "sensitive": _json(draft.sensitive),
            "rows": int(draft.manifest["rows"]),
            "files": _json(files),
            "folder": draft.folder,
            "origin": draft.origin,
            "version": shoal.__version__,
            "terms": _json(asdict(draft.terms)),
            "cost": _json(draft.cost),
            "previous": entries[-1].seal if entries else "",
        }
        self._insert("entry", values)
        pieces = [
            (number, name, place, content) for name, each in packed.pieces.items() for place, content in enumerate(each)
        ]
        self._connection.executemany("INSERT INTO piece VALUES (?, ?, ?, ?)", pieces)
        return number

    def _add_evaluation(self, population: str, evaluation: Evaluation) -> None:
        values = {name: getattr(evaluation, name) for name in _EVALUATION}
        values |= {name: _json(values[name]) for name in ("releases", "attributes")} | {"exact": int(evaluation.exact)}
        head = {"number": self._next("evaluation"), "population": population, "at": now()}
        self._insert("evaluation", head | values)

    def _next(self, table: str) -> int:
        found = self._connection.execute(f"SELECT coalesce(max(number), 0) + 1 FROM {table}").fetchone()  # noqa: S608
        return int(found[0])

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        row = [*values.values(), _seal(table, values)]
        marks = ", ".join("?" * len(row))
        self._connection.execute(f"INSERT INTO {table} ({', '.join(values)}, seal) VALUES ({marks})", row)  # noqa: S608

    def _rows(self, table: str, order: str) -> list[dict[str, Any]]:
        cursor = self._connection.execute(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
        for row in rows:
            if row.get("seal") != _seal(table, {name: value for name, value in row.items() if name != "seal"}):
                raise ledger_error(self.path)
        return rows


def _seal(table: str, values: dict[str, Any]) -> str:
    """Return the SHA-256 of a row, by which a row that was changed is found."""
    return hashlib.sha256(_json([table, values]).encode()).hexdigest()


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=repr)


def _entry(row: dict[str, Any], settled: dict[str, Any] | None) -> Entry:
    end = settled or {"status": "unfinished", "at": None, "reason": ""}
    return Entry(
        **{name: row[name] for name in _ENTRY},
        guarantees=tuple(json.loads(row["guarantees"])),
        sensitive=tuple(json.loads(row["sensitive"])),
        terms=Terms(**json.loads(row["terms"])),
        cost=None if (cost := json.loads(row["cost"])) is None else Cost(*cost),
        files={name: StoredFile(*file) for name, file in json.loads(row["files"]).items()},
        status=end["status"],
        settled=end["at"],
        reason=end["reason"],
    )


def _evaluation(row: dict[str, Any]) -> Evaluation:
    values = {name: row[name] for name in (*_EVALUATION, "at")}
    values |= {name: tuple(json.loads(row[name])) for name in ("releases", "attributes")} | {
        "exact": bool(row["exact"])
    }
    return Evaluation(**values)


@dataclass(slots=True)
class Entered:
    """A release in the ledger that is about to be put in place: a context that settles its entry at the end.

    After an error it looks whether the files are in place, and says that they never were if they are not. Without a
    ledger it does nothing.
    """

    path: Path | None = None
    entry: Entry | None = None
    warnings: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unsettled: list[str] = field(default_factory=list)  # why a published release could not be marked

    def __enter__(self) -> Entered:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.path is None or self.entry is None:
            return
        if kind is None:
            try:
                _settle(self.path, self.entry)
            except ShoalError as error:
                self.unsettled.append(
                    f"the release is in place, but the ledger does not have it as published ({error}); `shoal ledger "
                    "check` settles that, or `shoal ledger add` if it was struck"
                )
        else:
            with suppress(ShoalError, OSError):
                settle_by_folder(self.path, self.entry, "the run ended before anything was published")


def settle_by_folder(path: Path, entry: Entry, otherwise: str = "") -> bool:
    """Mark an unfinished release as published if its files are in place; else as struck, if there is a reason."""
    if same_files(Path(entry.folder) / PUBLIC, entry.files):
        _settle(path, entry)
        return True
    if otherwise:
        with Ledger.open(path, write=True) as ledger:
            ledger.settle(entry.number, "struck", otherwise)
    return False


def _settle(path: Path, entry: Entry) -> None:
    with Ledger.open(path, write=True) as ledger:
        ledger.settle(entry.number, "published")

"""What is in a ledger, as values: options, populations, entries with their files, and what sets of releases leave."""

from __future__ import annotations

import datetime
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shoal.core.errors import InputError, UsageError
from shoal.core.results import Figures
from shoal.sources.base import file_digest

Status = Literal["unfinished", "published", "struck"]
Basis = Literal["source", "people", "classes"]
Origin = Literal["made", "added"]
PIECE = 2**20  # bytes of a file that are compressed together
_LEVEL = 3
EVERYBODY = "everybody"  # the population of ledgers in which nobody named one
DEFAULT_FLOOR = 2
MOST_FLOOR = 2**31
_LONGEST = 500  # characters of a name


def now() -> str:
    """Return the time in UTC, as a ledger writes it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class FloorChange:
    """The floor of a population from some time on, and whether a release below it is warned of or refused."""

    at: str
    floor: int
    warns: bool


@dataclass(frozen=True, slots=True)
class Population:
    """People about whom releases are made; *changes* has the floors that were set, the one that holds last."""

    name: str
    changes: tuple[FloorChange, ...]

    @property
    def floor(self) -> int:
        """The fewest sensitive values that releases may leave to anybody together."""
        return self.changes[-1].floor

    @property
    def warns(self) -> bool:
        """Whether releases below the floor are published with a warning."""
        return self.changes[-1].warns


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A public file of a release: its size and the SHA-256 of its bytes."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A release that shall be entered."""

    population: str
    recipient: str
    manifest: Mapping[str, Any]
    folder: str
    origin: Origin

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The sensitive attributes of the release."""
        entries = self.manifest["attributes"].items()
        return tuple(name for name, entry in entries if entry["role"] == "sensitive")


@dataclass(frozen=True, slots=True)
class Entry:
    """A release in the ledger; one that is unfinished counts as published."""

    number: int
    population: str
    at: str
    recipient: str
    method: str
    guarantees: tuple[Mapping[str, Any], ...]
    sensitive: tuple[str, ...]
    rows: int
    files: Mapping[str, StoredFile]
    folder: str
    origin: Origin
    version: str
    seal: str
    status: Status
    settled: str | None
    reason: str

    @property
    def counts(self) -> bool:
        """Whether somebody may have this release."""
        return self.status != "struck"

    @property
    def title(self) -> str:
        """The release as messages name it: number, day, recipient, and whether it is known to be published."""
        recipient = f", to {self.recipient}" if self.recipient else ""
        unfinished = ", unfinished" if self.status == "unfinished" else ""
        return f"release {self.number} ({self.at[:10]}{recipient}{unfinished})"


@dataclass(frozen=True, slots=True)
class Evaluation(Figures):
    """What a set of releases together leaves of one sensitive attribute, to whoever is in all of them.

    By *source* or *people* it is so for the rows of the newest release's source or of a given table, exactly; by
    *classes* for whoever can be, and nobody is left with less. ``l`` is None if nobody can be in all of them, and
    if there is a *problem*, so that nothing is known.
    """

    releases: tuple[int, ...]
    sensitive: str
    attributes: tuple[str, ...]  # what somebody was taken to know of a person
    basis: Basis
    floor: int
    l: int | None
    people: int
    linked: int
    below: int | None  # None: at this floor it was not counted
    exact: bool
    problem: str | None = None
    at: str = ""

    @property
    def fails(self) -> bool:
        """Whether the set is below the floor, or not known not to be."""
        return self.problem is not None or (self.l is not None and self.l < self.floor)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        stated = Figures.as_dict(self)
        return stated | {"people_linked": stated.pop("linked"), "people_below": stated.pop("below")}


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A public folder as a ledger keeps it."""

    files: Mapping[str, StoredFile]
    pieces: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, public: Path) -> Packed:
        """Read all files of a public folder."""
        files: dict[str, StoredFile] = {}
        pieces: dict[str, list[bytes]] = {}
        for path in sorted(public.iterdir()):
            digest, size = hashlib.sha256(), 0
            pieces[path.name] = []
            try:
                with path.open("rb") as file:
                    while content := file.read(PIECE):
                        digest.update(content)
                        size += len(content)
                        pieces[path.name].append(zlib.compress(content, _LEVEL))
            except OSError as error:
                raise InputError(f"cannot read {path.name}: {error.strerror}") from None
            files[path.name] = StoredFile(size, digest.hexdigest())
        return cls(files, pieces)


def digest_files(public: Path) -> dict[str, StoredFile]:
    """Return the sizes and digests of a folder's files."""
    return {path.name: StoredFile(path.stat().st_size, file_digest(path)) for path in public.iterdir()}


def same_files(public: Path, files: Mapping[str, StoredFile]) -> bool:
    """Whether a folder has just these files, byte by byte."""
    try:
        return digest_files(public) == files
    except OSError:
        return False


def unpack_file(pieces: Iterator[bytes], expected: StoredFile, path: Path) -> bool:
    """Write a file out of its pieces; false if it does not come out as it went in."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            reader = zlib.decompressobj()
            try:
                content = reader.decompress(piece, PIECE)
            except (zlib.error, TypeError):  # no bytes at all, if the database itself is spoiled
                return False
            digest.update(content)
            size += len(content)
            file.write(content)
    return size == expected.size and digest.hexdigest() == expected.sha256


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """A release is entered into the ledger at *path*, after it was linked with earlier ones about its population.

    *floor* sets or raises the fewest sensitive values that releases may leave to anybody together; with *warn* a
    release that falls below it is published all the same.
    """

    path: Path
    population: str | None = None
    recipient: str = ""
    floor: int | None = None
    warn: bool = False

    def __post_init__(self) -> None:
        if self.population is not None:
            check_name("population", self.population)
        if self.recipient:
            check_name("recipient", self.recipient)
        if self.floor is not None:
            check_floor(self.floor)


Ledgered: TypeAlias = "str | Path | LedgerOptions | None"


def ledger_options(given: Ledgered) -> LedgerOptions | None:
    """Return the options for a ledger that is given as a path or with options; None for none."""
    if given is None or isinstance(given, LedgerOptions):
        return given
    return LedgerOptions(Path(given))


def check_name(what: str, name: str) -> None:
    """Raise unless a name can be read in one line."""
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > _LONGEST:
        raise UsageError(f"a {what} is one line of 1 to {_LONGEST} printable characters, without space around it")


def check_floor(floor: int) -> None:
    """Raise unless a floor is a number of values."""
    if not 1 <= floor <= MOST_FLOOR:
        raise UsageError(f"the floor is a number of values, at least 1; received {floor}")

"""What is in a ledger, as values: options, populations, entries with their files, and what sets of releases leave."""

from __future__ import annotations

import datetime
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.core.results import UNLINKED, Figures
from shoal.models.exact import fraction
from shoal.policy.policy import Policy
from shoal.release.forms.base import Cost
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
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Limits(Figures):
    """What releases about a population are held to from some time on.

    *floor* is the fewest sensitive values that they may leave to anybody together. Differentially private ones may
    spend *epsilon* and *delta* in all; None: a budget was not set, and the first of them has spent it. A release that
    keeps to less is refused, or published with a warning if the ledger *warns*.
    """

    floor: int = DEFAULT_FLOOR
    warns: bool = False
    epsilon: float | None = None
    delta: float | None = None
    at: str = ""


@dataclass(frozen=True, slots=True)
class Population:
    """People about whom releases are made; *changes* has the limits that were set, those that hold last."""

    name: str
    changes: tuple[Limits, ...]

    @property
    def limits(self) -> Limits:
        """What releases are held to now."""
        return self.changes[-1]


@dataclass(frozen=True, slots=True)
class Spending(Figures):
    """What the differentially private releases about a population cost together, by basic composition, exactly."""

    epsilon: float
    delta: float
    over: bool  # whether that is more than the budget has; if none was set, the first of them has spent it
    budget: tuple[float, float] | None

    @classmethod
    def of(cls, costs: Sequence[Cost | None], limits: Limits) -> Spending:
        """Add up what releases cost, as decimal numbers."""
        known = [cost for cost in costs if cost is not None]
        epsilon, delta = (sum((fraction(cost[place]) for cost in known), Fraction(0)) for place in (0, 1))
        if limits.epsilon is None:
            return cls(float(epsilon), float(delta), len(known) > 1, None)
        budget = limits.epsilon, limits.delta or 0.0
        over = epsilon > fraction(budget[0]) or delta > fraction(budget[1])
        return cls(float(epsilon), float(delta), over, budget)

    @property
    def text(self) -> str:
        """What is spent, beside the budget."""
        have = "no budget was set, so the first release spent it"
        if self.budget is not None:
            have = f"the budget is epsilon {self.budget[0]:g} and delta {self.budget[1]:g}"
        return f"all differentially private releases cost epsilon {self.epsilon:g} and delta {self.delta:g}, and {have}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a policy says of a release that only the ledger needs."""

    same_as: Mapping[str, str] = field(default_factory=dict)  # column -> what earlier releases call it
    accepted: Mapping[str, str] = field(default_factory=dict)  # column, "" for people -> why it need not be linked

    @classmethod
    def of(cls, policy: Policy, renamed: Mapping[str, str] | None = None) -> Terms:
        """Read a policy; what was *renamed* beside it must be columns that it has."""
        if unknown := [name for name in renamed or {} if name not in policy.attributes]:
            hint = did_you_mean(unknown[0], policy.attributes)
            raise UsageError(f"same_as names {unknown[0]!r}, which is not a column of the release{hint}")
        same_as = {name: each.same_as for name, each in policy.attributes.items() if each.same_as is not None}
        same_as.update(renamed or {})
        accepted = [one for one in policy.accept if one.finding == UNLINKED]
        return cls(same_as, {name: one.reason for one in accepted for name in one.about or ("",)})


class StoredFile(NamedTuple):
    """A public file of a release: its size and the SHA-256 of its bytes."""

    size: int
    sha256: str


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
    terms: Terms
    cost: Cost | None
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
    *classes* for whoever can be, and nobody is left with less. ``l`` is None if nobody can be in all of them, or if a
    *problem* keeps it from being known. ``belief`` is the most that is believed of anybody to have one value, where
    something is *promised* about shares; to ``unkept`` people that is not kept. Subtracting classes of one release from
    classes of another leaves ``exposed`` people with too little, and at worst with ``difference`` values.

    If *sensitive* is empty, ``l`` is the fewest people who share the classes of all releases, ``floor`` the size that
    these guarantee, and ``alone`` the people who share them with no one; records were also *joined* by columns.
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
    belief: float | None = None
    promised: str | None = None
    unkept: int = 0
    exposed: int = 0
    difference: int | None = None
    alone: int = 0
    joined: tuple[str, ...] = ()
    accepted: str | None = None  # why it need not be linked
    at: str = ""

    def renumber(self, number: int) -> Evaluation:
        """Return it with the number that the newest release has got."""
        return replace(self, releases=tuple(each or number for each in self.releases))

    @property
    def unlinked(self) -> bool:
        """Whether the releases could not be linked, or nobody was found in both of two."""
        return self.problem is not None or (self.l is None and len(self.releases) == 2)

    @property
    def leaves_little(self) -> bool:
        """Whether the set is below the floor, or does not keep what was promised."""
        return self.unkept > 0 or self.exposed > 0 or (self.l is not None and self.l < self.floor)

    @property
    def fails(self) -> bool:
        """Whether the set leaves too little, or is not known not to, which nobody accepts."""
        return self.leaves_little or (self.unlinked and self.accepted is None)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        stated = Figures.as_dict(self)
        return stated | {
            f"people_{name}": stated.pop(name) for name in ("linked", "below", "unkept", "exposed", "alone")
        }


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A public folder as a ledger keeps it."""

    files: Mapping[str, StoredFile]
    pieces: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, public: Path) -> Packed:
        """Read all files of a public folder."""
        pieces: dict[str, list[bytes]] = {}
        for path in sorted(public.iterdir()):
            try:
                with path.open("rb") as file:
                    read = iter(partial(file.read, PIECE), b"")
                    pieces[path.name] = [zlib.compress(content, _LEVEL) for content in read]
            except OSError as error:
                raise InputError(f"cannot read {path.name}: {error.strerror}") from None
        return cls(digest_files(public), pieces)


def digest_files(public: Path) -> dict[str, StoredFile]:
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
    release that falls below it is published all the same. Earlier releases may call columns what *same_as* says, beside
    what the policy says of that.
    """

    path: Path
    population: str | None = None
    recipient: str = ""
    floor: int | None = None
    warn: bool = False
    same_as: Mapping[str, str] = field(default_factory=dict)

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
    if not 1 <= floor <= MOST_FLOOR:
        raise UsageError(f"the floor is a number of values, at least 1; received {floor}")

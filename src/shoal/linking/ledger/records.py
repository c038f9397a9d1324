"""The records of a ledger: options, populations, entries with their files, and evaluations of sets of releases."""

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
EVERYBODY = "everybody"  # the default population
DEFAULT_FLOOR = 2
MOST_FLOOR = 2**31
_LONGEST = 500  # characters of a name


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Limits(Figures):
    """The limits for releases about a population from some time on.

    *floor* is the minimum number of sensitive values that releases together may leave to a person. Differentially
    private ones may spend *epsilon* and *delta* in total; without a budget, the first of them has spent it. A release
    that violates a limit is refused, or published with a warning if the ledger *warns*.
    """

    floor: int = DEFAULT_FLOOR
    warns: bool = False
    epsilon: float | None = None
    delta: float | None = None
    at: str = ""


@dataclass(frozen=True, slots=True)
class Population:
    """The people of several releases; *changes* has all limits that were set, the valid ones last."""

    name: str
    changes: tuple[Limits, ...]

    @property
    def limits(self) -> Limits:
        return self.changes[-1]


@dataclass(frozen=True, slots=True)
class Spending(Figures):
    """The total cost of the differentially private releases about a population, by basic composition, exactly."""

    epsilon: float
    delta: float
    over: bool  # whether it exceeds the budget; without a budget, the first release has spent it
    budget: tuple[float, float] | None

    @classmethod
    def of(cls, costs: Sequence[Cost | None], limits: Limits) -> Spending:
        """Add up the costs of releases as decimal numbers."""
        known = [cost for cost in costs if cost is not None]
        epsilon, delta = (sum((fraction(cost[place]) for cost in known), Fraction(0)) for place in (0, 1))
        if limits.epsilon is None:
            return cls(float(epsilon), float(delta), len(known) > 1, None)
        budget = limits.epsilon, limits.delta or 0.0
        over = epsilon > fraction(budget[0]) or delta > fraction(budget[1])
        return cls(float(epsilon), float(delta), over, budget)

    @property
    def text(self) -> str:
        """The cost and the budget."""
        have = "no budget was set, so the first release spent it"
        if self.budget is not None:
            have = f"the budget is epsilon {self.budget[0]:g} and delta {self.budget[1]:g}"
        return f"all differentially private releases cost epsilon {self.epsilon:g} and delta {self.delta:g}, and {have}"


@dataclass(frozen=True, slots=True)
class Terms:
    """The statements of a policy about a release that only the ledger needs."""

    same_as: Mapping[str, str] = field(default_factory=dict)  # column -> its name in earlier releases
    accepted: Mapping[str, str] = field(default_factory=dict)  # column, "" for people -> why it need not be linked

    @classmethod
    def of(cls, policy: Policy, renamed: Mapping[str, str] | None = None) -> Terms:
        """Read a policy; the *renamed* columns must be in it."""
        if unknown := [name for name in renamed or {} if name not in policy.attributes]:
            hint = did_you_mean(unknown[0], policy.attributes)
            raise UsageError(f"same_as names {unknown[0]!r}, which is not a column of the release{hint}")
        same_as = {name: each.same_as for name, each in policy.attributes.items() if each.same_as is not None}
        same_as.update(renamed or {})
        accepted = [one for one in policy.accept if one.finding == UNLINKED]
        return cls(same_as, {name: one.reason for one in accepted for name in one.about or ("",)})


class StoredFile(NamedTuple):
    """The size and SHA-256 of a public file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A release in the ledger; an unfinished one counts as published."""

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
        """Whether a recipient may have this release."""
        return self.status != "struck"

    @property
    def title(self) -> str:
        """The release in messages: number, day, recipient, and whether it is unfinished."""
        recipient = f", to {self.recipient}" if self.recipient else ""
        unfinished = ", unfinished" if self.status == "unfinished" else ""
        return f"release {self.number} ({self.at[:10]}{recipient}{unfinished})"


@dataclass(frozen=True, slots=True)
class Evaluation(Figures):
    """The values of one sensitive attribute that a set of releases leaves to people in all of them.

    With the basis *source* or *people* it is exact for the rows of the newest release's source or of a given table;
    with *classes* it is a lower bound for all possible people. ``l`` is None if no person can be in all of them, or if
    a *problem* prevented the evaluation. If shares are *promised*, ``belief`` is the largest probability of one value
    for any person, and ``unkept`` counts the people for whom the guarantee is violated. Subtracting classes of one
    release from classes of another leaves ``exposed`` people with too few values, and ``difference`` in the worst case.

    If *sensitive* is empty, ``l`` is the minimum number of people who share the classes of all releases, ``floor`` the
    class size that these guarantee, and ``alone`` the number of people who share them with no one; records were also
    *joined* by columns.
    """

    releases: tuple[int, ...]
    sensitive: str
    attributes: tuple[str, ...]  # that an adversary is assumed to know
    basis: Basis
    floor: int
    l: int | None
    people: int
    linked: int
    below: int | None  # None: not counted for this floor
    exact: bool
    problem: str | None = None
    belief: float | None = None
    promised: str | None = None
    unkept: int = 0
    exposed: int = 0
    difference: int | None = None
    alone: int = 0
    joined: tuple[str, ...] = ()
    accepted: str | None = None  # the reason if the owner accepts that it is not linked
    at: str = ""

    def renumber(self, number: int) -> Evaluation:
        """Replace the provisional number of the newest release."""
        return replace(self, releases=tuple(each or number for each in self.releases))

    @property
    def unlinked(self) -> bool:
        """Whether the releases could not be linked, or no person was found in both of two."""
        return self.problem is not None or (self.l is None and len(self.releases) == 2)

    @property
    def leaves_little(self) -> bool:
        """Whether the set is below the floor, or violates a guarantee."""
        return self.unkept > 0 or self.exposed > 0 or (self.l is not None and self.l < self.floor)

    @property
    def fails(self) -> bool:
        """Whether the set violates a limit, or could not be linked without being accepted."""
        return self.leaves_little or (self.unlinked and self.accepted is None)

    def as_dict(self) -> dict[str, object]:
        stated = Figures.as_dict(self)
        return stated | {
            f"people_{name}": stated.pop(name) for name in ("linked", "below", "unkept", "exposed", "alone")
        }


@dataclass(frozen=True, slots=True, eq=False)
class PackedFiles:
    """A public folder as a ledger stores it."""

    files: Mapping[str, StoredFile]
    pieces: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, public: Path) -> PackedFiles:
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
    """Whether a folder has exactly these files."""
    try:
        return digest_files(public) == files
    except OSError:
        return False


def unpack_file(pieces: Iterator[bytes], expected: StoredFile, path: Path) -> bool:
    """Write a file from its pieces; return whether it has the expected digest."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            reader = zlib.decompressobj()
            try:
                content = reader.decompress(piece, PIECE)
            except (zlib.error, TypeError):  # other types occur if the database itself is damaged
                return False
            digest.update(content)
            size += len(content)
            file.write(content)
    return size == expected.size and digest.hexdigest() == expected.sha256


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """A release is entered into the ledger at *path*, after it was linked with earlier ones about its population.

    *floor* sets or raises the number of sensitive values that releases together must leave to a person; with *warn*, a
    release below it is published nevertheless. *same_as* has the names of columns in earlier releases, in addition to
    the policy's.
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
    """Return the options of a ledger that is given by its path or by options; None for None."""
    if given is None or isinstance(given, LedgerOptions):
        return given
    return LedgerOptions(Path(given))


def check_name(what: str, name: str) -> None:
    """Raise unless a name is a single printable line."""
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > _LONGEST:
        raise UsageError(f"a {what} is one line of 1 to {_LONGEST} printable characters, without spaces around it")


def check_floor(floor: int) -> None:
    if not 1 <= floor <= MOST_FLOOR:
        raise UsageError(f"the floor is a number of values, at least 1; received {floor}")

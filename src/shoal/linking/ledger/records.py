"""What is in a ledger, as values: populations, entries, and what sets of releases leave."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["unfinished", "published", "struck"]
Basis = Literal["source", "people", "classes"]
Origin = Literal["made", "added"]


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
    def told(self) -> str:
        """The release as messages name it: number, day, recipient, and whether it is known to be published."""
        recipient = f", to {self.recipient}" if self.recipient else ""
        unfinished = ", unfinished" if self.status == "unfinished" else ""
        return f"release {self.number} ({self.at[:10]}{recipient}{unfinished})"


@dataclass(frozen=True, slots=True)
class Evaluation:
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
        return {
            "releases": list(self.releases),
            "sensitive": self.sensitive,
            "attributes": list(self.attributes),
            "basis": self.basis,
            "floor": self.floor,
            "l": self.l,
            "people": self.people,
            "people_linked": self.linked,
            "people_below": self.below,
            "exact": self.exact,
            "problem": self.problem,
            "at": self.at,
        }

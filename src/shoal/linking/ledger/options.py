"""What a run says to the ledger: where it is, about whom the release is, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from shoal.core.errors import UsageError

EVERYBODY = "everybody"  # the population of ledgers in which nobody named one
DEFAULT_FLOOR = 2
MOST_FLOOR = 2**31
_LONGEST = 500  # characters of a name


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

"""Entering a release: linked with all earlier ones, written down, put in place, and marked as published."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.core.progress import Progress
from shoal.linking.ledger.book import NEW, Ledger, Seen
from shoal.linking.ledger.evaluating import Finding, Held, Question, evaluate
from shoal.linking.ledger.files import Packed
from shoal.linking.ledger.options import DEFAULT_FLOOR, EVERYBODY, LedgerOptions
from shoal.linking.ledger.records import Draft, Entry, Origin
from shoal.linking.ledger.settling import Entered
from shoal.linking.ledger.wording import notes, refusal, warnings
from shoal.linking.refusing import not_for_ledgers
from shoal.release.release import received
from shoal.sources.base import Source

_ATTEMPTS = 20  # to write an entry while others write theirs


def check_ledger(options: LedgerOptions, destination: Path | None) -> None:
    """Raise before work begins if a release could not be entered."""
    if destination is None:
        raise UsageError("a ledger is for releases that are written; give a folder for this one, or no ledger")
    if _absent(options.path):
        parent = options.path.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UsageError(f"cannot make the ledger {options.path}: its folder is not there, or not to be written to")
        return
    with Ledger.open(options.path, write=True) as ledger:
        _floor(options, ledger.seen(ledger.chosen(options.population)))


def entered(options: LedgerOptions, public: Path, destination: Path, people: Source, progress: Progress) -> Entered:
    """Link a verified release, which waits at *public*, with the earlier ones about its population, and enter it.

    *people* are the rows that it was made of. If any set of releases that it is in leaves less than the floor to
    anybody, it is refused, or entered with a warning where the ledger or the options say so. The context that comes
    back must hold the moving to *destination*.
    """
    try:
        return enter(options, held(NEW, public), destination, people, "made", progress)
    except UnreachableError:
        raise
    except ShoalError as error:
        raise type(error)(f"{error}; nothing was published") from None


def enter(
    options: LedgerOptions, release: Held, destination: Path, people: Source | None, origin: Origin, progress: Progress
) -> Entered:
    """Enter a release; one that was *added* exists already and is refused only if nothing can be linked with it."""
    reason = not_for_ledgers(release.manifest)
    if reason is not None:
        raise InputError(f"the release cannot be entered into a ledger: {reason}")
    packed = Packed.of(release.folder)
    folder = os.fsencode(destination.absolute()).decode("utf-8", "replace")
    with shelf() as unpacked:
        for _ in range(_ATTEMPTS):
            seen, known, earlier, releases = _looked(options, unpacked)
            floor = _floor(options, seen)
            draft = Draft(seen.name, options.recipient, release.manifest, folder, origin)
            findings = evaluate(Question([*releases, release], floor, NEW, people), progress)
            failing = any(finding.failing for finding in findings)
            if failing and origin == "made" and not (options.warn or seen.warns):
                raise UnreachableError(refusal(findings, earlier, seen.name))
            said = [*warnings(findings, earlier), *notes(draft, findings, earlier, known)]
            evaluations = [each for finding in findings for each in finding.evaluations]
            with Ledger.open(options.path, create=True) as ledger:
                entry = ledger.enter(draft, packed, seen, floor, evaluations)
            if entry is not None:
                return Entered(options.path, entry, said, _evidence(entry, floor, findings, earlier))
    raise UsageError(f"other runs keep writing to {options.path}; try again")


def _absent(path: Path) -> bool:
    """Whether there is no ledger yet, or one that another run is about to make."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _looked(options: LedgerOptions, unpacked: Shelf) -> tuple[Seen, list[str], list[Entry], list[Held]]:
    """Return the population as it is now, the names of all, and its releases."""
    if _absent(options.path):
        return Seen(options.population or EVERYBODY, (), None, False), [], [], []
    with Ledger.open(options.path, write=True) as ledger:
        seen = ledger.seen(ledger.chosen(options.population))
        earlier = [entry for entry in ledger.entries(seen.name) if entry.number in seen.releases]
        return seen, list(ledger.populations()), earlier, [unpacked.held(ledger, entry) for entry in earlier]


def _floor(options: LedgerOptions, seen: Seen) -> int:
    """Return the floor that holds for a release: that of the population, unless it is raised."""
    if options.floor is None:
        return DEFAULT_FLOOR if seen.floor is None else seen.floor
    if seen.floor is not None and options.floor < seen.floor:
        raise UsageError(
            f"the floor of {seen.name!r} is {seen.floor}, and only `shoal ledger floor` lowers it; received "
            f"--floor {options.floor}"
        )
    return options.floor


def _evidence(entry: Entry, floor: int, findings: list[Finding], earlier: list[Entry]) -> dict[str, Any]:
    """Return what the evidence says of the ledger."""
    numbered = [
        replace(
            finding,
            evaluations=tuple(
                replace(each, releases=tuple(sorted(number or entry.number for number in each.releases)))
                for each in finding.evaluations
            ),
        )
        for finding in findings
    ]
    return {
        "ledger": {
            "number": entry.number,
            "population": entry.population,
            "recipient": entry.recipient,
            "floor": floor,
            "earlier": [each.number for each in earlier],
            "linked": [finding.as_dict() for finding in numbered],
        }
    }


class Shelf:
    """A folder that only its owner can read, with the public files of the releases that were asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, Held] = {}

    def held(self, ledger: Ledger, entry: Entry) -> Held:
        """Return a release of the ledger, unpacked once."""
        if entry.number not in self._held:
            folder = self._folder / str(entry.number)
            try:
                folder.mkdir()
                ledger.unpack(entry, folder)
            except OSError as error:
                raise UsageError(f"cannot unpack a release of the ledger: {error.strerror}") from None
            self._held[entry.number] = held(entry.number, folder)
        return self._held[entry.number]


@contextmanager
def shelf() -> Iterator[Shelf]:
    """Open a shelf that vanishes at the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-ledger-") as folder:
        yield Shelf(Path(folder))


def held(number: int, public: Path) -> Held:
    """Return a public folder as a release to be linked."""
    found = received(public)
    if found is None:
        raise InputError(f"{public} is no release: it has no manifest.json")
    place, manifest = found
    return Held(number, place, manifest)

"""The releases of a ledger as folders that can be linked, for as long as they are needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import InputError, UsageError
from shoal.ledger.book import Ledger
from shoal.ledger.evaluating import Held
from shoal.ledger.records import Entry
from shoal.release import received


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

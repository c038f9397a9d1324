"""Settling an entry, once its release is in place or never was; without linking, which is only loaded for a ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.core.errors import ShoalError
from shoal.linking.ledger.book import Ledger
from shoal.linking.ledger.files import same_files
from shoal.linking.ledger.records import Entry
from shoal.release.release import PUBLIC


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

"""Entering releases that exist already: made before there was a ledger, or elsewhere."""

from __future__ import annotations

from pathlib import Path

from shoal.core.errors import InputError, UsageError, VerificationError
from shoal.core.progress import Progress
from shoal.linking.ledger.book import NEW, Ledger
from shoal.linking.ledger.entering import check_ledger, enter, held
from shoal.linking.ledger.files import stored_files
from shoal.linking.ledger.options import LedgerOptions
from shoal.linking.ledger.settling import Entered
from shoal.release.release import PUBLIC
from shoal.sources.opening import open_source
from shoal.sources.options import SourceOptions
from shoal.verify.verifier import verify_folder


def add(options: LedgerOptions, folder: Path, source: Path | None, progress: Progress) -> Entered:
    """Verify a release and enter it as published; nothing can refuse what is out already.

    With its *source* the release is verified against it, and linked for its rows.
    """
    if not folder.is_dir():
        raise InputError(f"there is no release {folder}")
    check_ledger(options, folder)
    release = held(NEW, folder)
    tokens = release.manifest.get("missing", {}).get("tokens", [""])
    people = None if source is None else open_source(source, SourceOptions(missing=tokens))
    verification = verify_folder(release.folder, source=people, progress=progress)
    if not verification.verified:
        raise VerificationError("the release was not entered: " + "; ".join(verification.failures))
    _refuse_known(options, release.folder)
    home = release.folder.parent if release.folder.name == PUBLIC else release.folder
    entered = enter(options, release, home, people, "added", progress)
    with entered:
        return entered


def _refuse_known(options: LedgerOptions, public: Path) -> None:
    """Raise if the same files were entered for the same recipient."""
    if not options.path.exists():
        return
    files = stored_files(public)
    with Ledger.open(options.path) as ledger:
        population = ledger.chosen(options.population)
        for entry in ledger.entries(population):
            if entry.counts and entry.files == files and entry.recipient == options.recipient:
                raise UsageError(f"the release is in the ledger already, as number {entry.number}")

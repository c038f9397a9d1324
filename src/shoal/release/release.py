"""A release: its public and internal parts, and how both get into place.

Everything is written to a staging folder next to the destination. The data wait there as ``unverified/``. Once the
verifier has accepted them, the whole folder moves to its place, and ``unverified/`` becomes ``public/`` last. A failed
or killed run leaves no ``public/`` folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.core.documents import read_json
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import show
from shoal.manifest import Manifest, ManifestError, read_manifest
from shoal.sources.addresses import is_address_as_path

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from shoal.audit.decision import Decision
    from shoal.core.arrays import BoolArray
    from shoal.core.results import Finding
    from shoal.release.forms.base import Form
    from shoal.release.sliced.estimating import SlicedData
    from shoal.release.sliced.query import Estimate, Query
    from shoal.release.sliced.table import SlicedTable
    from shoal.utility.base import Utility
    from shoal.verify.result import Verification

UNVERIFIED = "unverified"
PUBLIC = "public"
INTERNAL = "internal"
_STAGING = re.compile(r"\..+\.[0-9a-f]{32}\.staging")
CLASS = "class"  # the column with the number of the class in a release by an agency's plan


@dataclass(frozen=True, slots=True)
class Release:
    """A verified release.

    ``data`` has the type of the input, or is None if the release was written to ``folder``; ``manifest`` is public;
    ``evidence``, ``decision`` and ``sampled`` are for the data holder only.
    """

    manifest: Mapping[str, Any]
    evidence: Mapping[str, Any]
    verification: Verification
    decision: Decision
    data: Any = None
    folder: Path | None = None
    sampled: BoolArray | None = field(default=None, compare=False)  # (n_source_rows,) whether a sample has the record

    @property
    def form(self) -> Form:

        from shoal.release.forms.base import read_form

        return read_form(self.manifest)

    @property
    def guarantees(self) -> list[dict[str, Any]]:
        """Each promised model with its parameters and the achieved parameter."""
        return list(self.manifest["guarantees"])

    @property
    def utility(self) -> Utility:
        """The measures of utility by name; those with values by attribute are mappings."""
        return dict(self.evidence["utility"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The risks that no promise covers, high ones first and open before accepted ones."""
        from shoal.core.results import Finding

        return tuple(map(Finding.from_dict, self.evidence["findings"]))

    @property
    def data_file(self) -> Path | None:

        return None if self.folder is None else self.folder / PUBLIC / str(self.manifest["data"]["file"])

    def report(self, audience: Literal["internal", "public"] = "internal") -> str:
        """Return the report as a self-contained HTML page.

        Parameters
        ----------
        audience
            "internal" for a review board, with the results of attacks if they are recorded in the release's folder;
            "public" for users of the data, with the content of the manifest only.
        """
        return str(show("report", self, audience))

    def _read_sliced(self) -> SlicedData:
        from shoal.release.sliced.estimating import read_sliced

        return read_sliced(self)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return a sliced release as two tables: quasi values by bucket, and counts of sensitive values by bucket."""
        return self._read_sliced().split()

    def slices(self) -> SlicedTable:
        """Return the buckets and parts of a sliced release."""
        return self._read_sliced().table

    def sample_table(self, rng: np.random.Generator | int | None = None) -> Any:
        """Link the parts of a sliced release at random within buckets; the result is one of the possible original
        tables.

        Parameters
        ----------
        rng
            A generator or a seed; by default, the operating system supplies the randomness.
        """
        from shoal.sources.frames import like

        return like(self.data, self._read_sliced().sample_table(rng))

    def estimate(self, query: Query) -> Estimate | pa.Table:
        """Answer a query from the buckets of a sliced release, with its expected error.

        A query with `by` returns a table of the groups with the columns ``value`` and ``error``. For many queries, read
        the release once: ``shoal.read_sliced(release)``.
        """
        return self._read_sliced().estimate(query)

    def multisets(self) -> Any:
        """Return a sliced release with each quasi attribute's values as the multiset of its bucket."""
        from shoal.sources.frames import like

        return like(self.data, self._read_sliced().multisets())

    def __repr__(self) -> str:
        method, rows = self.manifest["method"], self.manifest["rows"]
        return f"Release({method}, {rows:,} rows, verified={self.verification.verified}, folder={self.folder})"

    def _repr_html_(self) -> str:
        return str(show("release", self))


def find_public(folder: Path) -> Path | None:
    """Return the folder with the manifest of a release: ``public`` in the given folder, or the folder itself; else
    None.
    """
    return next((place for place in (folder / PUBLIC, folder) if (place / "manifest.json").is_file()), None)


def find_release(folder: Path) -> tuple[Path, Manifest] | None:
    """Return the public folder of a release and its manifest, given either folder; None without a manifest.

    ``shoal verify`` checks whether the release satisfies its guarantees.
    """
    place = find_public(folder)
    if place is None:
        return None
    path = place / "manifest.json"
    try:
        manifest = read_manifest(read_json(path.read_bytes()))
        if manifest.data is None:
            raise ValueError("a written release has data")
    except (OSError, ValueError, ManifestError) as fault:
        why = f" ({fault})" if isinstance(fault, ManifestError) else ""
        raise InputError(f"{path} is not the manifest of a release{why}; run `shoal verify` on its folder") from None
    return place, manifest


def read_internal(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file in the internal folder."""
    try:
        found = read_json(path.read_bytes())
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read as JSON") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} does not hold a JSON object")
    return found


class Staging:
    """A folder next to the destination that replaces it or is removed; it is locked while its run lives.

    Folders of the same user's killed runs are removed first.
    """

    def __init__(self, destination: Path, *, overwrite: bool = False) -> None:
        self._destination = destination
        self._overwrite = overwrite  # whether an earlier release may be replaced
        self._folder: Path | None = None
        self._lock: int | None = None

    def __enter__(self) -> Staging:
        parent = self._destination.parent
        refuse_existing(self._destination, overwrite=self._overwrite)
        self._folder = parent / f".{self._destination.name}.{secrets.token_hex(16)}.staging"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_left(parent)
            self._folder.mkdir(mode=0o700)
            if sys.platform != "win32":
                self._lock = os.open(self._folder, os.O_RDONLY)
                with suppress(OSError):  # some network file systems have no locks; no folder is removed there
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self._folder / UNVERIFIED).mkdir(mode=0o755)
            (self._folder / INTERNAL).mkdir(mode=0o700)
        except BaseException as error:  # after an interrupt, too, the folder has to be removed here
            self.__exit__()
            if isinstance(error, OSError):
                raise UsageError(f"cannot write to {parent}: {error.strerror}") from None
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the staging folder is not open")
        return self._folder

    @property
    def unverified(self) -> Path:
        return self.folder / UNVERIFIED

    @property
    def internal(self) -> Path:
        return self.folder / INTERNAL

    def publish(self, confirm: Callable[[], None] = lambda: None) -> None:
        """Move everything into place, and give the public folder its name last.

        Just before that, *confirm* publishes elsewhere; if it fails, no release is left here. The caller must hold
        interrupts. An earlier release that is replaced is renamed until then, and is restored if anything fails.
        """
        self.folder.chmod(0o755)
        refuse_existing(self._destination, overwrite=self._overwrite)
        earlier = self.folder.with_suffix(".earlier")
        try:
            for folder in (self.unverified, self.internal, self.folder):
                _sync_folder(folder)
            if self._destination.exists():
                self._destination.rename(earlier)
            self.folder.rename(self._destination)
            self._folder = self._destination
            _sync_folder(self._destination.parent)
            confirm()
            (self._destination / UNVERIFIED).rename(self._destination / PUBLIC)
            _sync_folder(self._destination)
        except BaseException as error:
            self.__exit__()  # immediately, because other processes must not find the release in place
            if earlier.exists():
                earlier.rename(self._destination)
            if isinstance(error, OSError):
                raise UsageError(f"cannot move the release to {self._destination}: {error.strerror}") from None
            raise
        self._folder = None
        shutil.rmtree(earlier, ignore_errors=True)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of a block that must not be left half done."""
    if threading.current_thread() is not threading.main_thread():  # signals reach only the main thread
        yield
        return
    waiting: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, lambda number, _: waiting.append(number))
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":  # it cannot open folders
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_left(parent: Path) -> None:
    """Remove the staging folders of this user's killed runs; running processes have theirs locked."""
    if sys.platform == "win32":
        return
    for folder in parent.iterdir():
        if not _STAGING.fullmatch(folder.name):
            continue
        with suppress(OSError):  # of another user, removed by another run, or without locks
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                continue
            opened = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if (folder / INTERNAL).is_dir():  # otherwise its run may still be creating it
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(opened)


def refuse_existing(destination: Path, *, overwrite: bool = False) -> None:
    """Raise if the destination is not a folder, or exists and is not a release to *overwrite*."""
    if is_address_as_path(str(destination)):
        raise UsageError("a database address was given instead of a folder; give a folder, and the address with --to")
    if (destination / UNVERIFIED).is_dir():
        raise UsageError(
            f"{destination} is left from a run that was stopped at its very end, and is not published: remove it. If "
            "that run wrote to a database, drop its new table too"
        )
    if (destination.exists() or destination.is_symlink()) and not (overwrite and _is_release(destination)):
        why = ": it is not a release of shoal alone, so it is not overwritten" if overwrite else ""
        raise UsageError(f"{destination} exists already{why}; choose another folder or remove it first")


def _is_release(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir() or {path.name for path in folder.iterdir()} != {PUBLIC, INTERNAL}:
        return False
    return (folder / INTERNAL / "evidence.json").is_file() and find_release(folder) is not None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write and flush a JSON file with one line for each entry of the two upper levels.

    A manifest can have a hundred thousand labels; indenting all of them would take seconds.
    """
    entries = (f'"{key}": {_object(value)}' for key, value in content.items())
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")


def _object(value: Any) -> str:
    if not isinstance(value, Mapping) or not value:
        return _compact(value)
    entries = (f"  {_compact(str(key))}: {_compact(inner)}" for key, inner in value.items())
    return "{\n" + ",\n".join(entries) + "\n}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file and flush it to the disk."""
    with writing(path), path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write *path* into a message."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path.name}: {error.strerror}; nothing was published") from None

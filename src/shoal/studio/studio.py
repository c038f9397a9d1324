"""The state that all requests of one studio share: its private folder, projects, runs and templates."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal.core.errors import UsageError
from shoal.manifest import Manifest
from shoal.policy.column_types import ColumnType
from shoal.release.release import find_release
from shoal.reports.templates import environment
from shoal.sources.base import Source, SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.jobs import Job, Jobs
from shoal.studio.project import Project, SavedProject, copy_source
from shoal.studio.reading import Reading
from shoal.taxonomies.parse import texts

HOME = Path(__file__).parent
MOST_PROJECTS = 20
_PREFIX = "shoal-studio-"
_LOCK = "lock"
_ATTEMPTS = 10
_UNLOCKED_SECONDS = 3600  # a folder without a lock is being made, or is older than this


class Studio:
    """The state of one studio, in memory and in one private folder."""

    def __init__(self, private: PrivateFolder) -> None:
        self._private = private
        self.folder = private.path
        self.projects: dict[str, Project] = {}
        self.waiting: dict[str, SavedProject] = {}  # saved projects whose tables are not open yet
        self.jobs = Jobs()
        self.templates = environment(HOME / "templates")
        self.templates.filters |= {"upper_first": upper_first, "fix": suggest_fix}
        self._lock = threading.Lock()

    def new_folder(self) -> Path:
        if len(self.projects) >= MOST_PROJECTS:
            raise UsageError(f"{MOST_PROJECTS} tables are open; close one first")
        folder = self.folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    def open(self, asked: Reading, folder: Path, stopped: threading.Event | None = None) -> Project:
        """Read a table and make a project of it, unless reading is *stopped*."""
        return self._add(Project(asked, folder, asked.read(stopped=stopped)))

    def duplicate(self, project: Project) -> Project:
        """Open a table once more, with the same policy and files."""
        folder = self.new_folder()
        asked = replace(project.asked, path=copy_source(project, folder))
        copy = Project(asked, folder, project.found)
        for name in project.list_attached():
            (copy.files / name).hardlink_to(project.files / name)
        copy.title = f"{project.title}, copy"
        copy.change_text(copy.revision, project.policy_text)
        return self._add(copy)

    def read_again(self, project: Project, options: SourceOptions, types: Mapping[str, ColumnType]) -> None:
        """Read the table of a project in another way; every page shows the result."""
        left = project.found.markers, project.found.commas
        asked = replace(project.asked, options=options, types=types, settled=True, earlier=left)
        project.replace_table(asked, asked.read())

    def keep_waiting(self, saved: SavedProject) -> str:
        """Keep a saved project until its table is opened; return a name for it."""
        name = secrets.token_hex(8)
        self.waiting = dict([*self.waiting.items(), (name, saved)][-MOST_PROJECTS:])
        return name

    def _add(self, project: Project) -> Project:
        with self._lock:
            self.projects[project.id] = project
        return project

    def forget(self, project: Project) -> None:
        """Close a project: end its runs and remove its files."""
        with self._lock:
            self.projects.pop(project.id, None)
        for job in list(project.jobs):
            self.jobs.forget(job)
        project.remove()

    def newest(self) -> list[Project]:
        return list(self.projects.values())[::-1]

    def close(self) -> None:
        self.jobs.close()
        self._private.remove()


def upper_first(text: str) -> str:
    """Begin a sentence with a capital letter, unless its first word is a name of a file or a key.

    >>> upper_first("the table is empty"), upper_first("stays.csv is empty"), upper_first("age: too many")
    ('The table is empty', 'stays.csv is empty', 'age: too many')
    """
    first = text.split(" ", 1)[0]
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


class PrivateFolder:
    """A folder of mode 0700 in the system's temporary folder, locked while the studio runs.

    It first removes folders of this user's studios that were killed.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder in *parent*, by default the system's temporary folder."""
        home = Path(tempfile.gettempdir()) if parent is None else parent
        remove_stale(home)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        made = self.path / f"{_LOCK}-new"  # renamed once it is held: other studios remove folders with a free lock
        self._lock: int | None = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder with its content; a second call does nothing."""
        if self._lock is None:
            return
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                break
            time.sleep(0.1)  # a thread that is ending may still write a file
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def remove_stale(parent: Path) -> None:
    """Remove this user's private folders in *parent* whose studio no longer runs."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removes it
            about = folder.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and _is_left(folder, about.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path, changed: float) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - changed > _UNLOCKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def suggest_fix(job: Job) -> tuple[str, str] | None:
    """Return a suggestion and the page for fixing a failed run; None if there is no suggestion."""
    if job.state != "failed" or not job.command.startswith("shoal anonymize "):
        return None
    words, page = "Check the policy", "policy"
    if job.exit_code == 3:
        words, page = "Weaken a guarantee, allow records to be withheld, or choose another method", "guarantees"
    elif "column" in job.message:
        words, page = "Check the columns and their roles", "columns"
    return words, f"/projects/{job.project.id}/{page}"


MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a table, as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: bool  # whether the table has further rows


def open_released(folder: Path) -> tuple[Source, Manifest]:
    found = find_release(folder)
    if found is None:
        raise FileNotFoundError(folder.name)
    place, manifest = found
    return open_source(place / manifest.file, SourceOptions(missing=[""])), manifest


def first_rows(table: Source, columns: Sequence[str], most: int) -> Rows:
    found: list[list[list[str]]] = []  # batches of columns of texts
    held = 0
    for batch in table.batches(list(columns)):
        some = batch.slice(0, most + 1 - held)
        found.append([texts(some.column(name)).fill_null(MISSING).to_pylist() for name in columns])
        held += some.num_rows
        if held > most:
            break
    rows = [row for part in found for row in zip(*part, strict=True)]
    return Rows(tuple(columns), tuple(rows[:most]), more=held > most)

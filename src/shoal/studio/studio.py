"""What all requests of one studio share: its private folder, the projects, the runs and the templates."""

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
from collections.abc import Iterator, Mapping, Sequence
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
_UNLOCKED_SECONDS = 3600  # a folder without a lock is only just being made, or was left long ago


class Studio:
    """The state of one studio, kept in memory and in one private folder."""

    def __init__(self, private: PrivateFolder) -> None:
        self._private = private
        self.folder = private.path
        self.projects: dict[str, Project] = {}
        self.waiting: dict[str, SavedProject] = {}  # projects that were read, and whose tables were not yet
        self.jobs = Jobs()
        self.templates = environment(HOME / "templates")
        self.templates.filters |= {"upper_first": upper_first, "fix": suggest_fix}
        self._lock = threading.Lock()

    def new_folder(self) -> Path:
        """Make an empty private folder for a project."""
        if len(self.projects) >= MOST_PROJECTS:
            raise UsageError(f"{MOST_PROJECTS} tables are open; close one first")
        folder = self.folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    def open(self, asked: Reading, folder: Path, stopped: threading.Event | None = None) -> Project:
        """Read a table once and make a project of it, unless that is *stopped* before."""
        return self._add(Project(asked, folder, asked.read(stopped=stopped)))

    def duplicate(self, project: Project) -> Project:
        """Open a table once more as it was read, with the same policy and files."""
        folder = self.new_folder()
        asked = replace(project.asked, path=copy_source(project, folder))
        copy = Project(asked, folder, project.found)
        for name in project.list_attached():
            (copy.files / name).hardlink_to(project.files / name)
        copy.title = f"{project.title}, copy"
        copy.change_text(copy.revision, project.policy_text)
        return self._add(copy)

    def read_again(self, project: Project, options: SourceOptions, types: Mapping[str, ColumnType]) -> None:
        """Read the table of a project in another way; every page shows that from then on."""
        left = project.found.markers, project.found.commas
        asked = replace(project.asked, options=options, types=types, settled=True, earlier=left)
        project.replace_table(asked, asked.read())

    def keep_waiting(self, saved: SavedProject) -> str:
        """Keep a project that was read until its table comes; return what it is called meanwhile."""
        name = secrets.token_hex(8)
        self.waiting = dict([*self.waiting.items(), (name, saved)][-MOST_PROJECTS:])
        return name

    def _add(self, project: Project) -> Project:
        with self._lock:
            self.projects[project.id] = project
        return project

    def forget(self, project: Project) -> None:
        """Close a project: its runs end and its files go."""
        with self._lock:
            self.projects.pop(project.id, None)
        for job in list(project.jobs):
            self.jobs.forget(job)
        project.remove()

    def newest(self) -> Iterator[Project]:
        yield from reversed(list(self.projects.values()))

    def close(self) -> None:
        """End all runs and remove everything."""
        self.jobs.close()
        self._private.remove()


def upper_first(text: str) -> str:
    """Begin a sentence with a capital, unless its first word is a name of a file or a key.

    >>> upper_first("the table is empty"), upper_first("stays.csv is empty"), upper_first("age: too many")
    ('The table is empty', 'stays.csv is empty', 'age: too many')
    """
    first = text.split(" ", 1)[0]
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


class PrivateFolder:
    """A folder of mode 0700 in the system's temporary folder, locked while the studio lives.

    Folders that studios of the same user left behind, because they were killed, are removed first.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder within *parent*, or where the system keeps what is temporary."""
        home = Path(tempfile.gettempdir()) if parent is None else parent
        remove_stale(home)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        made = self.path / f"{_LOCK}-new"  # it has its name only when it is held: who finds it free removes the folder
        self._lock: int | None = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder with everything in it; a second call does nothing."""
        if self._lock is None:
            return
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                break
            time.sleep(0.1)  # a thread that is being ended still wrote a file
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def remove_stale(parent: Path) -> None:
    """Remove private folders of this user in *parent* whose studio is no more; other people's are never touched."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else removes it as well
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
    """Return words and the path of the page where a run that failed can be fixed; None if there is none."""
    if job.state != "failed" or not job.command.startswith("shoal anonymize "):
        return None
    words, page = "Look at the policy", "policy"
    if job.exit_code == 3:
        words, page = "Ask for less, allow records to be withheld, or choose another method", "guarantees"
    elif "column" in job.message:
        words, page = "Look at the columns and their roles", "columns"
    return words, f"/projects/{job.project.id}/{page}"


MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a table, as texts; *more* says that there are others."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: bool


def open_released(folder: Path) -> tuple[Source, Manifest]:
    """Return the published rows of a release and its manifest."""
    found = find_release(folder)
    if found is None:
        raise FileNotFoundError(folder.name)
    place, manifest = found
    return open_source(place / manifest.file, SourceOptions(missing=[""])), manifest


def first_rows(table: Source, columns: Sequence[str], most: int) -> Rows:
    """Return the first rows of a table."""
    found: list[list[list[str]]] = []  # of some rows: of each column: texts
    held = 0
    for batch in table.batches(list(columns)):
        some = batch.slice(0, most + 1 - held)
        found.append([texts(some.column(name)).fill_null(MISSING).to_pylist() for name in columns])
        held += some.num_rows
        if held > most:
            break
    rows = [row for part in found for row in zip(*part, strict=True)]
    return Rows(tuple(columns), tuple(rows[:most]), more=held > most)

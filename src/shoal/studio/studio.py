"""What all requests of one studio share: the room, the projects, the runs and the templates."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment

from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.policy.drafting import draft_from_profiles
from shoal.policy.profiling import profile_columns
from shoal.reports.templates import environment
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.jobs import Jobs
from shoal.studio.mending import mending
from shoal.studio.project import Project
from shoal.studio.room import Room
from shoal.studio.shelf import Shelf

HOME = Path(__file__).parent
MOST_PROJECTS = 20


class Studio:
    """The state of one studio, kept in memory and in one private folder."""

    def __init__(self, room: Room) -> None:
        """Begin without a project."""
        self.room = room
        self.projects: dict[str, Project] = {}
        self.jobs = Jobs()
        self.shelf = Shelf()
        self.templates = _templates()
        self._lock = threading.Lock()

    def new_folder(self) -> Path:
        """Make an empty private folder for a project."""
        if len(self.projects) >= MOST_PROJECTS:
            raise UsageError(f"{MOST_PROJECTS} tables are open; close one first")
        folder = self.room.folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    def open(self, name: str, source: Path, folder: Path, options: SourceOptions | None = None) -> Project:
        """Read a table once and make a project of it."""
        chosen = options or SourceOptions()
        opened = open_source(source, chosen)
        profile = profile_columns(opened, Silent())
        project = Project(name, source, folder, profile, draft_from_profiles(name, opened, chosen, profile))
        with self._lock:
            self.projects[project.id] = project
        return project

    def forget(self, project: Project) -> None:
        """Close a project: its runs end and its files go."""
        with self._lock:
            self.projects.pop(project.id, None)
        for job in self.jobs.of(project):
            self.jobs.forget(job)
        self.shelf.forget(project.folder)
        self.shelf.forget(project.source)
        project.remove()

    def newest(self) -> Iterator[Project]:
        """Yield the projects, the newest first."""
        yield from reversed(list(self.projects.values()))

    def close(self) -> None:
        """End all runs and remove everything."""
        self.jobs.close()
        self.room.remove()


def upper_first(text: str) -> str:
    """Begin a sentence with a capital, unless its first word is a name of a file or a key.

    >>> upper_first("the table is empty"), upper_first("stays.csv is empty"), upper_first("age: too many")
    ('The table is empty', 'stays.csv is empty', 'age: too many')
    """
    first = text.split(" ", 1)[0]
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def _templates() -> Environment:
    made = environment(HOME / "templates")
    made.filters["upper_first"] = upper_first
    made.filters["mending"] = mending
    return made

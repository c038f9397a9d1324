"""An opened table with its profile, draft, policy and runs; and project files.

The policy document is the source of truth, which people edit as YAML. A project file is readable JSON: the policy with
its taxonomy files, column types and figures of runs. It never has rows of a table.
"""

from __future__ import annotations

import copy
import json
import re
import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from shoal.core.documents import WIDTH, Dumper, load_with_lines
from shoal.core.errors import InputError, PolicyError, ShoalError, UsageError
from shoal.core.wording import count_noun
from shoal.policy.column_types import ColumnType
from shoal.policy.reading import PolicyReader
from shoal.sources.base import SourceOptions, file_digest

if TYPE_CHECKING:
    from shoal.policy.column_types import ColumnType
    from shoal.studio.jobs import Job
    from shoal.studio.reading import Reading, ReadTable


_MOST_ATTACHED = 2 << 30  # bytes of one attached file
NAME = "policy.yaml"
_LONGEST_NAME = 200  # bytes; systems take 255
_PROBLEM = re.compile(rf"{re.escape(NAME)}, (?:line (\d+)(?:, |: ))?(.*)", re.DOTALL)
_PATHS = frozenset({"file", "path", "population", "key", "key_file"})  # names of file parameters


class StaleError(ShoalError):
    """A change was based on an old version: another tab was faster."""

    def __init__(self) -> None:
        super().__init__("the policy was changed in another tab; reload this page and make the change again")


class Project:
    """One opened table; every change of its policy names the revision that it is based on."""

    def __init__(self, asked: Reading, folder: Path, found: ReadTable) -> None:
        """Start from the draft; *folder* is private and belongs to the project."""
        self.id = folder.name
        self.name = self.title = asked.name
        self.source = asked.path
        self.folder = folder
        self.earlier: tuple[dict[str, Any], ...] = ()  # figures of runs of earlier sessions, newest first
        self.files = folder / "files"  # attached files; policies are written here and find them by name
        self.files.mkdir(mode=0o700)
        self.jobs: list[Job] = []  # its runs, newest last
        self.memory: dict[str, Any] = {}  # data of pages for the session
        self.saved = 1  # the saved revision of the policy; the draft counts as saved
        self.revision = 1
        self.policy_text = found.draft.text  # as YAML; comments stay until a form changes it
        self._document: dict[str, Any] = copy.deepcopy(found.draft.policy)
        self._problems: dict[int, tuple[Problem, ...]] = {}  # by revision
        self._lock = threading.RLock()
        self.replace_table(asked, found)

    @property
    def document(self) -> dict[str, Any]:
        """The policy, as a copy that can be changed and passed to :meth:`change`."""
        with self._lock:
            return copy.deepcopy(self._document)

    def replace_table(self, asked: Reading, found: ReadTable) -> None:
        """Replace the table by another reading of it."""
        self.asked, self.found = asked, found
        self.types, self.profile, self.draft, self.rows = asked.types, found.profile, found.draft, found.draft.rows
        self.columns = tuple(column.name for column in found.profile)
        self.memory.pop("columns", None)  # plots of the earlier values

    def change(self, revision: int, document: Mapping[str, Any], text: str | None = None) -> None:
        """Make *document* the policy; raise :class:`StaleError` if *revision* is not the newest."""
        with self._lock:
            if revision != self.revision:
                raise StaleError
            if document == self._document and text is None:
                return
            self._document = copy.deepcopy(dict(document))
            self.policy_text = write_document(document) if text is None else text
            self.revision += 1

    def change_text(self, revision: int, text: str) -> None:
        """Make a YAML text the policy; a text that is not a mapping is refused with its line."""
        self.change(revision, read_document(text), text)

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems that prevent the use of the policy."""
        with self._lock:
            revision, text = self.revision, self.policy_text
        if (found := self._problems.get(revision)) is None:
            found = find_problems(text, self.files, self.columns)
            self._problems = {revision: found}
        return found

    def forget_problems(self) -> None:
        """Discard the known problems, because the attached files have changed."""
        self._problems = {}

    def write_policy(self) -> Path:
        """Write the policy next to the attached files for a run; each run has its own."""
        if outside_names(self._document):
            raise UsageError("the policy names a file with its folder; add the file here and name it without a folder")
        path = self.files / f".{secrets.token_hex(4)}-{NAME}"
        path.write_text(self.policy_text, encoding="utf-8", newline="\n")
        return path

    def new_folder(self, kind: str) -> Path:
        folder = self.folder / f"{kind}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        return folder

    def attach(self, name: str, received: Path) -> None:
        """Add a file, or replace one, under a plain name that the policy can use."""
        if not is_plain(name):
            raise UsageError(f"{name[:100]!r} is not a valid file name; use letters and digits, and no folder")
        size = received.stat().st_size
        if not size:
            raise UsageError(f"{name} is empty")
        if size > _MOST_ATTACHED:
            raise UsageError(f"{name} is larger than {_MOST_ATTACHED >> 30} GB")
        received.replace(self.files / name)
        self.forget_problems()

    def attach_content(self, name: str, content: bytes) -> None:
        received = self.new_folder("attach") / "body"
        received.write_bytes(content)
        self.attach(name, received)
        received.parent.rmdir()

    def list_attached(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self.files.iterdir() if not path.name.startswith(".")))

    def detach(self, name: str) -> None:
        if name in self.list_attached():
            (self.files / name).unlink(missing_ok=True)
            self.forget_problems()

    def format_argument(self, argument: str | Path) -> str:
        """Return an argument as a person would type it: names of files without private folders."""
        text = str(argument)
        if text == str(self.source):
            return self.name
        if isinstance(argument, Path) and argument.is_relative_to(self.folder):
            return NAME if argument.name.endswith(f"-{NAME}") else argument.name
        return text

    def jobs_of(self, kind: str | None = None, **memory: str) -> list[Job]:
        """Return the runs of one kind with this memory, newest first."""
        found = [job for job in self.jobs[::-1] if kind in (None, job.kind)]
        return [job for job in found if memory.items() <= job.memory.items()]

    @property
    def losses(self) -> tuple[str, ...]:
        """Descriptions of unsaved work that closing the table would delete."""
        waiting = sum(job.state == "done" and not job.memory.get("downloaded") for job in self.jobs_of("run"))
        running = sum(job.state == "running" for job in self.jobs)
        found = {
            "changes of the policy since it was saved": self.saved != self.revision,
            f"{count_noun(waiting, 'release')} not downloaded yet": waiting,
            f"{count_noun(running, 'run')} in progress": running,
        }
        return tuple(what for what, lost in found.items() if lost)

    def remove(self) -> None:
        """Remove all files of the project; a table that was opened in place stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that prevents the use of a policy, and its line."""

    line: int | None
    message: str


def write_document(document: Mapping[str, Any]) -> str:
    """Write a policy as YAML, with the innermost mappings on one line.

    >>> policy = {"attributes": {"age": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 5}}]}
    >>> print(write_document(policy), end="")
    attributes:
      age: {role: quasi}
    privacy:
    - k-anonymity: {k: 5}
    """
    return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=WIDTH)


def read_document(text: str) -> dict[str, Any]:
    document, _ = load_with_lines(text, NAME)
    if not isinstance(document, Mapping):
        raise PolicyError(f"{NAME}, line 1: a policy is a mapping with the keys {', '.join(PolicyReader.KEYS)}")
    return dict(document)


def find_problems(text: str, folder: Path, columns: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problems of a policy for a table with these columns and the files in *folder*."""
    found: list[Problem] = []
    try:
        document, lines = load_with_lines(text, NAME)
        found += [
            Problem(lines.get(place), f"{place[-1]}: add the file here and name it without a folder")
            for place in outside_names(document)
        ]
        if found:
            return tuple(found)
        policy = PolicyReader(NAME, lines, folder).policy(document)
        found += [
            Problem(lines.get(("attributes", name)), f"the table has no column {name!r}; remove it here")
            for name in (*policy.attributes, *policy.dropped)
            if name not in columns
        ]
        absent = [name for name in columns if name not in (*policy.attributes, *policy.dropped)]
        found += [Problem(lines.get(("attributes",)), f"column {name!r} of the table has no role") for name in absent]
    except ShoalError as error:
        found += [_problem(line) for line in str(error).split(f"\n{NAME}, ")]
    return tuple(found)


def _problem(message: str) -> Problem:
    matched = _PROBLEM.fullmatch(message if message.startswith(f"{NAME}, ") else f"{NAME}, {message}")
    if matched is None:
        return Problem(None, message)
    return Problem(None if matched[1] is None else int(matched[1]), matched[2])


def outside_names(document: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the places in a document that name a file with a folder.

    >>> outside_names({"privacy": [{"k-map": {"k": 5, "population": "../census.csv"}}]})
    [('privacy', 0, 'k-map', 'population')]
    """
    if isinstance(document, Mapping):
        below = [found for key, value in document.items() for found in outside_names(value, (*place, str(key)))]
    elif isinstance(document, list | tuple):
        below = [found for index, value in enumerate(document) for found in outside_names(value, (*place, index))]
    else:
        below = []
    named = bool(place) and place[-1] in _PATHS and isinstance(document, str) and not is_plain(document)
    return [place, *below] if named else below


def is_plain(name: str) -> bool:
    """Return whether a name is a plain file name: no separators, no leading dot, no special characters.

    >>> is_plain("towns.csv"), is_plain("../towns.csv"), is_plain(".hidden"), is_plain("a\\\\b")
    (True, False, False, False)
    """
    return (
        0 < len(name) <= 100
        and name.isprintable()
        and len(name.encode()) <= _LONGEST_NAME
        and not name.startswith((".", " ", "-"))
        and not any(mark in name for mark in '/\\:*?"<>|')
    )


ENDING = ".shoal"
LARGEST = 64 << 20  # bytes of a project file


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavedTable(_Part):
    """The table of a saved project."""

    name: str
    rows: int
    columns: tuple[str, ...]
    sha256: str


class SavedProject(_Part):
    """The content of a project file."""

    shoal_project: Literal[1] = 1
    title: str
    table: SavedTable
    types: dict[str, ColumnType]
    policy: str
    files: dict[str, str]  # taxonomies, by their names in the policy
    absent: tuple[str, ...]  # other attached files, which may have rows of people
    runs: tuple[dict[str, Any], ...]  # newest first

    @property
    def options(self) -> SourceOptions:
        return SourceOptions(**(read_document(self.policy).get("source") or {}))

    def compare(self, project: Project) -> str:
        """Return a message on whether a table is the one of the saved project."""
        found = list(project.columns)
        absent = [name for name in self.table.columns if name not in found]
        if file_digest(project.source) == self.table.sha256:
            return f"{self.title} is open again with the same table."
        said = f"{self.title} is open again, but with a different table"
        if absent:
            return f"{said}: it lacks {', '.join(absent[:5])}{' and others' if len(absent) > 5 else ''}."
        return f"{said}: it has {project.rows:,} rows, the saved one had {self.table.rows:,}."


def save_project(project: Project, runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a project file; *runs* are the figures of its runs."""
    taxonomies = {
        str(entry["taxonomy"]["file"])
        for entry in (project.document.get("attributes") or {}).values()
        if isinstance(entry, Mapping) and isinstance(entry.get("taxonomy"), Mapping) and "file" in entry["taxonomy"]
    }
    attached = project.list_attached()
    kept = {name: (project.files / name).read_text(encoding="utf-8") for name in attached if name in taxonomies}
    saved = SavedProject(
        title=project.title,
        table=SavedTable(
            name=project.name, rows=project.rows, columns=project.columns, sha256=file_digest(project.source)
        ),
        types=dict(project.types),
        policy=project.policy_text,
        files=kept,
        absent=tuple(name for name in attached if name not in kept),
        runs=tuple(dict(run) for run in runs),
    )
    return saved.model_dump_json(indent=1)


def read_project(text: str, name: str) -> SavedProject:
    try:
        saved = SavedProject.model_validate(json.loads(text))
        read_document(saved.policy)
    except (ValueError, ValidationError):
        raise InputError(f"{name} is not a project file of this version of the studio") from None
    if not all(map(is_plain, saved.files)):
        raise InputError(f"{name} names a file with a folder; only plain names are allowed")
    return saved


def restore(project: Project, saved: SavedProject) -> None:
    """Give an opened table the policy, files and figures of a saved project."""
    for name, content in saved.files.items():
        project.attach_content(name, content.encode())
    project.title, project.earlier = saved.title, saved.runs
    project.change_text(project.revision, saved.policy)
    project.saved = project.revision
    said = saved.compare(project)
    if saved.absent:
        said += f" Project files do not contain these files; add them again: {', '.join(saved.absent)}."
    project.memory["reopened"] = said


def copy_source(project: Project, folder: Path) -> Path:
    """Return the table for a copy of a project: a link in its *folder*, or a file that was opened in place."""
    if not project.source.is_relative_to(project.folder):
        return project.source
    linked = folder / project.source.name
    linked.hardlink_to(project.source)
    return linked

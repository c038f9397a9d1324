"""An opened table with its profile, draft, policy and runs; and projects as files.

The policy document is the truth, and people edit it as YAML. A project file is JSON that people can read: the policy
with its taxonomy files, what was said of the columns, and the figures of runs. It never has rows of the table, nor of a
population or a control table.
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

from shoal.core.documents import WIDTH, load_with_lines
from shoal.core.errors import InputError, PolicyError, ShoalError, UsageError
from shoal.core.wording import count_noun
from shoal.policy.column_types import ColumnType
from shoal.policy.drafting import Draft
from shoal.policy.profiling import ColumnProfile
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
_PATHS = frozenset({"file", "path", "population", "key", "key_file"})  # parameters that name files


class StaleError(ShoalError):
    """A change was made from a version that is no longer the newest: another tab was faster."""

    def __init__(self) -> None:
        """Say what happened and what to do."""
        super().__init__("the policy was changed in another tab; reload this page and make the change again")


class Project:
    """One opened table; every change of its policy names the revision it was made from."""

    def __init__(self, asked: Reading, folder: Path, found: ReadTable) -> None:
        """Start from the draft; *folder* is private and the project's own."""
        self.id = folder.name
        self.asked, self.found = asked, found
        self.name = self.title = asked.name  # of the file, as people know it
        self.source = asked.path
        self.folder = folder
        self.earlier: tuple[dict[str, Any], ...] = ()  # figures of runs of earlier sessions, the newest first
        self.files = folder / "files"  # what is attached; policies are written here, so they find it by its name
        self.files.mkdir(mode=0o700)
        self.jobs: list[Job] = []  # its runs, the newest last
        self.memory: dict[str, Any] = {}  # what pages keep for the session, by a key of their own
        self.saved = 1  # the revision of the policy that somebody has; the draft can be made again
        self._lock = threading.RLock()
        self._revision = 1
        self._document: dict[str, Any] = copy.deepcopy(found.draft.policy)
        self._text = found.draft.text
        self._problems: tuple[int, tuple[Problem, ...]] | None = None

    @property
    def profile(self) -> tuple[ColumnProfile, ...]:
        """What each column looks like, as it was read last."""
        return self.found.profile

    @property
    def draft(self) -> Draft:
        """The draft of a policy for the table as it was read last."""
        return self.found.draft

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return self.asked.types

    @property
    def rows(self) -> int:
        return self.draft.rows

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.profile)

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def document(self) -> dict[str, Any]:
        """The policy, as a copy that may be changed and given to :meth:`change`."""
        with self._lock:
            return copy.deepcopy(self._document)

    @property
    def policy_text(self) -> str:
        """The policy as YAML; comments stay as long as no form changes it."""
        return self._text

    def replace_table(self, asked: Reading, found: ReadTable) -> None:
        """Show the table as it was read now."""
        self.asked, self.found = asked, found
        self.memory.pop("columns", None)  # plots of the values as they were read before

    def change(self, revision: int, document: Mapping[str, Any], text: str | None = None) -> None:
        """Make *document* the policy, or raise :class:`StaleError` if *revision* is not the newest."""
        with self._lock:
            if revision != self._revision:
                raise StaleError
            if document == self._document and text is None:
                return
            self._document = copy.deepcopy(dict(document))
            self._text = write_document(document) if text is None else text
            self._revision += 1

    def change_text(self, revision: int, text: str) -> None:
        """Make what a text writes the policy; a text that is no mapping is refused with its line."""
        self.change(revision, read_document(text), text)

    def problems(self) -> tuple[Problem, ...]:
        """Return what keeps the policy from being used; empty if it can be."""
        with self._lock:
            revision, text = self._revision, self._text
            if self._problems is not None and self._problems[0] == revision:
                return self._problems[1]
        found = find_problems(text, self.files, self.columns)
        with self._lock:
            self._problems = revision, found
        return found

    def forget_problems(self) -> None:
        """Look anew at the next question: the attached files are others now."""
        with self._lock:
            self._problems = None

    def write_policy(self) -> Path:
        """Write the policy beside the attached files for a run to read; each run has its own."""
        if outside_names(self._document):
            raise UsageError("the policy names a file by its path; only files that were added here can be named")
        path = self.files / f".{secrets.token_hex(4)}-{NAME}"
        path.write_text(self.policy_text, encoding="utf-8", newline="\n")
        return path

    def new_folder(self, kind: str) -> Path:
        """Make an empty private folder for a run."""
        folder = self.folder / f"{kind}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        return folder

    def attach(self, name: str, received: Path) -> None:
        """Take a file in under its plain name, for the policy to name; a path is refused, one of that name replaced."""
        if not is_plain(name):
            raise UsageError(f"{name[:100]!r} is not a valid file name; use letters and digits, and no folder")
        size = received.stat().st_size
        if not size:
            raise UsageError(f"{name} is empty")
        if size > _MOST_ATTACHED:
            raise UsageError(f"{name} is larger than {_MOST_ATTACHED >> 30} GB")
        received.replace(self.files / name)
        self.forget_problems()

    def list_attached(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self.files.iterdir() if not path.name.startswith(".")))

    def detach(self, name: str) -> None:
        if name in self.list_attached():
            (self.files / name).unlink(missing_ok=True)
            self.forget_problems()

    def format_argument(self, argument: str | Path) -> str:
        """Return an argument as a person would type it: names of files, not where they lie."""
        text = str(argument)
        if text == str(self.source):
            return self.name
        if isinstance(argument, Path) and argument.is_relative_to(self.folder):
            return NAME if argument.name.endswith(f"-{NAME}") else argument.name
        return text

    def jobs_of(self, kind: str | None = None, **memory: str) -> list[Job]:
        """Return the runs, the newest first: those of one kind, and those that keep the same, if that is given."""
        found = [job for job in self.jobs[::-1] if kind in (None, job.kind)]
        return [job for job in found if memory.items() <= job.memory.items()]

    @property
    def losses(self) -> tuple[str, ...]:
        """What would be lost if the table were closed now, in words; nothing if all of it was saved."""
        waiting = sum(job.state == "done" and not job.memory.get("downloaded") for job in self.jobs_of("run"))
        running = sum(job.state == "running" for job in self.jobs)
        found = {
            "the policy with the changes made since it was saved": self.saved != self._revision,
            f"{count_noun(waiting, 'release')} not downloaded yet": waiting,
            f"{count_noun(running, 'run')} under way": running,
        }
        return tuple(what for what, lost in found.items() if lost)

    def remove(self) -> None:
        """Remove everything that belongs to the project; a table that was read in place stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps a policy from being used, and on which line of its text."""

    line: int | None
    message: str


class _Dumper(yaml.SafeDumper):
    """Writes YAML without references to parts that are written elsewhere."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def write_document(document: Mapping[str, Any]) -> str:
    """Write a policy as YAML, what is innermost on one line; reading it gives it back.

    >>> policy = {"attributes": {"age": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 5}}]}
    >>> print(write_document(policy), end="")
    attributes:
      age: {role: quasi}
    privacy:
    - k-anonymity: {k: 5}
    """
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=WIDTH
    )


def read_document(text: str) -> dict[str, Any]:
    """Return the document that a text writes; raise a PolicyError with the line if it is none."""
    document, _ = load_with_lines(text, NAME)
    if not isinstance(document, Mapping):
        raise PolicyError(f"{NAME}, line 1: a policy is a mapping with the keys {', '.join(PolicyReader.KEYS)}")
    return dict(document)


def find_problems(text: str, folder: Path, columns: Sequence[str]) -> tuple[Problem, ...]:
    """Return what is wrong with a policy for a table with these columns; files it names lie in *folder* alone."""
    found: list[Problem] = []
    try:
        document, lines = load_with_lines(text, NAME)
        found += [
            Problem(lines.get(place), f"{place[-1]}: only files that were added here can be named, without a folder")
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
    """Return the places in a document that name a file by more than a plain name.

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
    """Whether a name is that of a file in the folder itself: no separators, no leading dot, nothing odd.

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
    """Which table a project is about."""

    name: str
    rows: int
    columns: tuple[str, ...]
    sha256: str


class SavedProject(_Part):
    """What a project file has."""

    shoal_project: Literal[1] = 1
    title: str
    table: SavedTable
    types: dict[str, ColumnType]
    policy: str
    files: dict[str, str]  # of taxonomies, by the names under which the policy has them
    absent: tuple[str, ...]  # names of other files that were added, which may have rows of people
    runs: tuple[dict[str, Any], ...]  # the newest first

    @property
    def options(self) -> SourceOptions:
        return SourceOptions(**(read_document(self.policy).get("source") or {}))

    def compare(self, project: Project) -> str:
        """Say whether a table is the one that the project was saved from."""
        found = list(project.columns)
        absent = [name for name in self.table.columns if name not in found]
        if file_digest(project.source) == self.table.sha256:
            return f"{self.title} is open again with the same table."
        said = f"{self.title} is open again, with another table than the one it was saved from"
        if absent:
            return f"{said}: {', '.join(absent[:5])}{' and others are' if len(absent) > 5 else ' is'} not in it."
        return f"{said}: it has {project.rows:,} rows, that one had {self.table.rows:,}."


def save_project(project: Project, runs: Sequence[Mapping[str, Any]]) -> str:
    """Write a project as the text of a project file; *runs* are the figures of its runs."""
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
    """Read a project file; what is none is refused."""
    try:
        saved = SavedProject.model_validate(json.loads(text))
        read_document(saved.policy)
    except (ValueError, ValidationError):
        raise InputError(f"{name} is no project file that this version of the studio can read") from None
    if not all(map(is_plain, saved.files)):
        raise InputError(f"{name} has files whose names are no plain names")
    return saved


def restore(project: Project, saved: SavedProject) -> None:
    """Give an opened table the policy, the files and the figures of a saved project."""
    for name, content in saved.files.items():
        received = project.new_folder("attach") / "body"
        received.write_text(content, encoding="utf-8")
        project.attach(name, received)
        received.parent.rmdir()
    project.title, project.earlier = saved.title, saved.runs
    project.change_text(project.revision, saved.policy)
    project.saved = project.revision
    said = saved.compare(project)
    if saved.absent:
        said += f" Files that are not saved with a project have to be added again: {', '.join(saved.absent)}."
    project.memory["reopened"] = said


def copy_source(project: Project, folder: Path) -> Path:
    """Return the table for a copy of a project: a link in its *folder*, or where it is if nobody will remove it."""
    if not project.source.is_relative_to(project.folder):
        return project.source
    linked = folder / project.source.name
    linked.hardlink_to(project.source)
    return linked

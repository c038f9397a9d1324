"""An opened table with its profile, draft, policy and runs; the policy document is the truth."""

from __future__ import annotations

import copy
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from shoal.core.errors import ShoalError, UsageError
from shoal.policy.drafting import Draft
from shoal.policy.profiling import ColumnProfile
from shoal.studio.documents import NAME, Problem, is_plain, outside_names, problems, read, written

_MOST_ATTACHED = 2 << 30  # bytes of one attached file


class StaleError(ShoalError):
    """A change was made from a version that is no longer the newest: another tab was faster."""

    def __init__(self) -> None:
        """Say what happened and what to do."""
        super().__init__("the policy was changed in another tab; reload this page and make the change again")


class Project:
    """One opened table; every change of its policy names the revision it was made from."""

    def __init__(self, name: str, source: Path, folder: Path, profile: tuple[ColumnProfile, ...], draft: Draft) -> None:
        """Start from the draft; *folder* is private and the project's own."""
        self.id = folder.name
        self.name = name  # of the file, as people know it
        self.source = source
        self.folder = folder
        self.profile = profile
        self.draft = draft
        self.files = folder / "files"  # what is attached; policies are written here, so they find it by its name
        self.files.mkdir(mode=0o700)
        self.memory: dict[str, Any] = {}  # what pages keep for the session, by a key of their own
        self._lock = threading.RLock()
        self._revision = 1
        self._document: dict[str, Any] = copy.deepcopy(draft.policy)
        self._text = draft.text
        self._problems: tuple[int, tuple[Problem, ...]] | None = None

    @property
    def rows(self) -> int:
        """Records of the table."""
        return self.draft.rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the table."""
        return tuple(column.name for column in self.profile)

    @property
    def revision(self) -> int:
        """Number of the newest version of the policy."""
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

    def change(self, revision: int, document: Mapping[str, Any], text: str | None = None) -> None:
        """Make *document* the policy, or raise :class:`StaleError` if *revision* is not the newest."""
        with self._lock:
            if revision != self._revision:
                raise StaleError
            if document == self._document and text is None:
                return
            self._document = copy.deepcopy(dict(document))
            self._text = written(document) if text is None else text
            self._revision += 1

    def change_text(self, revision: int, text: str) -> None:
        """Make what a text writes the policy; a text that is no mapping is refused with its line."""
        self.change(revision, read(text), text)

    def problems(self) -> tuple[Problem, ...]:
        """Return what keeps the policy from being used; empty if it can be."""
        with self._lock:
            revision, text = self._revision, self._text
            if self._problems is not None and self._problems[0] == revision:
                return self._problems[1]
        found = problems(text, self.files, self.columns)
        with self._lock:
            self._problems = revision, found
        return found

    def forget_problems(self) -> None:
        """Look anew at the next question: the attached files are others now."""
        with self._lock:
            self._problems = None

    def write_policy(self, document: Mapping[str, Any] | None = None) -> Path:
        """Write the policy (or *document*) beside the attached files for a run to read; each run has its own."""
        if outside_names(self._document if document is None else document):
            raise UsageError("the policy names a file by its path; only files that were added here can be named")
        path = self.files / f".{secrets.token_hex(4)}-{NAME}"
        path.write_text(self.policy_text if document is None else written(document), encoding="utf-8", newline="\n")
        return path

    def new_folder(self, kind: str) -> Path:
        """Make an empty private folder for a run."""
        folder = self.folder / f"{kind}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        return folder

    def attach(self, name: str, parts: Iterable[bytes] | IO[bytes]) -> str:
        """Keep a file under its plain name, for the policy to name; a path is refused. One of that name is replaced."""
        if not is_plain(name):
            raise UsageError(f"{name[:100]!r} is no name for a file; use letters and digits, and no folder")
        partial = self.files / f".{secrets.token_hex(8)}.partial"
        size = 0
        try:
            with partial.open("xb") as file:
                for part in _parts(parts):
                    size += len(part)
                    if size > _MOST_ATTACHED:
                        raise UsageError(f"{name} is larger than {_MOST_ATTACHED >> 30} GB")
                    file.write(part)
            if not size:
                raise UsageError(f"{name} is empty")
            partial.replace(self.files / name)
        finally:
            partial.unlink(missing_ok=True)
        self.forget_problems()
        return name

    def attached(self) -> tuple[str, ...]:
        """Return the names of the attached files."""
        return tuple(sorted(path.name for path in self.files.iterdir() if not path.name.startswith(".")))

    def detach(self, name: str) -> None:
        """Remove an attached file."""
        if name in self.attached():
            (self.files / name).unlink(missing_ok=True)
            self.forget_problems()

    def shown(self, argument: str | Path) -> str:
        """Return an argument as a person would type it: names of files, not where they lie."""
        text = str(argument)
        if text == str(self.source):
            return self.name
        if isinstance(argument, Path) and argument.is_relative_to(self.folder):
            return NAME if argument.name.endswith(f"-{NAME}") else argument.name
        return text

    def remove(self) -> None:
        """Remove everything that belongs to the project; a table that was read in place stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _parts(given: Iterable[bytes] | IO[bytes]) -> Iterator[bytes]:
    reading: Callable[[int], bytes] | None = getattr(given, "read", None)
    if reading is None:
        yield from given
        return
    while part := reading(1 << 20):
        yield part

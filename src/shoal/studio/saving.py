"""Projects as files: the policy with its taxonomy files, what was said of the columns, and the figures of runs.

A project file is JSON that people can read. It never has rows of the table, nor of a population or a control table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shoal.core.errors import InputError
from shoal.policy.guessing import ColumnType
from shoal.sources.base import SourceOptions, file_digest
from shoal.studio.project import Project, is_plain, read_document

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
        """How the policy says that the table is read."""
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

"""Changes that ``faults.yaml`` can name: of the manifest, of rows, and of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.drafts import Draft

Spoil = Callable[[Draft], Any]


def combine_changes(named: Mapping[str, Any]) -> Spoil:
    """Return all changes of an entry as one, in their order."""

    def spoil(draft: Draft) -> None:
        for name, arguments in named.items():
            change = CHANGES[name]
            if isinstance(arguments, dict):
                change(draft, **arguments)
            else:
                change(draft, *arguments)

    return spoil


def find_place(draft: Draft, *path: Any) -> Any:
    """Return what a path of keys and places leads to in the manifest."""
    place: Any = draft.manifest
    for step in path:
        place = place[step]
    return place


def set_entry(draft: Draft, *path: Any) -> None:
    """Change the manifest: all arguments but the last lead to an entry, the last is its new value."""
    *above, key, value = path
    find_place(draft, *above)[key] = value


def add_entry(draft: Draft, *path: Any) -> None:
    """Append the last argument to a list of the manifest, to which the others lead."""
    *above, value = path
    find_place(draft, *above).append(value)


def remove_entry(draft: Draft, *path: Any) -> None:
    """Remove an entry of the manifest."""
    *above, key = path
    del find_place(draft, *above)[key]


def set_limit(draft: Draft, parameter: str, value: Any) -> None:
    """Change a parameter of the first guarantee."""
    set_entry(draft, "guarantees", 0, "parameters", parameter, value)


def set_text(draft: Draft, old: str, new: str) -> None:
    """Change the text of the manifest, once."""
    draft.close()
    text = (draft.public / "manifest.json").read_text("utf-8")
    if old not in text:
        raise LookupError(old)
    draft.text = text.replace(old, new, 1)


def set_bytes(draft: Draft, old: str, new: str) -> None:
    """Change the bytes of the data file, once; they are given as characters of Latin-1."""
    path = draft.public / "data.csv"
    content = path.read_bytes()
    if old.encode("latin-1") not in content:
        raise LookupError(old)
    path.write_bytes(content.replace(old.encode("latin-1"), new.encode("latin-1"), 1))


def set_cell(draft: Draft, column: int, value: str, name: str = "data.csv") -> None:
    """Change one field of the first row of a CSV file."""
    with draft.edit_lines(name) as lines:
        lines[1][column] = value


def replace_values(draft: Draft, column: int, old: str | None, new: str, within: Any = None) -> None:
    """Change a value, or all values of a column, perhaps only in rows that have a value in another column."""
    with draft.edit_lines() as lines:
        for line in lines[1:]:
            if old in (None, line[column]) and (within is None or line[within[0]] == within[1]):
                line[column] = new


def cut_file(draft: Draft, name: str, n_bytes: int) -> None:
    """Cut off the end of a public file."""
    path = draft.public / name
    path.write_bytes(path.read_bytes()[:-n_bytes])


def write_file(draft: Draft, name: str, text: str) -> None:
    """Write a file into the public folder."""
    (draft.public / name).write_text(text, "utf-8")


def append_text(draft: Draft, name: str, text: str) -> None:
    """Write more text to the end of a file of the case."""
    path = draft.folder / name
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def remove_file(draft: Draft, name: str) -> None:
    """Remove a file of the case."""
    (draft.folder / name).unlink()


def move_data(draft: Draft) -> None:
    """Move the data file out of the public folder."""
    (draft.public / "data.csv").rename(draft.folder / "data.csv")
    draft.restate = False


def keep_digests(draft: Draft, *kinds: str) -> None:
    """Leave the digests of data files, or the recorded digest of the manifest, as they were."""
    draft.restate = "data" not in kinds
    draft.record = "manifest" not in kinds


def act(draft: Draft, **action: str) -> None:
    """Let the runner do something that git cannot carry."""
    draft.actions.append(action)


CHANGES: Mapping[str, Callable[..., None]] = {
    "set": set_entry,
    "add": add_entry,
    "remove": remove_entry,
    "limit": set_limit,
    "text": set_text,
    "bytes": set_bytes,
    "cell": set_cell,
    "values": replace_values,
    "cut": cut_file,
    "write": write_file,
    "append": append_text,
    "delete": remove_file,
    "move": move_data,
    "keep": keep_digests,
    "parquet": Draft.rewrite_parquet,
    "act": act,
}
